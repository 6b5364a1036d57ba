package child_test

import (
	"errors"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/zddsupervisor/zddsupervisor/child"
)

func TestLookupCredential(t *testing.T) {
	t.Parallel()
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	group, err := user.LookupGroupId(me.Gid)
	if err != nil {
		t.Fatal(err)
	}
	uid, gid := number(t, me.Uid), number(t, me.Gid)
	for _, test := range []struct{ user, group string }{
		{me.Username, ""}, {me.Uid, ""}, {me.Username, group.Name}, {me.Uid, group.Gid},
	} {
		c, err := child.LookupCredential(test.user, test.group)
		if err != nil || c.UID != uid || c.GID != gid {
			t.Errorf("%v: %+v, %v", test, c, err)
		}
		if err == nil && !slices.Contains(c.Groups, gid) {
			t.Errorf("%v: groups %v without %d", test, c.Groups, gid)
		}
	}
	// Numbers that stand for nobody.
	if c, err := child.LookupCredential("54321", "54322"); err != nil || c.UID != 54321 || c.GID != 54322 || len(c.Groups) > 0 {
		t.Errorf("numbers: %+v, %v", c, err)
	}
	// Another group takes the place of the primary one.
	if c, err := child.LookupCredential(me.Username, "54322"); err != nil || c.GID != 54322 || slices.Contains(c.Groups, gid) {
		t.Errorf("another group: %+v, %v", c, err)
	}
	for _, test := range []struct {
		user, group, want string
		unknown           any
	}{
		{"no-such-user", "", `there is no user "no-such-user"`, new(user.UnknownUserError)},
		{me.Username, "no-such-group", `there is no group "no-such-group"`, new(user.UnknownGroupError)},
		{"54321", "", `its group has to be given too`, nil},
		{"4294967295", "0", `there is no user "4294967295"`, nil},
		{"-1", "0", `there is no user "-1"`, new(user.UnknownUserError)},
		{"", "", `there is no user ""`, nil},
	} {
		c, err := child.LookupCredential(test.user, test.group)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q, %q: %+v, %v; want %s", test.user, test.group, c, err, test.want)
		}
		if test.unknown != nil && !errors.As(err, test.unknown) {
			t.Errorf("%q, %q: cannot be told apart: %v", test.user, test.group, err)
		}
	}
}

func number(t testing.TB, s string) uint32 {
	t.Helper()
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	return uint32(n)
}

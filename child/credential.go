package child

import (
	"errors"
	"fmt"
	"os/user"
	"slices"
	"strconv"
)

// A Credential is who a process runs as. Groups are the supplementary groups,
// all of them: an empty list means none.
type Credential struct {
	UID, GID uint32
	Groups   []uint32
}

// LookupCredential finds a user and a group, each by name or by number. Without a
// group it is the user's primary one, and the supplementary groups are the user's.
// A number that stands for no user is taken as it is, but then a group is needed.
// It reads the user database and may block.
func LookupCredential(userName, groupName string) (*Credential, error) {
	u, err := lookupUser(userName)
	if err != nil {
		return nil, err
	}
	var c Credential
	if c.UID, err = parseID(u.Uid); err != nil {
		return nil, fmt.Errorf("user %q has the number %q: %w", userName, u.Uid, err)
	}
	gid := u.Gid
	if groupName != "" {
		if gid, err = lookupGroup(groupName); err != nil {
			return nil, err
		}
	} else if gid == "" {
		return nil, fmt.Errorf("user %q is not in the user database, so its group has to be given too", userName)
	}
	if c.GID, err = parseID(gid); err != nil {
		return nil, fmt.Errorf("group %q has the number %q: %w", groupName, gid, err)
	}
	if u.Username == "" {
		return &c, nil
	}
	groups, err := u.GroupIds()
	if err != nil {
		return nil, fmt.Errorf("find the groups of user %q: %w", userName, err)
	}
	for _, g := range groups {
		id, err := parseID(g)
		if err != nil {
			return nil, fmt.Errorf("user %q is in the group %q: %w", userName, g, err)
		}
		// Another group replaces the primary one, as systemd's Group= does.
		if g == u.Gid && gid != u.Gid {
			continue
		}
		if !slices.Contains(c.Groups, id) {
			c.Groups = append(c.Groups, id)
		}
	}
	return &c, nil
}

// lookupUser returns a user with nothing but the number if nobody has that.
func lookupUser(name string) (*user.User, error) {
	u, err := user.Lookup(name)
	if err == nil {
		return u, nil
	}
	var unknown user.UnknownUserError
	if !errors.As(err, &unknown) {
		return nil, fmt.Errorf("look up user %q: %w", name, err)
	}
	if _, parseErr := parseID(name); parseErr != nil {
		return nil, &noSuchError{"user", name, err}
	}
	u, err = user.LookupId(name)
	var unknownID user.UnknownUserIdError
	switch {
	case errors.As(err, &unknownID):
		return &user.User{Uid: name}, nil
	case err != nil:
		return nil, fmt.Errorf("look up user %s: %w", name, err)
	}
	return u, nil
}

func lookupGroup(name string) (gid string, err error) {
	g, err := user.LookupGroup(name)
	if err == nil {
		return g.Gid, nil
	}
	var unknown user.UnknownGroupError
	if !errors.As(err, &unknown) {
		return "", fmt.Errorf("look up group %q: %w", name, err)
	}
	if _, parseErr := parseID(name); parseErr != nil {
		return "", &noSuchError{"group", name, err}
	}
	return name, nil
}

// parseID reads a user or group number.
func parseID(s string) (uint32, error) {
	id, err := strconv.ParseUint(s, 10, 32)
	if err != nil {
		return 0, err
	}
	if id == noID {
		return 0, errors.New("not a valid number")
	}
	return uint32(id), nil
}

// noSuchError says that there is no user or group of that name. It wraps the error of the package os/user, whose text says
// the same.
type noSuchError struct {
	what, name string
	err        error
}

func (e *noSuchError) Error() string { return fmt.Sprintf("there is no %s %q", e.what, e.name) }

func (e *noSuchError) Unwrap() error { return e.err }

package child

import (
	"fmt"
	"io/fs"
	"os"
	"slices"
	"syscall"
)

// who names a credential in a sentence.
func who(cred *Credential) string {
	if cred == nil {
		return fmt.Sprintf("the supervisor's user (%d)", os.Geteuid())
	}
	return fmt.Sprintf("the user %d with the group %d", cred.UID, cred.GID)
}

// allowed says whether the permission bits let cred execute a file or enter a
// directory. It knows nothing of access control lists and security modules, and
// is for the wording of errors only.
func allowed(info fs.FileInfo, cred *Credential) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return true
	}
	if cred == nil {
		cred = ownCredential()
	}
	mode := info.Mode().Perm()
	switch {
	case cred.UID == 0:
		return info.IsDir() || mode&0o111 != 0
	case cred.UID == st.Uid:
		return mode&0o100 != 0
	case cred.GID == st.Gid || slices.Contains(cred.Groups, st.Gid):
		return mode&0o010 != 0
	}
	return mode&0o001 != 0
}

func ownCredential() *Credential {
	c := &Credential{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
	groups, _ := os.Getgroups()
	for _, g := range groups {
		c.Groups = append(c.Groups, uint32(g))
	}
	return c
}

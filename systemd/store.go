package systemd

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
)

// Store gives the manager a duplicate of fd, which is borrowed, to keep under
// name: at most 255 printable ASCII characters without ':'. It is passed in again
// when the service is started the next time without having been stopped for
// good, see FileDescriptorStoreMax= in systemd.service(5). The manager says
// nothing where that number is reached, or is 0; it keeps one descriptor only
// once, whatever its names. It is kept also where it says that it has hung up.
func (n *Notifier) Store(name string, fd *fdpass.FD) error {
	if n == nil {
		return nil
	}
	datagram, err := compose([]string{"FDSTORE=1", "FDNAME=" + name, "FDPOLL=0"})
	if err != nil {
		return err
	}
	// A duplicate of our own, so that nobody can close it under the call.
	own, err := fd.Dup()
	if err != nil {
		return err
	}
	defer own.Close()
	return n.write([]byte(datagram), unix.UnixRights(own.Raw()))
}

// Unstore makes the manager close every descriptor that it keeps under name.
func (n *Notifier) Unstore(name string) error {
	return n.Notify("FDSTOREREMOVE=1", "FDNAME="+name)
}

// Stores reports whether the manager keeps descriptors for this service: systemd
// says so since version 254 in FDSTORE, and before not at all.
func Stores() bool { return os.Getenv("FDSTORE") != "" }

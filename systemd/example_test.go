package systemd_test

import (
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"

	"github.com/zddsupervisor/zddsupervisor/systemd"
)

// A supervisor listens to its service on a notify socket of its own, and tells
// its manager what it hears.
func Example() {
	manager, err := systemd.NewNotifier(os.Getenv("NOTIFY_SOCKET"))
	if err != nil {
		log.Fatal(err)
	}
	sockets, err := systemd.Inherited()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("sockets from a .socket unit:", len(sockets))

	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	receiver, err := systemd.Listen(filepath.Join(dir, "notify"), 0o600)
	if err != nil {
		log.Fatal(err)
	}

	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			m, err := receiver.Receive()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil {
				log.Print(err)
				continue
			}
			if m.Sender.PID != os.Getpid() { // here the service is this process
				continue
			}
			if m.Ready {
				fmt.Println("ready:", m.Status)
				manager.Ready(m.Status)
			}
			if m.Barrier {
				m.BarrierFD.Close()
			}
			if m.Stopping {
				fmt.Println("stopping")
				receiver.Close()
			}
		}
	}()

	service, err := systemd.NewNotifier(receiver.Path())
	if err != nil {
		log.Fatal(err)
	}
	if err := service.Ready("serving on port 80"); err != nil {
		log.Fatal(err)
	}
	if err := service.Stopping(""); err != nil {
		log.Fatal(err)
	}
	<-done

	// Output:
	// sockets from a .socket unit: 0
	// ready: serving on port 80
	// stopping
}

func ExampleUnit() {
	text, err := systemd.Unit{
		Name:   "svc",
		Binary: "/usr/bin/zddsupervisor",
		Config: "/etc/zddsupervisor/svc.toml",
	}.Text()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(text[:7])
	// Output: [Unit]
}

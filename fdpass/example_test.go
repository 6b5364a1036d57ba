package fdpass_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"strings"
	"time"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
)

// serveOne stands for a generation of the service: it takes the descriptor over
// as a child process would, and answers one connection.
func serveOne(fd *fdpass.FD, answer string) {
	f := os.NewFile(uintptr(fd.Disown()), "listener")
	ln, err := net.FileListener(f)
	f.Close()
	if err != nil {
		log.Fatal(err)
	}
	defer ln.Close()
	c, err := ln.Accept()
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, answer)
}

// ask reads what the service answers.
func ask(addr string) string {
	c, err := net.Dial("tcp", strings.TrimPrefix(addr, "tcp://"))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	answer, err := io.ReadAll(c)
	if err != nil {
		log.Fatal(err)
	}
	return string(answer)
}

// The life of one socket: opened, lent to a first and a second generation, kept
// over a reload, and retired.
func Example() {
	spec, err := fdpass.ParseSpec("http=tcp://127.0.0.1:0?backlog=100")
	if err != nil {
		log.Fatal(err)
	}
	bound, _, err := fdpass.Open([]fdpass.Spec{spec}, fdpass.OpenOptions{})
	if err != nil {
		log.Fatal(err)
	}
	socket := bound[0].Socket

	join := func(gen int) *fdpass.FD {
		fd, err := socket.Join(gen, 0)
		if err != nil {
			log.Fatal(err)
		}
		return fd
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		serveOne(join(1), "generation 1")
	}()
	fmt.Println(ask(socket.Addr()))
	<-done

	// A reload with the same address, under another name: the socket stays.
	spec.Name = "web"
	bound, fresh, err := fdpass.Open([]fdpass.Spec{spec}, fdpass.OpenOptions{Have: bound})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(bound[0].Spec.Name, "is the same socket:", bound[0].Socket == socket && len(fresh) == 0)

	second := join(2)
	if err := socket.Cutover(2); err != nil {
		log.Fatal(err)
	}
	if _, err := fdpass.Settle(context.Background(), bound, 1, time.Second); err != nil {
		log.Fatal(err)
	}
	if err := socket.Leave(1); err != nil {
		log.Fatal(err)
	}
	done = make(chan struct{})
	go func() {
		defer close(done)
		serveOne(second, "generation 2")
	}()
	fmt.Println(ask(socket.Addr()))
	<-done

	if err := socket.Retire(context.Background()); err != nil {
		log.Fatal(err)
	}
	// Output:
	// generation 1
	// web is the same socket: true
	// generation 2
}

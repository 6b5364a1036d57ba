// Command testservice is the service that the integration tests hand over: one that behaves well, and, told so by flags, ones that do not.
//
// By itself it takes its sockets as systemd passes them (sd_listen_fds(3)), answers HTTP on stream and sequenced-packet sockets and
// every datagram on the others, says READY=1, and on SIGTERM accepts what is still in the queue, finishes everything that it has
// accepted, and exits with status 0. Every answer tells the version and the pid: as the headers X-Version and X-Pid, or as the text of a
// datagram. The path /bind listens on a TCP address for a moment, that of the query address=ADDRESS; /info answers with what the process was given, as JSON: see info. The query sleep=DURATION delays an answer, wait=FILE
// does until the file is there, and status=CODE sets its status, with from=N and until=N from the Nth to the Nth request that asks for one.
//
// With -serve=http an answer also has the query's id=ID and the length and checksum of the request's body, as the headers X-Id and X-Body;
// pieces=N answers in pieces, with pauses of every=DURATION, and hold=DURATION waits after the last, with raw=1 up to the connection's end;
// an upgrade to "echo" echoes.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// options are what the flags say.
type options struct {
	version     string
	versionFile string
	serve       string
	work        time.Duration
	keepAlive   bool
	acceptDelay time.Duration
	acceptOnly  string
	bind        string
	reusePort   bool
	ownSockets  int
	log         string
	healthFile  string
	serveAfter  time.Duration

	readyAfter time.Duration
	neverReady bool
	readyFD    int
	notify     messages

	exitAfter   time.Duration
	exitStatus  int
	crashAfter  time.Duration
	crashSignal int
	daemonize   bool
	ignoreTerm  bool
	goOn        while
	holdOpen    while

	workers int
	outlive bool

	closeSockets, shutdownSockets, unlinkSockets bool
	shutdownAfter                                time.Duration

	tree       int
	treeSetsid bool
	leaf       bool
}

// messages are notifications, one for each flag.
type messages []string

func (m *messages) String() string { return strings.Join(*m, " ") }

// Set takes a message in which \n stands for a line's end.
func (m *messages) Set(text string) error {
	message, err := strconv.Unquote(`"` + text + `"`)
	if err != nil {
		return errors.New(`write line ends as \n and no quotes`)
	}
	*m = append(*m, message)
	return nil
}

func parse() options {
	var o options
	const never = -1
	flag.StringVar(&o.version, "version", "1", "the `version` in each answer")
	flag.StringVar(&o.versionFile, "version-file", "", "read the version from this `file` at the start")
	flag.StringVar(&o.serve, "serve", "finish", "`how` HTTP is served: finish (every accepted connection), http (Go's net/http and its Shutdown), or http-shut (the same, and it ends connections with shutdown(2))")
	flag.DurationVar(&o.work, "work", 0, "how long each answer takes")
	flag.BoolVar(&o.keepAlive, "keep-alive", false, "keep connections (finish only; the others always do)")
	flag.DurationVar(&o.acceptDelay, "accept-delay", 0, "pause before each accept (finish only)")
	flag.StringVar(&o.acceptOnly, "accept-only", "", "ignore all sockets but the one of this `name`")
	flag.StringVar(&o.bind, "bind", "", "ignore the passed sockets and listen on this TCP `address`, or on a path after \"unix:\"")
	flag.BoolVar(&o.reusePort, "reuseport", false, "set SO_REUSEPORT before (bind only)")
	flag.IntVar(&o.ownSockets, "reuseport-sockets", 1, "listen with this many sockets on the address (bind only)")
	flag.StringVar(&o.log, "log", "", "write a line for each connection and each request to this `file`")
	flag.StringVar(&o.healthFile, "health-file", "", "answer /health with the status that this `file` holds, if it is there")
	flag.DurationVar(&o.serveAfter, "serve-after", 0, "accept only after this time (http only)")
	flag.DurationVar(&o.readyAfter, "ready-after", 0, "get ready only after this time; sockets are served before")
	flag.BoolVar(&o.neverReady, "never-ready", false, "serve, but never say READY=1")
	flag.IntVar(&o.readyFD, "ready-fd", never, "say that it is ready by a line on this `descriptor`")
	flag.Var(&o.notify, "notify", "send this notification when ready instead of READY=1; repeats")
	flag.DurationVar(&o.exitAfter, "exit-after", never, "exit this long after the start")
	flag.IntVar(&o.exitStatus, "exit-status", 1, "with this status")
	flag.DurationVar(&o.crashAfter, "crash-after", never, "be killed by a signal this long after the start")
	flag.IntVar(&o.crashSignal, "crash-signal", 11, "by this signal")
	flag.BoolVar(&o.daemonize, "daemonize", false, "fork twice into a new session, as daemons did")
	flag.BoolVar(&o.ignoreTerm, "ignore-term", false, "ignore SIGTERM")
	flag.Var(&o.goOn, "go-on", "when stopped, go on for this `while` as if nothing had happened: a time, or until a file is there")
	flag.Var(&o.holdOpen, "hold-open", "when stopped, and all is finished, keep the passed sockets open for this `while`")
	flag.IntVar(&o.workers, "workers", 0, "start this many processes, which serve instead")
	flag.BoolVar(&o.outlive, "outlive", false, "leave the workers behind when stopped")
	flag.BoolVar(&o.closeSockets, "close-sockets", false, "close the passed sockets, then get ready")
	flag.DurationVar(&o.shutdownAfter, "shutdown-after", never, "shutdown(2) the passed sockets this long after the start, or 0 before it is ready")
	flag.BoolVar(&o.shutdownSockets, "shutdown-sockets", false, "shutdown(2) the passed sockets when stopped")
	flag.BoolVar(&o.unlinkSockets, "unlink-sockets", false, "unlink the paths of unix sockets when stopped, and before they are bound")
	flag.IntVar(&o.tree, "tree", 0, "start this many children, each with a child of its own; all ignore SIGTERM")
	flag.BoolVar(&o.treeSetsid, "tree-setsid", false, "the children leave for sessions of their own")
	flag.BoolVar(&o.leaf, "leaf", false, "be one of those children")
	flag.Parse()
	return o
}

func main() {
	// Before anything else opens descriptors or changes what was given.
	given := observe()
	o := parse()
	if err := run(o, given); err != nil {
		fmt.Fprintln(os.Stderr, "testservice:", err)
		os.Exit(4)
	}
}

func run(o options, given info) error {
	if o.leaf {
		return beLeaf(o)
	}
	if o.daemonize {
		if err := daemonize(); err != nil { // returns in the daemon only
			return err
		}
	}
	if o.versionFile != "" {
		b, err := os.ReadFile(o.versionFile)
		if err != nil {
			return err
		}
		o.version = strings.TrimSpace(string(b))
	}
	given.Version = o.version
	if err := plantTree(o); err != nil {
		return err
	}
	endAfter(o)
	terminated := awaitTerm(o)
	if o.workers > 0 {
		return lead(o, terminated)
	}
	requests, err := openLog(o.log)
	if err != nil {
		return err
	}
	sockets, err := open(o)
	if err != nil {
		return err
	}
	if o.closeSockets {
		for _, s := range sockets {
			s.file.Close()
		}
		sockets = nil
	}
	if o.shutdownAfter >= 0 {
		shutdown, err := shutdownAll(len(sockets))
		if err != nil {
			return err
		}
		if o.shutdownAfter == 0 {
			shutdown()
		} else {
			time.AfterFunc(o.shutdownAfter, shutdown)
		}
	}
	all := make([]server, 0, len(sockets))
	for _, s := range sockets {
		srv, err := newServer(o, given, requests, s)
		if err != nil {
			return fmt.Errorf("socket %s: %w", s.name, err)
		}
		all = append(all, srv)
	}
	if err := sayReady(o); err != nil {
		return err
	}
	<-terminated
	o.goOn.wait()
	// All at once, so that none still accepts while another finishes.
	finished := make(chan struct{})
	for _, srv := range all {
		go func() {
			srv.finish()
			finished <- struct{}{}
		}()
	}
	for range all {
		<-finished
	}
	o.holdOpen.wait()
	return nil
}

// server serves one socket until finish is called, which blocks until all that was accepted is answered.
type server interface{ finish() }

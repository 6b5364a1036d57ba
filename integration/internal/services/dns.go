package services

const unboundConfig = `server:
    use-systemd: yes
    do-daemonize: no
    interface: 127.0.0.1@5300
    access-control: 127.0.0.0/8 allow
    chroot: ""
    username: ""
    directory: "/run"
    pidfile: ""
    use-syslog: no
    local-zone: "test." static
    local-data: "hello.test. A 192.0.2.1"
    module-config: "iterator"
remote-control:
    control-enable: no
`

// Unbound is a DNS server, which takes its sockets, datagram and stream, by LISTEN_FDS and says READY=1 (unbound.conf(5), use-systemd). It is not
// one of All, which speak TCP.
func Unbound() Service {
	return Service{
		Name:  "unbound",
		Files: map[string]string{"/etc/unbound/hello.conf": unboundConfig},
		Config: `preset = "unbound"
name = "svc"
command = ["/usr/sbin/unbound", "-d", "-p", "-c", "/etc/unbound/hello.conf"]

[[socket]]
name = "udp"
listen = "udp://127.0.0.1:5300"
overlap = false

[[socket]]
name = "tcp"
listen = "tcp://127.0.0.1:5300"
`,
	}
}

package services

import "github.com/zddsupervisor/zddsupervisor/internal/load"

const dovecotConfig = `dovecot_config_version = 2.4.0
dovecot_storage_version = 2.4.0
base_dir = /run/dovecot-GENERATION
log_path = /dev/stderr
protocols = imap
ssl = no
login_greeting = release-GENERATION
mail_driver = maildir
mail_path = /srv/mail
service imap-login {
  inet_listener imap {
    listen = 127.0.0.1
    port = 8080
  }
  inet_listener imaps {
    port = 0
  }
}
passdb static {
  passdb_static_password = x
}
userdb static {
}
`

// Dovecot takes its sockets by LISTEN_FDS, where a listener has the same address, and says READY=1. Two versions cannot have the same base_dir, so
// each gets a configuration of its own. It is not one of All: the test machines do not have it.
func Dovecot() Service {
	return Service{
		Name:  "dovecot",
		Files: map[string]string{"/etc/dovecot/hello.conf": dovecotConfig},
		Config: `preset = "dovecot"
command = ["/usr/sbin/dovecot", "-F", "-c", "/run/dovecot-{generation}.conf"]

[check]
command = ["/bin/sh", "-c", "sed s/GENERATION/{generation}/ /etc/dovecot/hello.conf > /run/dovecot-{generation}.conf"]
`,
		Load: load.Config{Rate: 50, Greeting: `^\* OK .* (release-\d+)`},
	}
}

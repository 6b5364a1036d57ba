package services

import "github.com/zddsupervisor/zddsupervisor/internal/load"

const (
	fpmConfig = `[global]
error_log = /run/php-fpm.log
process_control_timeout = 10s
[www]
user = www-data
group = www-data
listen = 127.0.0.1:8080
pm = static
pm.max_children = 4
`
	phpApp = `<?php
header('X-Version: ' . posix_getppid());
echo "hello\n";
`
	// frontConfig is of the web server before it, which runs on: FastCGI is not HTTP.
	frontConfig = `daemon off;
pid /run/front.pid;
error_log stderr warn;
events {}
http {
    access_log off;
    keepalive_requests 1000000;
    server {
        listen 127.0.0.1:8081;
        location / {
            include fastcgi_params;
            fastcgi_param SCRIPT_FILENAME /srv/app/hello.php;
            fastcgi_pass 127.0.0.1:8080;
        }
    }
}
`
)

// php-fpm hands its sockets to itself when it is reloaded, by FPM_SOCKETS. It says READY=1. SIGQUIT stops in order, for as long as
// process_control_timeout says.
func phpFPM() Service {
	return Service{
		Name:  "php-fpm",
		Files: map[string]string{"/etc/php/hello.conf": fpmConfig, "/srv/app/hello.php": phpApp, "/etc/nginx/front.conf": frontConfig},
		Units: map[string]string{"front.service": "[Service]\nExecStart=/usr/sbin/nginx -c /etc/nginx/front.conf\n"},
		Config: `preset = "php-fpm"
command = ["/usr/sbin/php-fpm8.4", "--nodaemonize", "--force-stderr", "--fpm-config", "/etc/php/hello.conf"]
`,
		Load: load.Config{Rate: 100, Address: "127.0.0.1:8081"},
	}
}

package services

import "github.com/zddsupervisor/zddsupervisor/internal/load"

const (
	wsgiApp = `import os, zlib

executed = open("/run/executed", "ab", buffering=0)

def app(environ, start_response):
    query = environ["QUERY_STRING"]
    body = b"" if query == "early" else environ["wsgi.input"].read()
    executed.write(b"/?%s \n" % query.encode())
    start_response("200 OK", [
        ("Content-Type", "text/plain"),
        ("X-Version", str(os.getppid())), # the arbiter's pid tells the versions apart
        ("X-Id", query.removeprefix("id=")),
        ("X-Body", "%d-%08x" % (len(body), zlib.crc32(body))),
    ])
    return [b"hello\n"]
`
	asgiApp = `import os, zlib

executed = open("/run/executed", "ab", buffering=0)

async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        await receive()
        # Start-up is over when this is sent; then the server listens.
        await send({"type": "lifespan.startup.complete"})
        open(os.environ["STARTED"], "w").close()
        await receive()
        await send({"type": "lifespan.shutdown.complete"})
        return
    size, crc, more = 0, 0, scope["query_string"] != b"early"
    while more:
        message = await receive()
        body, more = message.get("body", b""), message.get("more_body", False)
        size, crc = size + len(body), zlib.crc32(body, crc)
    query = scope["query_string"]
    executed.write(b"/?%s \n" % query)
    await send({"type": "http.response.start", "status": 200, "headers": [
        (b"x-version", str(os.getpid()).encode()),
        (b"x-id", query.removeprefix(b"id=")),
        (b"x-body", b"%d-%08x" % (size, crc)),
    ]})
    await send({"type": "http.response.body", "body": b"hello\n"})
`
)

// https://docs.gunicorn.org/en/stable/deploy.html#systemd: sockets by LISTEN_FDS, Type=notify.
func gunicorn() Service {
	return Service{
		Name:  "gunicorn",
		Files: map[string]string{"/srv/app/hello.py": wsgiApp},
		Config: `preset = "gunicorn"
command = ["/usr/bin/gunicorn", "--workers=2", "hello:app"]
directory = "/srv/app"

[check]
command = ["/usr/bin/gunicorn", "--check-config", "hello:app"]
`,
		Load: load.Config{Rate: 200},
	}
}

// The same with threads, which keep connections open between requests.
func gunicornThreads() Service {
	return Service{
		DropsBodies: true,

		Name:  "gunicorn with threads",
		Files: map[string]string{"/srv/app/hello.py": wsgiApp},
		Config: `preset = "gunicorn"
command = ["/usr/bin/gunicorn", "--worker-class=gthread", "--workers=2", "--threads=8", "hello:app"]
directory = "/srv/app"
`,
		Load:  load.Config{Rate: 200},
		Keeps: true,
	}
}

// https://www.uvicorn.org/deployment/: --fd takes the socket from a process manager. It does not say when it is ready; the application here
// leaves a file.
func uvicorn() Service {
	return Service{
		DropsBodies: true,

		Name:  "uvicorn",
		Files: map[string]string{"/srv/app/hello.py": asgiApp},
		Config: `preset = "uvicorn"
command = ["/usr/bin/uvicorn", "--fd={fd:http}", "--no-access-log", "hello:app"]
directory = "/srv/app"
environment = { STARTED = "/run/started-{generation}" }

[ready]
by = "exec"
command = ["/usr/bin/test", "-e", "/run/started-{generation}"]
`,
		Load:  load.Config{Rate: 200},
		Keeps: true,
	}
}

// https://hypercorn.readthedocs.io/en/latest/how_to_guides/binds.html: fd://N is a socket that is open already.
func hypercorn() Service {
	return Service{
		Name:  "hypercorn",
		Files: map[string]string{"/srv/app/hello.py": asgiApp},
		Config: `preset = "hypercorn"
command = ["/usr/bin/hypercorn", "--bind=fd://{fd:http}", "hello:app"]
directory = "/srv/app"
environment = { STARTED = "/run/started-{generation}" }

[ready]
by = "exec"
command = ["/usr/bin/test", "-e", "/run/started-{generation}"]
`,
		Load:  load.Config{Rate: 100},
		Keeps: true,
	}
}

// https://github.com/django/daphne: --fd takes the socket. It has no lifespan events, and so is asked.
func daphne() Service {
	return Service{
		Name:  "daphne",
		Files: map[string]string{"/srv/app/hello.py": asgiApp},
		Config: `preset = "daphne"
command = ["/usr/bin/daphne", "--fd={fd:http}", "hello:app"]
directory = "/srv/app"
environment = { STARTED = "{generation}" }
`,
		Load:        load.Config{Rate: 100},
		Persistent:  true,
		SharedReady: "[ready]\nby = \"delay\"\ndelay = \"2s\"\n",
	}
}

// https://uwsgi-docs.readthedocs.io/en/latest/Systemd.html: fd://N is a socket that is open already. SIGHUP reloads in order, and with
// exit-on-reload it ends there.
func uwsgi() Service {
	return Service{
		Name:  "uWSGI",
		Files: map[string]string{"/srv/app/hello.py": wsgiApp},
		Config: `preset = "uwsgi"
command = ["/usr/bin/uwsgi-core", "--plugin=python3", "--http-socket=fd://{fd:http}", "--master", "--processes=2", "--exit-on-reload",
  "--disable-logging", "--wsgi=hello:app"]
directory = "/srv/app"
`,
		Load: load.Config{Rate: 100},
	}
}

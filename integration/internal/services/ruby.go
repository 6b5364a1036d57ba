package services

import "github.com/zddsupervisor/zddsupervisor/internal/load"

const pumaApp = `require "zlib"
executed = File.open("/run/executed", "a")
executed.sync = true
run lambda { |env|
  query, body = env["QUERY_STRING"], env["rack.input"].read
  executed.write("/?#{query} \n")
  [200, {
    "content-type" => "text/plain",
    "x-version" => Process.pid.to_s,
    "x-id" => query.delete_prefix("id="),
    "x-body" => format("%d-%08x", body.bytesize, Zlib.crc32(body)),
  }, ["hello\n"]]
}
`

// https://puma.io/puma/file.systemd.html: sockets by LISTEN_FDS where -b has the same address, READY=1 once it is booted. After each answer on a
// kept-alive connection a thread waits 0.2 s for its next request (FAST_TRACK_KA_TIMEOUT in puma's const.rb), so that five threads, which it has
// unless told otherwise, are too few for a load on 20 of them.
func puma() Service {
	return Service{
		Name:  "puma",
		Files: map[string]string{"/srv/app/config.ru": pumaApp},
		Config: `preset = "puma"
command = ["/usr/bin/puma", "--bind=tcp://127.0.0.1:8080", "--threads=0:32", "--environment=production", "/srv/app/config.ru"]
directory = "/srv/app"
`,
		Load:  load.Config{Rate: 100},
		Keeps: true,
	}
}

package services

import "github.com/zddsupervisor/zddsupervisor/internal/load"

const (
	nodeApp = `const fs = require('node:fs');
const http = require('node:http');
const zlib = require('node:zlib');
const executed = fs.openSync('/run/executed', 'a');
const server = http.createServer((req, res) => {
  let size = 0, crc = 0;
  req.on('data', (piece) => { size += piece.length; crc = zlib.crc32(piece, crc); });
  req.on('end', () => {
    fs.writeSync(executed, req.url + ' \n');
    res.setHeader('X-Version', process.pid);
    res.setHeader('X-Id', req.url.replace(/.*id=/, ''));
    res.setHeader('X-Body', size + '-' + crc.toString(16).padStart(8, '0'));
    res.end('hello\n');
  });
});
server.listen({ fd: 3 }, () => fs.writeSync(Number(process.argv[2]), '\n'));
process.on('SIGTERM', () => server.close());
`
	expressApp = `const fs = require('node:fs');
const zlib = require('node:zlib');
const app = require('express')();
const executed = fs.openSync('/run/executed', 'a');
app.all('/', (req, res) => {
  let size = 0, crc = 0;
  req.on('data', (piece) => { size += piece.length; crc = zlib.crc32(piece, crc); });
  req.on('end', () => {
    fs.writeSync(executed, req.url + ' \n');
    res.set('X-Version', String(process.pid));
    res.set('X-Id', String(req.query.id));
    res.set('X-Body', size + '-' + crc.toString(16).padStart(8, '0'));
    res.send('hello\n');
  });
});
const server = app.listen({ fd: 3 }, () => fs.writeSync(Number(process.argv[2]), '\n'));
process.on('SIGTERM', () => server.close());
`
)

// https://nodejs.org/api/net.html#serverlistenoptions-callback: fd is a socket to listen on. It says that it is ready by a line on a
// descriptor.
func node() Service {
	return Service{
		Name:  "Node.js",
		Files: map[string]string{"/srv/app/hello.js": nodeApp},
		Config: `preset = "node"
command = ["/usr/bin/node", "/srv/app/hello.js", "{fd:ready}"]
`,
		Load:  load.Config{Rate: 100},
		Keeps: true,
	}
}

// https://expressjs.com/en/api.html#app.listen: its arguments are those of http.Server.listen.
func express() Service {
	return Service{
		Name:  "Express",
		Files: map[string]string{"/srv/app/hello.js": expressApp},
		Config: `preset = "node"
command = ["/usr/bin/node", "/srv/app/hello.js", "{fd:ready}"]
environment = { NODE_PATH = "/usr/share/nodejs" }
`,
		Load:  load.Config{Rate: 100},
		Keeps: true,
	}
}

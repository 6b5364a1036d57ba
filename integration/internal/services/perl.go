package services

import "github.com/zddsupervisor/zddsupervisor/internal/load"

const plackApp = `my $app = sub {
    return [200, ['Content-Type' => 'text/plain', 'Content-Length' => 6, 'X-Version' => $ENV{SERVER_STARTER_GENERATION}], ["hello\n"]];
};
`

// Starlet takes its sockets from Server::Starter (https://metacpan.org/pod/Starlet). It does not say when it is ready.
func starlet() Service {
	return Service{
		Name:  "Starlet",
		Files: map[string]string{"/srv/app/app.psgi": plackApp},
		Config: `preset = "server-starter"
command = ["/usr/bin/plackup", "--server=Starlet", "--max-workers=4", "--env=production", "/srv/app/app.psgi"]
`,
		Load:        load.Config{Rate: 100},
		SharedReady: "[ready]\nby = \"delay\"\ndelay = \"1s\"\n",
	}
}

package services

// ContainerConfig is the configuration of a service whose generations are containers, without its name: an image with the release as its tag
// runs with the socket and the notify socket that podman run itself was given. The flags from --cgroups on are for a machine that is a container itself.
const ContainerConfig = `preset = "podman"
command = ["/usr/bin/podman", "run", "--rm", "--name=app-{generation}", "--network=none", "--pull=never",
  "--cgroups=disabled", "--cgroup-manager=cgroupfs", "--ulimit=nofile=1024:1024", "--ulimit=nproc=1024:1024",
  "localhost/app:{release}"]

[releases]
directory = "/srv/app/releases"
current = "/srv/app/current"

[[socket]]
name = "http"
listen = "tcp://127.0.0.1:8080"
`

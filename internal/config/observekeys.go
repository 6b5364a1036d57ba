package config

import (
	"fmt"
	"net"
	"strconv"
)

// Metrics says where metrics are told, beside the control socket.
type Metrics struct {
	Listen string // host:port; "" for nowhere
}

// observeKeys are the keys of what a supervisor tells about itself.
func observeKeys() []Key {
	return []Key{
		{
			Name: "metrics.listen", Kind: Text, set: setMetricsListen,
			Doc: `Where metrics are told to Prometheus over TCP, as HOST:PORT, such as "127.0.0.1:9600"; the path is /metrics, and everybody who can ` +
				`connect may read them. A reload does not change it. The default is nowhere; the control socket tells them always. docs/metrics.md has every one of them.`,
		},
	}
}

// setMetricsListen takes HOST:PORT, where HOST may be left out.
func setMetricsListen(c *draft, v value) error {
	host, port, err := net.SplitHostPort(v.texts[0])
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return fmt.Errorf("%q is not HOST:PORT, such as 127.0.0.1:9600", v.texts[0])
	}
	c.Metrics.Listen = net.JoinHostPort(host, port)
	return nil
}

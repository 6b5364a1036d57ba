package config

import (
	"fmt"
	"net"
	"strconv"

	"github.com/zddsupervisor/zddsupervisor/internal/logging"
)

// Metrics says where metrics are told, beside the control socket.
type Metrics struct {
	Listen string // host:port; "" for nowhere
}

// Log says how the supervisor writes its log.
type Log struct {
	Format logging.Format
}

// observeKeys are the keys of what a supervisor tells about itself.
func observeKeys() []Key {
	return []Key{
		{
			Name: "log.format", Kind: Text, Default: string(logging.Auto),
			set: choice(func(c *draft) *logging.Format { return &c.Log.Format }, logging.Auto, logging.Text, logging.JSON, logging.Journal),
			Doc: `How the supervisor writes its own log: "auto", "text", "json" or "journal". "text" and "json" go to standard error, one line or one object ` +
				`each. "journal" goes to systemd's journal with a field for everything (docs/observe.md). "auto" is "journal" where standard error is the journal's, ` +
				`else "text". What the service writes is its own, and passes by untouched. It is read when the supervisor is started.`,
		},
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

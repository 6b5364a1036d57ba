package config

import (
	"strings"
	"testing"

	"github.com/zddsupervisor/zddsupervisor/internal/logging"
)

func TestObserve(t *testing.T) {
	t.Parallel()
	const service = "command = ['app']\n"
	c := load(t, source(t, write(t, t.TempDir(), "app.toml", service)))
	if c.Log.Format != logging.Auto || c.Metrics.Listen != "" {
		t.Errorf("by default: %+v, %+v", c.Log, c.Metrics)
	}
	c = load(t, source(t, write(t, t.TempDir(), "app.toml", service+"log.format = 'json'\nmetrics.listen = '[::1]:9600'\n"), "--log-format=journal"))
	if c.Log.Format != logging.Journal || c.Metrics.Listen != "[::1]:9600" {
		t.Errorf("configured: %+v, %+v", c.Log, c.Metrics)
	}
	for text, want := range map[string]string{
		"log.format = 'xml'":            `"xml" is not one of`,
		"metrics.listen = '9600'":       `"9600" is not HOST:PORT`,
		"metrics.listen = 'x:http'":     "is not HOST:PORT",
		"metrics.listen = '[::1:9600'":  "is not HOST:PORT",
		"metrics.listen = ':70000'":     "is not HOST:PORT",
		"metrics.listen = '127.0.0.1:'": "is not HOST:PORT",
	} {
		_, err := source(t, write(t, t.TempDir(), "app.toml", service+text)).Load()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

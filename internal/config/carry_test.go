package config

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestCarry(t *testing.T) {
	t.Parallel()
	const socket = "command = ['app']\nsocket = [{listen = ':1', protocol = 'http/1'}]\n"
	c := load(t, source(t, write(t, t.TempDir(), "app.toml", socket+"handoff.keepalive = 'carry'\nhandoff.carry-idle = '1s'\n"))).Handoff
	if want := (Handoff{KeepAlive: KeepAliveCarry, CarryWait: 250 * time.Millisecond, CarryIdle: time.Second, CarryRelays: 256, Probation: time.Minute}); !reflect.DeepEqual(c, want) {
		t.Errorf("%+v, want %+v", c, want)
	}
	if c := load(t, source(t, write(t, t.TempDir(), "app.toml", socket))).Handoff; c.KeepAlive != KeepAliveClose {
		t.Errorf("%+v", c)
	}
	for text, want := range map[string]string{
		"command = ['app']\nsocket = [{listen = ':1'}]\nhandoff.keepalive = 'carry'":                                       `needs a socket with protocol = "http/1"`,
		"command = ['app']\nsocket = [{listen = ':1', mode = 'shared', protocol = 'http/1'}]\nhandoff.keepalive = 'carry'": "that can be steered",
		socket + "handoff.carry-idle = '1s'":                                        `is only for handoff.keepalive = "carry"`,
		socket + "handoff.keepalive = 'carrry'":                                     "carry",
		socket + "handoff.keepalive = 'carry'\nhandoff.carry-relays = 0":            "whole number from 1",
		"command = ['app']\nsocket = [{listen = ':1', protocol = 'http/2'}]":        `"http/2" is not a protocol`,
		"command = ['app']\nsocket = [{listen = 'unix:///x', protocol = 'http/1'}]": "only for tcp sockets",
	} {
		_, err := source(t, write(t, t.TempDir(), "app.toml", text)).Load()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

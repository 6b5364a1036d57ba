package config

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// requestPath takes what stands in the first line of a request.
func requestPath(field func(*draft) *string) setter {
	return func(c *draft, v value) error {
		path := v.texts[0]
		switch {
		case !strings.HasPrefix(path, "/"):
			return fmt.Errorf("%q is not a path; it must begin with \"/\"", path)
		case strings.ContainsFunc(path, func(r rune) bool { return r <= ' ' || r > '~' || r == '#' }):
			return fmt.Errorf("%q has a character that cannot be sent; write it as in a URL, %%20 for a space", path)
		}
		if _, err := url.ParseRequestURI(path); err != nil {
			var bad *url.Error
			if errors.As(err, &bad) {
				err = bad.Err // the rest says the path again
			}
			return fmt.Errorf("%q is not a path: %w", path, err)
		}
		*field(c) = path
		return nil
	}
}

// requestHost takes a Host header: a name or an address, and perhaps a port.
func requestHost(field func(*draft) *string) setter {
	return func(c *draft, v value) error {
		host := v.texts[0]
		u, err := url.Parse("http://" + host)
		if err != nil || u.Host != host || u.Hostname() == "" {
			return fmt.Errorf("%q is not a host, such as app.example.org or app.example.org:8080", host)
		}
		*field(c) = host
		return nil
	}
}

// Package child starts and ends the processes of one generation of a service.
package child

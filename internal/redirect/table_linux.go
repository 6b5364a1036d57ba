package redirect

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// A Public is which connections are redirected.
type Public struct {
	// Addr is the address and the port that clients connect to. An unspecified one
	// stands for every address of this machine.
	Addr netip.AddrPort
	// V6Only leaves IPv4 out where Addr is [::].
	V6Only bool
}

// A Route is where connections go.
type Route struct {
	To     uint16  // the private port; 0 for nowhere else: to who listens on the public one
	Canary uint16  // the private port that some of them go to instead; 0 for none
	Share  float64 // how many, of 1
}

// A Table is one table of the firewall. It is plain data: what it tells about is
// in the kernel.
type Table struct {
	Name    string // of the table
	Public  Public
	Private []uint16 // the ports that it may send connections to
}

// ErrMissing is wrapped by the error about a table that is not there.
var ErrMissing = errors.New("the table is not there")

// ErrForeign is wrapped by the error about a table that has something in it that
// is not ours.
var ErrForeign = errors.New("somebody has changed the table")

// ErrNotAllowed is wrapped where the firewall may not be changed.
var ErrNotAllowed = errors.New("it takes the capability CAP_NET_ADMIN: run as root, or give it with AmbientCapabilities=CAP_NET_ADMIN in the unit")

// ErrUnsupported is wrapped where the kernel has no such firewall.
var ErrUnsupported = errors.New("the kernel has no nf_tables with nat, ct, fib and numgen, or is older than Linux 5.9")

// The chains of a table.
const (
	fromOutside = "prerouting"
	fromInside  = "output"
	guarding    = "input"
)

// chains are those that a table has, which is borrowed.
func chains(t *nftables.Table) []*nftables.Chain {
	return []*nftables.Chain{
		{Name: fromOutside, Table: t, Type: nftables.ChainTypeNAT, Hooknum: nftables.ChainHookPrerouting, Priority: nftables.ChainPriorityNATDest},
		{Name: fromInside, Table: t, Type: nftables.ChainTypeNAT, Hooknum: nftables.ChainHookOutput, Priority: nftables.ChainPriorityNATDest},
		{Name: guarding, Table: t, Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookInput, Priority: nftables.ChainPriorityFilter},
	}
}

func (t Table) table() *nftables.Table {
	return &nftables.Table{Family: nftables.TableFamilyINet, Name: t.Name}
}

// Set makes r the route, from one packet to the next, and the table if it is not
// there. What else is in it goes: call Read first. It blocks for some milliseconds.
func (t Table) Set(r Route) error {
	c, err := nftables.New()
	if err != nil {
		return t.explain("change", err)
	}
	table := c.AddTable(t.table())
	for _, chain := range chains(table) {
		c.AddChain(chain)
		c.FlushChain(chain)
		for _, rule := range t.rules(chain.Name, r) {
			c.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: rule})
		}
	}
	return t.explain("change", c.Flush())
}

// looks is how often a table is read before it is believed to be somebody else's:
// it is read in several steps, and may change between two of them.
const looks = 3

// Read returns the route that the firewall has. The error wraps ErrMissing or
// ErrForeign where that is not one that Set has made.
func (t Table) Read() (r Route, err error) {
	for range looks {
		if r, err = t.read(); !errors.Is(err, ErrForeign) {
			break
		}
	}
	return r, err
}

func (t Table) read() (r Route, err error) {
	c, err := nftables.New()
	if err != nil {
		return r, t.explain("read", err)
	}
	table, err := c.ListTableOfFamily(t.Name, nftables.TableFamilyINet)
	if errors.Is(err, unix.ENOENT) {
		return r, fmt.Errorf("the firewall has no table inet %s: %w", t.Name, ErrMissing)
	} else if err != nil {
		return r, t.explain("read", err)
	}
	table.Family = nftables.TableFamilyINet
	all, err := c.ListChainsOfTableFamily(nftables.TableFamilyINet)
	if err != nil {
		return r, t.explain("read", err)
	}
	all = slices.DeleteFunc(all, func(ch *nftables.Chain) bool { return ch.Table.Name != t.Name })
	found := make(map[string][]*nftables.Rule)
	for _, chain := range all {
		i := slices.IndexFunc(chains(table), func(own *nftables.Chain) bool { return own.Name == chain.Name })
		switch {
		case i < 0:
			return r, t.foreign("there is a chain %s in it", chain.Name)
		case !alike(chain, chains(table)[i]):
			return r, t.foreign("its chain %s is not at its place in the kernel, or drops what it does not know", chain.Name)
		}
		if found[chain.Name], err = c.GetRules(table, chain); err != nil {
			return r, t.explain("read", err)
		}
	}
	for _, own := range chains(table) {
		if _, ok := found[own.Name]; !ok {
			return r, t.foreign("its chain %s is gone", own.Name)
		}
	}
	if r, err = t.routeOf(found[fromOutside]); err != nil {
		return r, err
	}
	for _, own := range chains(table) {
		if err := t.compare(own.Name, found[own.Name], t.rules(own.Name, r)); err != nil {
			return r, err
		}
	}
	return r, nil
}

// alike reports whether a chain is the one that we have made.
func alike(a, b *nftables.Chain) bool {
	accepts := a.Policy == nil || *a.Policy == nftables.ChainPolicyAccept
	return a.Type == b.Type && a.Hooknum != nil && *a.Hooknum == *b.Hooknum && a.Priority != nil && *a.Priority == *b.Priority && accepts
}

// routeOf reads the route of rules, which are still to be compared.
func (t Table) routeOf(rules []*nftables.Rule) (r Route, err error) {
	for _, rule := range rules {
		port, canary, share := uint16(0), false, 0.0
		for i, e := range rule.Exprs {
			switch e := e.(type) {
			case *expr.Immediate:
				if len(e.Data) == 2 {
					port = uint16(e.Data[0])<<8 | uint16(e.Data[1])
				}
			case *expr.Numgen:
				canary = true
				for _, next := range rule.Exprs[i:] {
					if cmp, ok := next.(*expr.Cmp); ok && len(cmp.Data) == 4 {
						share = shareOf(cmp.Data)
						break
					}
				}
			}
		}
		if !slices.Contains(t.Private, port) {
			return r, t.foreign("its rule %d in the chain %s sends connections to port %d, which is none of the private ports %s", rule.Handle, fromOutside, port, list(t.Private))
		}
		if canary {
			r.Canary, r.Share = port, share
		} else {
			r.To = port
		}
	}
	return r, nil
}

// compare looks for rules that are not ours.
func (t Table) compare(chain string, found []*nftables.Rule, own [][]expr.Any) error {
	for i, rule := range found {
		if i >= len(own) || !reflect.DeepEqual(rule.Exprs, readable(own[i])) {
			return t.foreign("its rule %d in the chain %s is not one of the supervisor's", rule.Handle, chain)
		}
	}
	if len(found) < len(own) {
		return t.foreign("%d of %d rules in its chain %s are gone", len(own)-len(found), len(own), chain)
	}
	return nil
}

// Remove removes the table. Connections that were redirected, and are open still,
// break off. It is no error if it is not there.
func (t Table) Remove() error {
	c, err := nftables.New()
	if err != nil {
		return t.explain("remove", err)
	}
	c.DelTable(t.table())
	err = c.Flush()
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return t.explain("remove", err)
}

// Tables returns the names of the tables whose names begin with prefix.
func Tables(prefix string) (names []string, err error) {
	c, err := nftables.New()
	if err != nil {
		return nil, err
	}
	tables, err := c.ListTablesOfFamily(nftables.TableFamilyINet)
	for _, t := range tables {
		if strings.HasPrefix(t.Name, prefix) {
			names = append(names, t.Name)
		}
	}
	return names, err
}

// foreign makes the error about a table that is not ours any more.
func (t Table) foreign(format string, args ...any) error {
	return fmt.Errorf("%w inet %s of the firewall: %s; \"nft -a list table inet %[2]s\" shows it, and after \"nft delete table inet %[2]s\" the supervisor makes its own again",
		ErrForeign, t.Name, fmt.Sprintf(format, args...))
}

// explain makes the error about a call that has failed.
func (t Table) explain(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("cannot %s the firewall's table inet %s: %w", what, t.Name, ErrNotAllowed)
	case errors.Is(err, unix.EPROTONOSUPPORT), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOENT), errors.Is(err, unix.EAFNOSUPPORT), errors.Is(err, unix.EINVAL):
		return fmt.Errorf("cannot %s the firewall's table inet %s: %w (%w)", what, t.Name, ErrUnsupported, err)
	}
	return fmt.Errorf("%s the firewall's table inet %s: %w", what, t.Name, err)
}

func list(ports []uint16) string { return strings.Trim(fmt.Sprint(ports), "[]") }

package standalone

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"

	"github.com/zddsupervisor/zddsupervisor/internal/redirect"
)

// firewallEnv has the test binary change the firewall of its network namespace, or list its tables.
const firewallEnv = "ZDD_TEST_FIREWALL"

const firewallTable = "zddsupervisor-test-" + publicPort

// changeFirewall does what somebody else may do, and then lists the tables.
func changeFirewall(change string, out io.Writer) error {
	c, err := nftables.New()
	if err != nil {
		return err
	}
	own := &nftables.Table{Family: nftables.TableFamilyINet, Name: firewallTable}
	switch change {
	case "flush":
		c.FlushRuleset()
	case "delete":
		c.DelTable(own)
	case "extra":
		c.InsertRule(&nftables.Rule{Table: own, Chain: &nftables.Chain{Name: "output", Table: own}, Exprs: []expr.Any{&expr.Counter{}}})
	case "list":
	default:
		return fmt.Errorf("there is no change %q", change)
	}
	if err := c.Flush(); err != nil {
		return err
	}
	names, err := redirect.Tables("")
	fmt.Fprint(out, strings.Join(names, " "))
	return err
}

// firewall changes the firewall where the supervisor is, and returns the names of the tables that are there then.
func (p *place) firewall(t *testing.T, change string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := p.wire.A.Command(t.Context(), self)
	cmd.Env = append(os.Environ(), firewallEnv+"="+change)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", change, err, out)
	}
	return string(out)
}

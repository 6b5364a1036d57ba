package carry

import (
	"os"
	"testing"

	"github.com/zddsupervisor/zddsupervisor/internal/leaktest"
)

func TestMain(m *testing.M) { os.Exit(leaktest.Main(m)) }

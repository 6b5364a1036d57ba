package manual

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/zddsupervisor/zddsupervisor/internal/config"
)

// tree is a small tree of commands with everything in it that is hard to write.
func tree() *cobra.Command {
	nothing := func(*cobra.Command, []string) {}
	root := &cobra.Command{Use: "tool", Short: "Do things", Long: "It does\nthings.\n\nExit status: 0 done; 1 not done: it's late; 4 and 5 see sub.", Run: nothing}
	sub := &cobra.Command{
		Use: "sub [flags] [-- COMMAND]", Short: `Say "\n"`, Run: nothing,
		Long: ".dots begin a line\n'quotes too\n\n  not --filled\n    at all\n\nExit status: 0 done. 2 wrong usage\nor so.\n", Example: "  tool sub --x 'a b'\n",
	}
	sub.Flags().StringP("file", "f", "/etc/x", "the `FILE` that is meant")
	sub.Flags().Bool("quiet", false, "say nothing")
	sub.Flags().String("secret", "", "")
	if err := sub.Flags().MarkHidden("secret"); err != nil {
		panic(err)
	}
	hidden := &cobra.Command{Use: "hidden", Hidden: true, Run: nothing}
	root.AddCommand(sub, hidden)
	return root
}

func TestPages(t *testing.T) {
	t.Parallel()
	pages := Pages(tree(), "1.2-3")
	var names []string
	for _, p := range pages {
		names = append(names, p.Name)
	}
	if !slices.Equal(names, []string{"tool.1", "tool-sub.1", "zddsupervisor.toml.5"}) {
		t.Fatalf("pages %q", names)
	}
	const want = `.TH "TOOL\-SUB" "1" "" "tool 1.2\-3" "tool"
.SH "NAME"
tool\-sub \- Say "\en"
.SH "SYNOPSIS"
\fBtool sub\fR [flags] [\-\- COMMAND]
.SH "DESCRIPTION"
\&.dots begin a line
\(aqquotes too
.PP
.nf
  not \-\-filled
    at all
.fi
.SH "OPTIONS"
.TP
\fB\-f\fR, \fB\-\-file\fR \fIFILE\fR
the FILE that is meant
(default /etc/x)
.TP
\fB\-h\fR, \fB\-\-help\fR
help for sub
.TP
\fB\-\-quiet\fR
say nothing
.SH "EXIT STATUS"
.TP
\fB0\fR
done
.TP
\fB2\fR
wrong usage or so
.SH "EXAMPLES"
.nf
  tool sub \-\-x \(aqa b\(aq
.fi
.SH "SEE ALSO"
tool(1), zddsupervisor.toml(5), systemd.service(5)
`
	if pages[1].Text != want {
		t.Errorf("got\n%s", pages[1].Text)
	}
	for _, text := range []string{".TP\n\\fB1\\fR\nnot done: it\\(aqs late\n", ".TP\n\\fB4, 5\\fR\nsee sub\n", "\\fBtool\\-sub\\fR(1)\nSay"} {
		if !strings.Contains(pages[0].Text, text) {
			t.Errorf("the first page lacks %q:\n%s", text, pages[0].Text)
		}
	}
	for _, key := range config.Keys() {
		if !strings.Contains(pages[2].Text, "\n.TP\n"+bold(key.Name)+" ") {
			t.Errorf("the last page lacks %s", key.Name)
		}
	}
}

// man(1) understands every page.
func TestPagesAreRoff(t *testing.T) {
	t.Parallel()
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Skip("groff is not installed")
	}
	for _, p := range Pages(tree(), "1") {
		path := filepath.Join(t.TempDir(), p.Name)
		if err := os.WriteFile(path, []byte(p.Text), 0o644); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(groff, "-man", "-ww", "-z", "-Tutf8", path).CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s: %v\n%s", p.Name, err, out)
		}
	}
}

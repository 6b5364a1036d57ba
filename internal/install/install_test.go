package install

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestWrite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	one := File{filepath.Join(dir, "etc", "one"), "a\nb\n", 0o644}
	two := File{filepath.Join(dir, "etc", "deep", "two"), "c\n", 0o600}
	expect := func(force bool, want []string, wantErr error, files ...File) string {
		t.Helper()
		written, err := Write(files, force)
		if !slices.Equal(written, want) || !errors.Is(err, wantErr) {
			t.Fatalf("wrote %q, %v; want %q, %v", written, err, want, wantErr)
		}
		if err != nil {
			return err.Error()
		}
		return ""
	}
	text := func(f File) string {
		t.Helper()
		b, err := os.ReadFile(f.Path)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	expect(false, []string{one.Path, two.Path}, nil, one, two)
	if info, err := os.Stat(two.Path); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	expect(false, nil, nil, one, two) // again

	// One that differs keeps the others from being written.
	changed, three := one, File{filepath.Join(dir, "three"), "d", 0o644}
	changed.Text = "a\nB\n"
	message := expect(false, nil, ErrDiffers, three, changed)
	if !strings.Contains(message, one.Path) || !strings.Contains(message, `line 2 is "b" and would be "B"`) {
		t.Error(message)
	}
	if _, err := os.Stat(three.Path); err == nil {
		t.Error("a file was written although another one differs")
	}
	if text(one) != "a\nb\n" {
		t.Error("the file was changed")
	}
	expect(true, []string{three.Path, one.Path}, nil, three, changed)
	if text(one) != "a\nB\n" {
		t.Error("the file was not changed")
	}
	left, err := filepath.Glob(filepath.Join(dir, "etc", ".*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left: %q, %v", left, err)
	}
}

func TestFirstDifference(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ has, want, text string }{
		{"", "a\n", `its line 1 is "" and would be "a"`},
		{"a", "a\nb", `it ends before line 2, which would be "b"`},
		{"a\nb", "a", `it goes on with line 2, which is "b"`},
	} {
		if got := firstDifference(tc.has, tc.want); got != tc.text {
			t.Errorf("%q and %q: %s", tc.has, tc.want, got)
		}
	}
}

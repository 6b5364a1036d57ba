package rootfs

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestNameCoversEverything(t *testing.T) {
	t.Parallel()
	change := map[string]func(*Recipe){
		"suite":          func(r *Recipe) { r.Suite = "sid" },
		"base":           func(r *Recipe) { r.Base = append(slices.Clone(r.Base), "less") },
		"extra":          func(r *Recipe) { r.Extra = append(slices.Clone(r.Extra), "less") },
		"base and extra": func(r *Recipe) { r.Base, r.Extra = append(slices.Clone(r.Base), r.Extra[0]), r.Extra[1:] },
	}
	for name, f := range change {
		r := Trixie()
		f(&r)
		if r.name() == Trixie().name() {
			t.Errorf("another %s gives the same name %s", name, r.name())
		}
	}
}

// built makes the recipe's directory in cache as Build would.
func built(t *testing.T, r Recipe, cache string) string {
	t.Helper()
	dir := filepath.Join(cache, r.name())
	if err := errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(dir+".lock", nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestUse(t *testing.T) {
	t.Parallel()
	cache := t.TempDir()
	if _, err := Trixie().Use(cache); !errors.Is(err, ErrNotBuilt) {
		t.Errorf("an empty cache: %v, want ErrNotBuilt", err)
	}
	dir := built(t, Trixie(), cache)
	root, err := Trixie().Use(cache)
	if err != nil {
		t.Fatal(err)
	}
	if root.Dir != dir {
		t.Errorf("got %s, want %s", root.Dir, dir)
	}
	if err := root.Close(); err != nil {
		t.Error(err)
	}
}

func TestOthersAreRemovedUnlessUsed(t *testing.T) {
	t.Parallel()
	cache := t.TempDir()
	old, older, present := Trixie(), Trixie(), Trixie()
	old.Extra, older.Extra = []string{"old"}, []string{"older"}
	oldDir, olderDir, presentDir, otherDir := built(t, old, cache), built(t, older, cache), built(t, present, cache), built(t, Forky(), cache)
	used, err := old.Use(cache)
	if err != nil {
		t.Fatal(err)
	}
	if err := present.removeOthers(cache); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]bool{oldDir: true, olderDir: false, presentDir: true, otherDir: true} {
		if _, err := os.Stat(dir); (err == nil) != want {
			t.Errorf("%s is there: %t, want %t", filepath.Base(dir), err == nil, want)
		}
	}
	if err := errors.Join(used.Close(), present.removeOthers(cache)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(oldDir); err == nil {
		t.Error("a root file system that nobody uses any more was left")
	}
}

func TestCache(t *testing.T) {
	t.Setenv("ZDD_TEST_CACHE", "")
	t.Setenv("XDG_CACHE_HOME", "")
	if got := Cache(); got != "/var/cache/zddsupervisor" {
		t.Errorf("default is %s", got)
	}
	t.Setenv("XDG_CACHE_HOME", "/home/x/.cache")
	if got := Cache(); got != "/home/x/.cache/zddsupervisor" {
		t.Errorf("with XDG_CACHE_HOME: %s", got)
	}
	t.Setenv("ZDD_TEST_CACHE", "/somewhere")
	if got := Cache(); got != "/somewhere" {
		t.Errorf("with ZDD_TEST_CACHE: %s", got)
	}
}

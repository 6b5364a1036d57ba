package releases

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// layout makes a Dir with these releases, of which the first is current.
func layout(t testing.TB, names ...string) Dir {
	t.Helper()
	top := t.TempDir()
	d := Dir{Directory: filepath.Join(top, "releases"), Link: filepath.Join(top, "current")}
	if err := os.Mkdir(d.Directory, 0o755); err != nil {
		t.Fatal(err)
	}
	for i, name := range names {
		if err := os.Mkdir(d.Path(name), 0o755); err != nil {
			t.Fatal(err)
		}
		changed := time.Unix(int64(1_000_000+i), 0)
		if err := os.Chtimes(d.Path(name), changed, changed); err != nil {
			t.Fatal(err)
		}
	}
	if len(names) > 0 {
		if err := os.Symlink("releases/"+names[0], d.Link); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

func TestNames(t *testing.T) {
	t.Parallel()
	for name, good := range map[string]bool{
		"v1": true, "2026-11-30_1": true, "ä": true, "a b": true, "...": false, "": false, ".": false, "..": false, ".hidden": false,
		"a/b": false, "/": false, "a\nb": false, "a\x00b": false, "\xff": false, strings.Repeat("x", 200): true, strings.Repeat("x", 201): false,
	} {
		if err := CheckName(name); (err == nil) != good || err != nil && !errors.Is(err, ErrName) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestPointKeepsTheForm(t *testing.T) {
	t.Parallel()
	for _, form := range []string{"releases/%s", "./releases/%s", "../TOP/releases/%s", "DIR/%s", "also/%s", "releases/%s/", "releases/%s/.", "DIR/%s//"} {
		d := layout(t, "v1", "v2")
		top := filepath.Dir(d.Directory)
		if err := os.Symlink("releases", filepath.Join(top, "also")); err != nil {
			t.Fatal(err)
		}
		form = strings.NewReplacer("TOP", filepath.Base(top), "DIR", d.Directory).Replace(form)
		os.Remove(d.Link)
		if err := os.Symlink(fmt.Sprintf(form, "v1"), d.Link); err != nil {
			t.Fatal(err)
		}
		if err := d.Point("v2"); err != nil {
			t.Fatal(err)
		}
		if name, err := d.Current(); name != "v2" || err != nil {
			t.Errorf("%s: it points to %q, %v", form, name, err)
		}
		// What stands behind the name is lost.
		if got, _ := os.Readlink(d.Link); got != strings.TrimRight(fmt.Sprintf(form, "v2"), "/.") {
			t.Errorf("%s has become %s", form, got)
		}
		if err := d.Sync(); err != nil {
			t.Error(err)
		}
	}
}

// Whoever looks finds a release, at every moment.
func TestPointNeverLeavesNothing(t *testing.T) {
	t.Parallel()
	d := layout(t, "v1", "v2")
	over := make(chan struct{})
	var looking sync.WaitGroup
	looks := 0
	looking.Add(1)
	go func() {
		defer looking.Done()
		for {
			select {
			case <-over:
				return
			default:
			}
			if _, err := os.Stat(d.Link + "/."); err != nil {
				t.Errorf("look %d: %v", looks, err)
				return
			}
			looks++
		}
	}()
	for i := range 2000 {
		if err := d.Point([]string{"v1", "v2"}[i%2]); err != nil {
			t.Fatal(err)
		}
	}
	close(over)
	looking.Wait()
	if looks < 100 {
		t.Errorf("it was looked %d times", looks)
	}
}

func TestPointRefuses(t *testing.T) {
	t.Parallel()
	d := layout(t, "v1")
	if err := os.WriteFile(d.Path("file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/", d.Path("away")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]error{"v2": ErrMissing, "file": ErrMissing, "away": ErrMissing, "../releases/v1": ErrName, "": ErrName} {
		if err := d.Point(name); !errors.Is(err, want) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if name, _ := d.Current(); name != "v1" {
		t.Errorf("it points to %q", name)
	}
	os.Remove(d.Link)
	if err := d.Point("v1"); !errors.Is(err, ErrCurrent) {
		t.Errorf("without a link: %v", err)
	}
	if err := os.Mkdir(d.Link, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := d.Point("v1"); !errors.Is(err, ErrCurrent) {
		t.Errorf("with a directory: %v", err)
	}
}

// What could not be pointed back to is no current release.
func TestCurrentIsADirectory(t *testing.T) {
	t.Parallel()
	d := layout(t, "v1")
	if err := os.Symlink(t.TempDir(), d.Path("linked")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(d.Path(".hidden"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"linked", ".hidden"} {
		os.Remove(d.Link)
		if err := os.Symlink("releases/"+name, d.Link); err != nil {
			t.Fatal(err)
		}
		if got, err := d.Current(); !errors.Is(err, ErrCurrent) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// Directories have the permissions that they are said to have, whatever the umask is and whatever comes first.
func TestInstallsDirectoryModes(t *testing.T) {
	d := layout(t)
	old := unix.Umask(0o077)
	defer unix.Umask(old)
	from := filepath.Join(t.TempDir(), "v1")
	if err := os.MkdirAll(filepath.Join(from, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(from, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := d.Install(t.Context(), from, "v1"); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(d.Path("v1"), "bin")); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("bin has %v, %v", info.Mode(), err)
	}
}

func TestMissingNamesOthers(t *testing.T) {
	t.Parallel()
	for want, d := range map[string]Dir{
		"--from":              layout(t),
		`did you mean "v1.2"`: layout(t, "v1.2", "other"),
		"there are zz, yy":    layout(t, "yy", "zz"),
		"the newest of the 7": layout(t, "a", "b", "c", "d", "e", "f", "g"),
	} {
		if err := d.Check("v1.3"); !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestPrune(t *testing.T) {
	t.Parallel()
	d := layout(t, "v1", "v2", "v3", "v4", "v5", "v6")
	// What others have left there is not touched, unless it is what a dead process has left.
	for _, name := range []string{".git", incoming + "dead", outgoing + "v0", incoming + "busy"} {
		if err := os.MkdirAll(d.Path(name)+"/x", 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(d.Path("README"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	busy, err := lockDirectory(d.Path(incoming + "busy"))
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	if removed, err := d.Prune(1, nil); err != nil || len(removed) > 0 {
		t.Errorf("removed %q, which are newer than the current one, %v", removed, err)
	}
	if err := d.Point("v5"); err != nil {
		t.Fatal(err)
	}
	removed, err := d.Prune(4, []string{"v2", "not there"})
	if err != nil || !slices.Equal(removed, []string{"v3", "v1"}) {
		t.Errorf("removed %q, %v", removed, err)
	}
	entries, err := os.ReadDir(d.Directory)
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if want := []string{".git", incoming + "busy", "README", "v2", "v4", "v5", "v6"}; !slices.Equal(left, want) {
		t.Errorf("left are %q, want %q", left, want)
	}
	// Even where it would keep fewer than are protected.
	if removed, err := d.Prune(1, []string{"v2"}); err != nil || !slices.Equal(removed, []string{"v4"}) {
		t.Errorf("removed %q, %v", removed, err)
	}
	os.Remove(d.Link)
	if removed, err := d.Prune(1, nil); !errors.Is(err, ErrCurrent) || len(removed) > 0 {
		t.Errorf("without a link: removed %q, %v", removed, err)
	}
}

func install(t testing.TB, d Dir, from, name string) error {
	t.Helper()
	err := d.Install(context.Background(), from, name)
	entries, readErr := os.ReadDir(d.Directory)
	if readErr != nil {
		t.Fatal(readErr)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			t.Errorf("%s is left", e.Name())
		}
		if err != nil && e.Name() == name && !errors.Is(err, ErrExists) {
			t.Errorf("%s is half there after %v", name, err)
		}
	}
	return err
}

func TestInstallDirectory(t *testing.T) {
	t.Parallel()
	d := layout(t, "v1")
	from := t.TempDir()
	for _, dir := range []string{"bin", "lib/deep"} {
		if err := os.MkdirAll(filepath.Join(from, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, mode := range map[string]fs.FileMode{"bin/app": 0o755, "lib/deep/data": 0o640} {
		if err := os.WriteFile(filepath.Join(from, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(from, name), mode|fs.ModeSetuid); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"lib/app": "../bin/app", "lib/deep/up": "../..", "dangling": "nowhere"} {
		if err := os.Symlink(target, filepath.Join(from, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := install(t, d, from, "v2"); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]fs.FileMode{"bin/app": 0o755, "lib/deep/data": 0o640, ".": fs.ModeDir | 0o755} {
		info, err := os.Stat(filepath.Join(d.Path("v2"), name))
		if err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	if text, err := os.ReadFile(d.Path("v2") + "/lib/deep/up/bin/app"); string(text) != "bin/app" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	if err := install(t, d, from, "v2"); !errors.Is(err, ErrExists) {
		t.Errorf("again: %v", err)
	}
	if err := install(t, d, filepath.Dir(d.Directory), "v3"); err == nil || !strings.Contains(err.Error(), "is in it") {
		t.Errorf("a directory that has the releases in it: %v", err)
	}
	if err := install(t, d, from+"/none", "v3"); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("what is not there: %v", err)
	}
	for name, make := range map[string]func(path string) error{
		"pipe":     func(p string) error { return unix.Mkfifo(p, 0o600) },
		"absolute": func(p string) error { return os.Symlink("/etc/passwd", p) },
		"outside":  func(p string) error { return os.Symlink("../../x", p) },
	} {
		path := filepath.Join(from, "lib", name)
		if err := make(path); err != nil {
			t.Fatal(err)
		}
		if err := install(t, d, from, "v3"); !errors.Is(err, ErrUnfit) || !strings.Contains(err.Error(), "lib/"+name) {
			t.Errorf("%s: %v", name, err)
		}
		os.Remove(path)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.Install(canceled, from, "v3"); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
}

// archive is a tar file with these entries.
func archive(t testing.TB, entries ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range entries {
		content := strings.Repeat("x", int(h.Size))
		if h.Mode == 0 {
			h.Mode = 0o755
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func gzipped(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func file(name string) tar.Header { return tar.Header{Name: name, Typeflag: tar.TypeReg, Size: 700} }

func symlink(name, target string) tar.Header {
	return tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: target}
}

func hardlink(name, target string) tar.Header {
	return tar.Header{Name: name, Typeflag: tar.TypeLink, Linkname: target}
}

func TestInstallArchive(t *testing.T) {
	t.Parallel()
	d := layout(t, "v1")
	good := archive(t, tar.Header{Name: "./", Typeflag: tar.TypeDir}, file("./bin/app"), symlink("lib/app", "../bin/app"), hardlink("same", "bin/app"),
		tar.Header{Name: "bin/", Typeflag: tar.TypeDir})
	for name, b := range map[string][]byte{"plain": good, "gzip": gzipped(t, good)} {
		path := filepath.Join(t.TempDir(), "whatever")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := install(t, d, path, name); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, f := range []string{"bin/app", "lib/app", "same"} {
			if info, err := os.Stat(filepath.Join(d.Path(name), f)); err != nil || info.Size() != 700 || info.Mode() != 0o755 {
				t.Errorf("%s: %s is %v, %v", name, f, info, err)
			}
		}
	}
	for name, b := range map[string][]byte{
		"empty": {}, "text": []byte("this is no archive"), "long text": bytes.Repeat([]byte("text "), 1000),
		"cut off in a file": good[:1200], "cut off between two": good[:512+512+1024], "cut off before the end": good[:len(good)-1024],
		"gzip, cut off": gzipped(t, good)[:150], "gzip of text": gzipped(t, []byte("text")),
		"gzip, damaged": append(gzipped(t, good)[:len(gzipped(t, good))-8], 1, 2, 3, 4, 5, 6, 7, 8),
	} {
		path := filepath.Join(t.TempDir(), "a.tar")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := install(t, d, path, "bad"); err == nil {
			t.Errorf("%s was installed", name)
			os.RemoveAll(d.Path("bad"))
		} else if strings.Contains(err.Error(), "EOF") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// evil are archives that would write or lead out of the release.
func evil(t testing.TB) map[string][]byte {
	many := make([]tar.Header, 0, 20)
	for i := range 20 {
		many = append(many, symlink(fmt.Sprint("l", i), "."))
	}
	return map[string][]byte{
		"absolute":                 archive(t, file("/etc/evil")),
		"parent":                   archive(t, file("../evil")),
		"parent behind":            archive(t, file("a/../../evil")),
		"through a link":           archive(t, symlink("a", "b"), file("a/evil")),
		"through a link, later":    archive(t, file("a/evil"), symlink("a", "b")),
		"absolute link":            archive(t, symlink("a", "/etc")),
		"link out":                 archive(t, symlink("a", "..")),
		"link out, deeper":         archive(t, symlink("a/b", "../../x")),
		"link out by another link": archive(t, symlink("x/y/l", "../.."), symlink("m", "x/y/l/../..")),
		"link in a link":           archive(t, symlink("a", "."), symlink("a/x/y", "../../z")),
		"link in a link, there":    archive(t, file("x/f"), symlink("a", "."), symlink("a/x/y", "../../z")),
		"hard link out":            archive(t, hardlink("a", "../../../etc/passwd")),
		"hard link, absolute":      archive(t, hardlink("a", "/etc/passwd")),
		"hard link to a link":      archive(t, symlink("a", "b"), hardlink("c", "a")),
		"link to nothing":          archive(t, symlink("a", "")),
		"file twice":               archive(t, file("a"), file("a")),
		"file and link":            archive(t, file("a"), symlink("a", "b")),
		"file and directory":       archive(t, file("a"), file("a/b")),
		"device":                   archive(t, tar.Header{Name: "null", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3}),
		"pipe":                     archive(t, tar.Header{Name: "p", Typeflag: tar.TypeFifo}),
		"itself a link":            archive(t, symlink(".", "/etc")),
		"links over links":         archive(t, append(many, file("l3/l4/evil"))...),
	}
}

func TestInstallRefuses(t *testing.T) {
	t.Parallel()
	d := layout(t, "v1")
	for name, b := range evil(t) {
		path := filepath.Join(t.TempDir(), "a.tar")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := install(t, d, path, "bad"); !errors.Is(err, ErrUnfit) {
			t.Errorf("%s: %v", name, err)
			os.RemoveAll(d.Path("bad"))
		}
	}
}

// A few bytes do not become more than there may be: neither zeros that were compressed, nor holes.
func TestInstallBombs(t *testing.T) {
	t.Parallel()
	tr, err := newTree(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer tr.close()
	tr.most = 1 << 16
	big := file("big")
	big.Size = 1<<16 + 1
	if err := tr.unpackFrom(bytes.NewReader(gzipped(t, archive(t, big)))); !errors.Is(err, ErrUnfit) || !strings.Contains(err.Error(), "65536") {
		t.Errorf("compressed: %v", err)
	}
	holes := filepath.Join(t.TempDir(), "holes")
	if err := os.WriteFile(holes, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(holes, 1<<40); err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"gnu", "pax"} {
		b, err := exec.Command("tar", "--sparse", "--format="+format, "-C", filepath.Dir(holes), "-cf", "-", "holes").Output()
		if err != nil {
			t.Fatal(err)
		}
		tr, err := newTree(t.Context(), t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer tr.close()
		if err := tr.unpackFrom(bytes.NewReader(b)); !errors.Is(err, ErrUnfit) || !strings.Contains(err.Error(), "holes") {
			t.Errorf("%s: %v", format, err)
		}
	}
}

// fromText makes an archive of lines: a letter for the kind of the entry, its name, and what a link points to.
func fromText(text string) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	kinds := map[string]byte{"f": tar.TypeReg, "d": tar.TypeDir, "s": tar.TypeSymlink, "h": tar.TypeLink, "p": tar.TypeFifo}
	for line := range strings.Lines(text) {
		kind, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		name, target, _ := strings.Cut(rest, " ")
		if flag, ok := kinds[kind]; ok {
			_ = w.WriteHeader(&tar.Header{Typeflag: flag, Name: name, Linkname: target, Mode: 0o755}) // which refuses some
		}
	}
	_ = w.Close()
	return b.Bytes()
}

// Whatever names are in an archive: nothing is written outside, and nothing that is inside leads out.
func FuzzUnpack(f *testing.F) {
	for _, text := range []string{
		"d a\nf a/b\ns c a/b\nh d a/b", "f ../x", "f /x", "s a b\nf a/x", "s a /x", "s a ..\nf a/x", "s x/y/l ../..\ns m x/y/l/../..",
		"s a .\ns a/x/y ../../z", "f x/f\ns a .\ns a/x/y ../../z", "h a ../../x", "s a b\nh c a", "f a\nf a/b", "p a", "s . /x", "d .\nd ..", "s a/b ..\ns c a/b/..",
		"s a ../b\ns d/a ../b\ns d/b ..", "f ./a\nf a//b\nf a/./c",
	} {
		f.Add(text)
	}
	// Deep, so that what climbs a few steps is still seen.
	top, err := filepath.EvalSymlinks(f.TempDir())
	if err != nil {
		f.Fatal(err)
	}
	inside := filepath.Join(top, "1/2/3/release")
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 300 {
			return
		}
		b := fromText(text)
		if err := os.MkdirAll(inside, 0o755); err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(inside)
		tr, err := newTree(context.Background(), inside)
		if err != nil {
			t.Fatal(err)
		}
		defer tr.close()
		tr.most = 1 << 20
		if err := tr.unpackFrom(bytes.NewReader(b)); err == nil {
			_ = tr.finish()
		}
		err = filepath.WalkDir(top, func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if !strings.HasPrefix(path, inside) && !strings.HasPrefix(inside, path) {
				t.Errorf("%s is outside", path)
			}
			if e.Type()&fs.ModeSymlink != 0 {
				if to, err := filepath.EvalSymlinks(path); err == nil && to != inside && !strings.HasPrefix(to, inside+"/") {
					t.Errorf("%s leads to %s", path, to)
				}
			} else if !e.IsDir() && !e.Type().IsRegular() {
				t.Errorf("%s is %s", path, e.Type())
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

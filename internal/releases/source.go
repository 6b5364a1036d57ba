package releases

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// copyDirectory copies a directory. into is where the release goes to, which must not be within it.
func (t *tree) copyDirectory(source, into string) error {
	into, err := filepath.EvalSymlinks(into)
	if err != nil {
		return cause(err)
	}
	if into == source || strings.HasPrefix(into, strings.TrimSuffix(source, "/")+"/") {
		return fmt.Errorf("the directory of the releases, %s, is in it", into)
	}
	return filepath.WalkDir(source, func(at string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(source, at)
		if err != nil {
			return err
		}
		name, err := t.enter(filepath.ToSlash(rel))
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		switch mode := info.Mode(); mode.Type() {
		case fs.ModeDir:
			return t.directory(name, mode)
		case fs.ModeSymlink:
			target, err := os.Readlink(at)
			if err != nil {
				return err
			}
			return t.symlink(name, target)
		case 0:
			return t.copyFile(at, name, mode)
		default:
			return fmt.Errorf("%q %w: it is neither file, directory nor link", name, ErrUnfit)
		}
	})
}

func (t *tree) copyFile(from, name string, mode fs.FileMode) error {
	f, err := os.OpenFile(from, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0) // somebody may have put a pipe there since
	if err != nil {
		return err
	}
	defer f.Close()
	return t.file(name, mode, f)
}

// errNoArchive says that a file is none that can be unpacked.
var errNoArchive = errors.New("it is no archive: a tar file is needed, plain or compressed with gzip")

// errCutOff says that the end of an archive is missing.
var errCutOff = errors.New("the archive is cut off: its end is missing")

// unpack unpacks an archive. What it is compressed with is seen in its first bytes, whatever its name.
func (t *tree) unpack(source string) error {
	f, err := os.OpenFile(source, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return cause(err)
	}
	defer f.Close()
	return t.unpackFrom(f)
}

func (t *tree) unpackFrom(r io.Reader) error {
	buffered := bufio.NewReaderSize(r, 1<<16)
	in := io.Reader(buffered)
	if magic, err := buffered.Peek(2); err == nil && magic[0] == 0x1f && magic[1] == 0x8b {
		if in, err = gzip.NewReader(buffered); err != nil {
			return errNoArchive
		}
	}
	counted := &zeroTail{from: in}
	if err := t.unpackTar(tar.NewReader(counted)); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return errCutOff
		}
		return err
	}
	// The rest belongs to the archive too: the checksum of gzip is at its end.
	if _, err := io.Copy(io.Discard, untilDone{t.ctx, counted}); err != nil {
		return fmt.Errorf("the archive is damaged: %w", err)
	}
	if counted.zeros < endOfArchive {
		return errCutOff
	}
	return nil
}

// endOfArchive is how many zero bytes an archive ends with, at least. The package tar does without them.
const endOfArchive = 2 * 512

// A zeroTail counts the zero bytes at the end of what was read.
type zeroTail struct {
	from  io.Reader
	zeros int
}

func (z *zeroTail) Read(p []byte) (int, error) {
	n, err := z.from.Read(p)
	i := n
	for i > 0 && p[i-1] == 0 {
		i--
	}
	if i > 0 {
		z.zeros = 0
	}
	z.zeros += n - i
	return n, err
}

func (t *tree) unpackTar(r *tar.Reader) error {
	for first := true; ; first = false {
		h, err := r.Next()
		switch {
		case first && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)):
			return errNoArchive
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, io.ErrUnexpectedEOF):
			return errCutOff
		case err != nil && first:
			return errNoArchive
		case err != nil:
			return fmt.Errorf("the archive is damaged: %w", err)
		}
		if h.Typeflag == tar.TypeXGlobalHeader { // what git archive says about the commit
			continue
		}
		name, err := t.enter(h.Name)
		if err != nil {
			return err
		}
		mode := h.FileInfo().Mode()
		if sparse(h) {
			return fmt.Errorf("%q %w: it has holes, and its size cannot be trusted; make the archive without --sparse", name, ErrUnfit)
		}
		switch h.Typeflag {
		case tar.TypeDir:
			err = t.directory(name, mode)
		case tar.TypeReg:
			err = t.file(name, mode, r)
		case tar.TypeSymlink:
			err = t.symlink(name, h.Linkname)
		case tar.TypeLink:
			err = t.hardlink(name, h.Linkname)
		default:
			err = fmt.Errorf("%q %w: it is neither file, directory nor link", name, ErrUnfit)
		}
		if err != nil {
			return err
		}
	}
}

// sparse reports whether a file is stored without its zero bytes: a few bytes of an archive can stand for any size then.
func sparse(h *tar.Header) bool {
	if h.Typeflag == tar.TypeGNUSparse {
		return true
	}
	for key := range h.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return true
		}
	}
	return false
}

package persistence

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"lockstep/core/paths"
)

// A link or a FIFO in the place of a file is no kept output, also if it comes after the directory was read.
func TestKeptOutputIsInRegularFiles(t *testing.T) {
	for name, replace := range map[string]func(path string) error{
		"link": func(path string) error { return os.Symlink(path+".moved", path) },
		"FIFO": func(path string) error { return unix.Mkfifo(path, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			keep(t, dir, 0, "stdout", "abc")
			k, err := OpenKept(dir, 7, mark, KeptFiles{Stream: "stdout", Sizes: anyOf(1)}, 0)
			noError(t, err)
			path := filepath.Join(dir, paths.KeptDirOf(7), paths.KeptName(0, 1, "stdout"))
			noError(t, os.Rename(path, path+".moved"))
			noError(t, replace(path))
			if _, err := k.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
				t.Errorf("it was read: %v", err)
			}
			k, err = OpenKept(dir, 7, mark, KeptFiles{Stream: "stdout", Sizes: anyOf(1)}, 0)
			noError(t, err)
			if n, err := k.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
				t.Errorf("a later reader: %d, %v", n, err)
			}
		})
	}
}

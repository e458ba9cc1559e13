package persistence

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"lockstep/core/paths"
)

// keep writes a file of kept output.
func keep(t *testing.T, dataDir string, op int, stream, content string) {
	t.Helper()
	dir := filepath.Join(dataDir, paths.KeptDirOf(7))
	noError(t, os.MkdirAll(dir, 0o700))
	noError(t, os.WriteFile(filepath.Join(dir, paths.KeptName(op, stream)), []byte(content), 0o600))
}

// A place of a stream counts the bytes of all opcodes, of which some have no output, and more than ten come in the order of their numbers.
func TestKeptOutput(t *testing.T) {
	dir := t.TempDir()
	_, err := OpenKept(dir, 7, "stdout", 0)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("no kept output: %v", err)
	}
	keep(t, dir, 0, "stderr", "no")
	keep(t, dir, 0, "stdout", "abc")
	keep(t, dir, 2, "stdout", "")
	keep(t, dir, 10, "stdout", "gh")
	keep(t, dir, 9, "stdout", "def")
	keep(t, dir, 11, "other", "no")
	const all = "abcdefgh"
	for offset := range len(all) + 3 {
		k, err := OpenKept(dir, 7, "stdout", int64(offset))
		noError(t, err)
		got, err := io.ReadAll(k)
		noError(t, err)
		noError(t, k.Close())
		if want := all[min(offset, len(all)):]; string(got) != want {
			t.Errorf("from %d: %q, want %q", offset, got, want)
		}
	}
}

// A removal that follows one that a crash has cut off is complete, too, and a reader never finds a part of the files.
func TestRemovalOfKeptOutput(t *testing.T) {
	dir := t.TempDir()
	noError(t, RemoveKept(dir, 7))
	keep(t, dir, 0, "stdout", "abc")
	noError(t, os.Rename(filepath.Join(dir, paths.KeptDirOf(7)), filepath.Join(dir, paths.KeptDir, removedKept+"7")))
	keep(t, dir, 0, "stdout", "def")
	noError(t, RemoveKept(dir, 7))
	left, err := os.ReadDir(filepath.Join(dir, paths.KeptDir))
	noError(t, err)
	if len(left) > 0 {
		t.Errorf("%v are left", left)
	}
}

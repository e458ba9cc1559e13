package persistence

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"lockstep/core/paths"
)

// keep writes a file of kept output.
func keep(t *testing.T, dataDir string, op int, stream, content string) {
	t.Helper()
	dir := filepath.Join(dataDir, paths.KeptDirOf(7))
	noError(t, os.MkdirAll(dir, 0o700))
	noError(t, os.WriteFile(filepath.Join(dir, paths.KeptName(op, stream)), []byte(content), 0o600))
}

// anyOf are the files of opcodes of which nothing is known.
func anyOf(opcodes int) []KeptFile {
	files := make([]KeptFile, opcodes)
	for i := range files {
		files[i].Bytes = Growing
	}
	return files
}

func readKept(t *testing.T, dir string, files []KeptFile, offset int) string {
	t.Helper()
	k, err := OpenKept(dir, 7, "stdout", files, int64(offset))
	noError(t, err)
	got, err := io.ReadAll(k)
	noError(t, err)
	noError(t, k.Close())
	return string(got)
}

// A place of a stream counts the bytes of all opcodes, of which some have no output, and more than ten come in the order of their numbers.
// It is the same whether the sizes are known or not.
func TestKeptOutput(t *testing.T) {
	dir := t.TempDir()
	_, err := OpenKept(dir, 7, "stdout", anyOf(12), 0)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("no kept output: %v", err)
	}
	keep(t, dir, 0, "stderr", "no")
	keep(t, dir, 0, "stdout", "abc")
	keep(t, dir, 2, "stdout", "")
	keep(t, dir, 10, "stdout", "gh")
	keep(t, dir, 9, "stdout", "def")
	keep(t, dir, 11, "other", "no")
	keep(t, dir, 12, "stdout", "no such opcode")
	known := make([]KeptFile, 12)
	known[0].Bytes, known[9].Bytes, known[10].Bytes = 3, 3, 2
	const all = "abcdefgh"
	for offset := range len(all) + 3 {
		for _, files := range [][]KeptFile{anyOf(12), known, append(slices.Clone(known[:10]), anyOf(2)...)} {
			if got, want := readKept(t, dir, files, offset), all[min(offset, len(all)):]; got != want {
				t.Errorf("from %d: %q, want %q", offset, got, want)
			}
		}
	}
}

// A file that does not fit what the job says of it is of another job with the same id. Nothing after it has its place.
func TestKeptOutputOfAnotherJob(t *testing.T) {
	dir := t.TempDir()
	keep(t, dir, 0, "stdout", "abc")
	keep(t, dir, 1, "stdout", "def")
	begun := time.Now()
	old := begun.Add(-time.Minute)
	noError(t, os.Chtimes(filepath.Join(dir, paths.KeptDirOf(7), paths.KeptName(0, "stdout")), old, old))
	for want, files := range map[string][]KeptFile{
		"":       {},
		"abc":    {{Bytes: 3}},
		"abcdef": {{Since: old, Bytes: 3}, {Since: begun, Bytes: Growing}},
	} {
		if got := readKept(t, dir, files, 0); got != want {
			t.Errorf("%v: %q, want %q", files, got, want)
		}
	}
	for _, files := range [][]KeptFile{
		{{}, {}},
		{{Bytes: 2}, {Bytes: Growing}},
		{{Bytes: 4}, {Bytes: Growing}},
		{{Since: begun, Bytes: 3}, {Bytes: Growing}},
		{{Since: begun, Bytes: Growing}, {Bytes: Growing}},
	} {
		if got := readKept(t, dir, files, 0); got != "" {
			t.Errorf("%v: %q is another job's", files, got)
		}
	}
	if got := readKept(t, dir, []KeptFile{{Bytes: 2}, {Bytes: 3}}, 2); got != "def" {
		t.Errorf("behind another job's file: %q", got)
	}
	if got := readKept(t, dir, []KeptFile{{Bytes: 3}, {}, {Bytes: 1}}, 1); got != "bc" {
		t.Errorf("before a missing file: %q", got)
	}
}

// A reader does not take the output of an opcode for that of the one before, which grew after the reader had come to its end.
func TestKeptOutputThatGrows(t *testing.T) {
	dir := t.TempDir()
	keep(t, dir, 0, "stdout", "abc")
	k, err := OpenKept(dir, 7, "stdout", anyOf(2), 0)
	noError(t, err)
	_, err = io.ReadFull(k, make([]byte, 3))
	noError(t, err)
	keep(t, dir, 0, "stdout", "abcdef")
	keep(t, dir, 1, "stdout", "ghi")
	got, err := io.ReadAll(k)
	noError(t, err)
	if string(got) != "def" {
		t.Errorf("%q after the beginning", got)
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

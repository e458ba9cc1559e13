package persistence

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"lockstep/core/paths"
)

// mark is that of the job.
const mark = "[1795175118, 595666]\n"

// keep writes a file of kept output.
func keep(t *testing.T, dataDir string, op int, stream, content string) {
	t.Helper()
	dir := filepath.Join(dataDir, paths.KeptDirOf(7))
	noError(t, os.MkdirAll(dir, 0o700))
	noError(t, os.WriteFile(filepath.Join(dir, paths.KeptMark), []byte(mark), 0o600))
	noError(t, os.WriteFile(filepath.Join(dir, paths.KeptName(op, 1, stream)), []byte(content), 0o600))
}

// anyOf are the files of opcodes of which nothing is known.
func anyOf(opcodes int) []int64 { return slices.Repeat([]int64{Growing}, opcodes) }

func readKept(t *testing.T, dir string, sizes []int64, offset int) string {
	t.Helper()
	k, err := OpenKept(dir, 7, mark, KeptFiles{Stream: "stdout", Sizes: sizes}, int64(offset))
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
	_, err := OpenKept(dir, 7, mark, KeptFiles{Stream: "stdout", Sizes: anyOf(12)}, 0)
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
	known := make([]int64, 12)
	known[0], known[9], known[10] = 3, 3, 2
	const all = "abcdefgh"
	for offset := range len(all) + 3 {
		for _, files := range [][]int64{anyOf(12), known, append(slices.Clone(known[:10]), anyOf(2)...)} {
			if got, want := readKept(t, dir, files, offset), all[min(offset, len(all)):]; got != want {
				t.Errorf("from %d: %q, want %q", offset, got, want)
			}
		}
	}
}

// The files of each process of a job are apart: those of the first one have no other try, and a later one begins with a later try.
func TestKeptOutputOfTries(t *testing.T) {
	dir := t.TempDir()
	keep(t, dir, 0, "stdout", "ab")
	keep(t, dir, 1, "stdout", "cd")
	of := filepath.Join(dir, paths.KeptDirOf(7))
	for name, content := range map[string]string{"1.try2.stdout": "ef", "1.try3.stdout": "gh", "2.stdout": "ij", "0.try2.stdout": "no"} {
		noError(t, os.WriteFile(filepath.Join(of, name), []byte(content), 0o600))
	}
	check := func(files KeptFiles, offset int64, want string) {
		t.Helper()
		files.Stream = "stdout"
		k, err := OpenKept(dir, 7, mark, files, offset)
		noError(t, err)
		got, err := io.ReadAll(k)
		noError(t, err)
		noError(t, k.Close())
		if string(got) != want {
			t.Errorf("%v: %q, want %q", files, got, want)
		}
	}
	check(KeptFiles{Sizes: anyOf(2)}, 0, "abcd")
	check(KeptFiles{Sizes: []int64{2, 2}}, 1, "bcd")
	check(KeptFiles{Op: 1, Try: 2, Sizes: anyOf(1)}, 0, "ef")
	check(KeptFiles{Op: 1, Try: 3, Sizes: []int64{2, Growing}}, 1, "hij")
	check(KeptFiles{Op: 1, Try: 4, Sizes: anyOf(1)}, 0, "")

	// The process of the second try of opcode 1 begins.
	bytes, err := KeepOnly(dir, 7, mark, func(op, try int) bool { return op == 0 && try == 1 || op == 1 && try == 1 })
	noError(t, err)
	if bytes != 4 {
		t.Errorf("%d bytes stay, not 4", bytes)
	}
	check(KeptFiles{Sizes: anyOf(2)}, 0, "abcd")
	check(KeptFiles{Op: 1, Try: 2, Sizes: anyOf(2)}, 0, "")
	bytes, err = KeepOnly(dir, 7, "[1, 2]\n", func(int, int) bool { return true })
	noError(t, err)
	if _, err := os.Stat(of); bytes != 0 || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%d bytes of another job stay: %v", bytes, err)
	}
}

// A file that does not fit what the job says of it is of another job with the same id. Nothing after it has its place.
func TestKeptOutputOfAnotherJob(t *testing.T) {
	dir := t.TempDir()
	keep(t, dir, 0, "stdout", "abc")
	keep(t, dir, 1, "stdout", "def")
	for want, sizes := range map[string][]int64{
		"":       {},
		"abc":    {3},
		"abcdef": {3, Growing},
	} {
		if got := readKept(t, dir, sizes, 0); got != want {
			t.Errorf("%v: %q, want %q", sizes, got, want)
		}
	}
	for _, sizes := range [][]int64{{0, 0}, {2, Growing}, {4, Growing}} {
		if got := readKept(t, dir, sizes, 0); got != "" {
			t.Errorf("%v: %q is another job's", sizes, got)
		}
	}
	if got := readKept(t, dir, []int64{2, 3}, 2); got != "def" {
		t.Errorf("behind another job's file: %q", got)
	}
	if got := readKept(t, dir, []int64{3, 0, 1}, 1); got != "bc" {
		t.Errorf("before a missing file: %q", got)
	}

	// The mark tells them apart, whatever their sizes are. Without a mark, as an earlier version had none, the size must be known.
	_, err := OpenKept(dir, 7, "[1, 2]\n", KeptFiles{Stream: "stdout", Sizes: []int64{3, 3}}, 0)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("another job's mark: %v", err)
	}
	noError(t, os.Remove(filepath.Join(dir, paths.KeptDirOf(7), paths.KeptMark)))
	if got := readKept(t, dir, []int64{3, Growing}, 0); got != "abc" {
		t.Errorf("without a mark: %q", got)
	}
}

// A reader does not take the output of an opcode for that of the one before, which grew after the reader had come to its end.
func TestKeptOutputThatGrows(t *testing.T) {
	dir := t.TempDir()
	keep(t, dir, 0, "stdout", "abc")
	k, err := OpenKept(dir, 7, mark, KeptFiles{Stream: "stdout", Sizes: anyOf(2)}, 0)
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

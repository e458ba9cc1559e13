// Package persistencetest is the test suite of the stores' file operations. The real disk and the
// simulated one must both pass it.
package persistencetest

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"
)

// Files is the port under test, as the stores declare it. Paths are
// slash-separated and relative to the data directory.
type Files interface {
	// Replace replaces the content of path, by data in parts, atomically. Its directory must exist.
	Replace(op, path string, data ...[]byte) error
	// ReplaceUnsynced is Replace without a sync.
	ReplaceUnsynced(op, path string, data ...[]byte) error
	// Append adds to the end of a file, and creates it if it is absent. Its directory must exist.
	// Nothing is synced.
	Append(op, path string, content []byte) error
	// AppendDurable is Append with a sync of the file and, for a new file, of its directory.
	AppendDurable(op, path string, content []byte) error
	// Identify returns a text that changes when the file is written or replaced. If the file is
	// absent, the error wraps fs.ErrNotExist.
	Identify(op, path string) (string, error)
	// SyncDir makes renames, creations and removals in dir durable.
	SyncDir(op, dir string) error
	// Read returns the content. If the file is absent, the error wraps fs.ErrNotExist.
	Read(op, path string) ([]byte, error)
	// Rename renames a file, replaces one at to, and creates missing parents of to.
	Rename(op, from, to string) error
	// Remove removes a file; an absent file is no error.
	Remove(op, path string) error
	// List returns all base names in dir, sorted; none if dir is absent.
	List(op, dir string) ([]string, error)
}

// TestFiles tests an implementation of Files against the promises of the port. newFiles returns an empty data directory in which the
// directory "queue" exists, and nothing else.
func TestFiles(t *testing.T, newFiles func(t *testing.T) Files) {
	tests := []struct {
		name string
		run  func(t *testing.T, files Files)
	}{
		{"replace and read back", testReplace},
		{"replace without a sync", testReplaceUnsynced},
		{"empty file", testEmptyFile},
		{"buffers are not shared", testBuffers},
		{"replace in an absent directory", testReplaceAbsentDir},
		{"append", testAppend},
		{"durable append", testAppendDurable},
		{"identity", testIdentity},
		{"append and replace in turn", testAppendAndReplace},
		{"append in an absent directory", testAppendAbsentDir},
		{"absent file", testAbsent},
		{"remove", testRemove},
		{"rename", testRename},
		{"rename makes directories", testRenameMakesDirs},
		{"rename of an absent file", testRenameAbsent},
		{"list", testList},
		{"sync directory", testSyncDir},
		{"errors name operation and path", testErrors},
		{"paths outside panic", testPathsOutside},
		{"concurrent replaces of several files", testConcurrentFiles},
		{"concurrent replaces of one file", testConcurrentFile},
		{"concurrent appends to one file", testConcurrentAppends},
		{"concurrent renames into a new directory", testConcurrentRenames},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { test.run(t, newFiles(t)) })
	}
}

const op = "test-step"

func testReplace(t *testing.T, files Files) {
	for _, path := range []string{"queue/job-1", "config.data"} {
		for _, content := range []string{"first\n", "a longer second\n", "3"} {
			replace(t, files, path, content)
			wantContent(t, files, path, content)
		}
	}
	wantList(t, files, "queue", "job-1")
	wantList(t, files, ".", "config.data", "queue")
	large := strings.Repeat("0123456789abcdef", 1<<16)
	replace(t, files, "queue/job-1", large)
	wantContent(t, files, "queue/job-1", large)
}

func testReplaceUnsynced(t *testing.T, files Files) {
	replace(t, files, "queue/job-1", "first")
	for _, content := range []string{"a longer second\n", ""} {
		if err := files.ReplaceUnsynced("test", "queue/job-1", []byte(content)); err != nil {
			t.Fatal(err)
		}
		wantContent(t, files, "queue/job-1", content)
		wantList(t, files, "queue", "job-1")
	}
	if err := files.ReplaceUnsynced("test", "absent/job-1", nil); err == nil {
		t.Error("a file in an absent directory was written")
	}
}

func testEmptyFile(t *testing.T, files Files) {
	noError(t, files.Replace(op, "queue/drain", nil))
	wantContent(t, files, "queue/drain", "")
	wantList(t, files, "queue", "drain")
}

func testBuffers(t *testing.T, files Files) {
	data := []byte("content")
	noError(t, files.Replace(op, "queue/job-1", data))
	data[0] = 'X'
	wantContent(t, files, "queue/job-1", "content")
	parts := [][]byte{[]byte("con"), {}, []byte("tent")}
	noError(t, files.Replace(op, "queue/job-1", parts...))
	parts[0][0] = 'X'
	wantContent(t, files, "queue/job-1", "content")
	read, err := files.Read(op, "queue/job-1")
	noError(t, err)
	read[0] = 'X'
	wantContent(t, files, "queue/job-1", "content")
}

func testReplaceAbsentDir(t *testing.T, files Files) {
	wantNotExist(t, files.Replace(op, "absent/job-1", []byte("x")))
	wantList(t, files, ".", "queue")
}

func testAppend(t *testing.T, files Files) {
	want := ""
	for _, content := range []string{"first\n", "", "second\n", strings.Repeat("0123456789abcdef", 1<<16), "last"} {
		data := []byte(content)
		noError(t, files.Append(op, "locks.journal", data))
		for i := range data {
			data[i] = 'X'
		}
		want += content
		wantContent(t, files, "locks.journal", want)
	}
	read, err := files.Read(op, "locks.journal")
	noError(t, err)
	read[0] = 'X'
	noError(t, files.Append(op, "locks.journal", []byte("!")))
	wantContent(t, files, "locks.journal", want+"!")
	noError(t, files.Append(op, "queue/empty", nil))
	wantContent(t, files, "queue/empty", "")
	wantList(t, files, ".", "locks.journal", "queue")
	wantList(t, files, "queue", "empty")
}

func testAppendDurable(t *testing.T, files Files) {
	want := ""
	for _, content := range []string{"first\n", "", "second\n", strings.Repeat("0123456789abcdef", 1<<16)} {
		noError(t, files.AppendDurable(op, "config.journal", []byte(content)))
		want += content
		wantContent(t, files, "config.journal", want)
	}
	replace(t, files, "config.journal", "replaced\n")
	noError(t, files.AppendDurable(op, "config.journal", []byte("more")))
	wantContent(t, files, "config.journal", "replaced\nmore")
	noError(t, files.AppendDurable(op, "queue/new", []byte("x")))
	wantList(t, files, "queue", "new")
}

func testIdentity(t *testing.T, files Files) {
	_, err := files.Identify(op, "config.data")
	wantNotExist(t, err)
	replace(t, files, "config.data", "1")
	seen := map[string]bool{}
	for _, change := range []func() error{
		func() error { return nil },
		func() error { return files.Replace(op, "config.data", []byte("2")) },
		func() error { return files.Append(op, "config.data", []byte("3")) },
		func() error { return files.AppendDurable(op, "config.data", []byte("4")) },
	} {
		noError(t, change())
		for range 2 {
			_, err := files.Read(op, "config.data")
			noError(t, err)
			identity, err := files.Identify(op, "config.data")
			noError(t, err)
			seen[identity] = true
		}
	}
	if len(seen) != 4 {
		t.Errorf("4 contents have %d identities: %v", len(seen), seen)
	}
}

func testAppendAndReplace(t *testing.T, files Files) {
	replace(t, files, "queue/job-1", "whole ")
	noError(t, files.Append(op, "queue/job-1", []byte("and more")))
	wantContent(t, files, "queue/job-1", "whole and more")
	noError(t, files.Rename(op, "queue/job-1", "queue/job-2"))
	noError(t, files.Append(op, "queue/job-1", []byte("another file")))
	noError(t, files.Append(op, "queue/job-2", []byte(".")))
	wantContent(t, files, "queue/job-1", "another file")
	wantContent(t, files, "queue/job-2", "whole and more.")
	replace(t, files, "queue/job-2", "new")
	noError(t, files.Remove(op, "queue/job-1"))
	noError(t, files.Append(op, "queue/job-1", []byte("anew")))
	wantContent(t, files, "queue/job-1", "anew")
	wantContent(t, files, "queue/job-2", "new")
	wantList(t, files, "queue", "job-1", "job-2")
}

func testAppendAbsentDir(t *testing.T, files Files) {
	wantNotExist(t, files.Append(op, "absent/job-1", []byte("x")))
	wantNotExist(t, files.AppendDurable(op, "absent/job-1", []byte("x")))
	wantList(t, files, ".", "queue")
}

func testAbsent(t *testing.T, files Files) {
	for _, path := range []string{"queue/job-1", "config.data", "absent/job-1"} {
		_, err := files.Read(op, path)
		wantNotExist(t, err)
	}
}

func testRemove(t *testing.T, files Files) {
	replace(t, files, "queue/job-1", "1")
	replace(t, files, "queue/job-2", "2")
	for range 2 {
		noError(t, files.Remove(op, "queue/job-1"))
		_, err := files.Read(op, "queue/job-1")
		wantNotExist(t, err)
		wantList(t, files, "queue", "job-2")
	}
	noError(t, files.Remove(op, "absent/job-1"))
}

func testRename(t *testing.T, files Files) {
	replace(t, files, "queue/job-1", "new")
	replace(t, files, "queue/job-2", "old")
	noError(t, files.Rename(op, "queue/job-1", "queue/job-2"))
	wantList(t, files, "queue", "job-2")
	wantContent(t, files, "queue/job-2", "new")
	_, err := files.Read(op, "queue/job-1")
	wantNotExist(t, err)
}

func testRenameMakesDirs(t *testing.T, files Files) {
	replace(t, files, "queue/job-20001", "content")
	noError(t, files.Rename(op, "queue/job-20001", "queue/archive/2/job-20001"))
	wantContent(t, files, "queue/archive/2/job-20001", "content")
	wantList(t, files, "queue", "archive")
	wantList(t, files, "queue/archive", "2")
	wantList(t, files, "queue/archive/2", "job-20001")
	noError(t, files.SyncDir(op, "queue/archive/2"))
	replace(t, files, "queue/archive/2/job-20002", "beside it")
}

func testRenameAbsent(t *testing.T, files Files) {
	replace(t, files, "queue/job-2", "stays")
	wantNotExist(t, files.Rename(op, "queue/job-1", "queue/job-2"))
	wantContent(t, files, "queue/job-2", "stays")
	wantNotExist(t, files.Rename(op, "queue/job-1", "queue/archive/0/job-1"))
	wantList(t, files, "queue", "job-2")
}

func testList(t *testing.T, files Files) {
	wantList(t, files, "queue")
	wantList(t, files, "absent")
	for _, name := range []string{"serial", "job-2", "job-10", "job-1", "lock"} {
		replace(t, files, "queue/"+name, name)
	}
	wantList(t, files, "queue", "job-1", "job-10", "job-2", "lock", "serial")
}

func testSyncDir(t *testing.T, files Files) {
	replace(t, files, "queue/job-1", "1")
	noError(t, files.SyncDir(op, "queue"))
	noError(t, files.SyncDir(op, "queue"))
	noError(t, files.SyncDir(op, "."))
	wantNotExist(t, files.SyncDir(op, "absent"))
	wantContent(t, files, "queue/job-1", "1")
}

func testErrors(t *testing.T, files Files) {
	_, readErr := files.Read("step-read", "queue/job-1")
	for _, failure := range []struct {
		op, path string
		err      error
	}{
		{"step-read", "queue/job-1", readErr},
		{"step-replace", "absent/job-1", files.Replace("step-replace", "absent/job-1", nil)},
		{"step-append", "absent/job-1", files.Append("step-append", "absent/job-1", nil)},
		{"step-sync", "absent", files.SyncDir("step-sync", "absent")},
		{"step-rename", "queue/job-1", files.Rename("step-rename", "queue/job-1", "queue/job-2")},
	} {
		wantNotExist(t, failure.err)
		if failure.err == nil {
			continue
		}
		text := failure.err.Error()
		if !strings.HasPrefix(text, failure.op+": ") || !strings.Contains(text, failure.path) {
			t.Errorf("error %q does not start with %q or does not name %s", text, failure.op+": ", failure.path)
		}
	}
}

func testPathsOutside(t *testing.T, files Files) {
	replace(t, files, "queue/job-1", "1")
	for _, path := range []string{"", "/queue/job-1", "..", "../job-1", "queue/../job-1", "queue/..", "./queue", "queue//job-1", "queue/"} {
		calls := map[string]func(){
			"Replace":       func() { _ = files.Replace(op, path, nil) },
			"Append":        func() { _ = files.Append(op, path, nil) },
			"AppendDurable": func() { _ = files.AppendDurable(op, path, nil) },
			"Identify":      func() { _, _ = files.Identify(op, path) },
			"SyncDir":       func() { _ = files.SyncDir(op, path) },
			"Read":          func() { _, _ = files.Read(op, path) },
			"Rename from":   func() { _ = files.Rename(op, path, "queue/job-2") },
			"Rename to":     func() { _ = files.Rename(op, "queue/job-1", path) },
			"Remove":        func() { _ = files.Remove(op, path) },
			"List":          func() { _, _ = files.List(op, path) },
		}
		for name, call := range calls {
			if !panics(call) {
				t.Errorf("%s(%q) does not panic", name, path)
			}
		}
	}
	wantContent(t, files, "queue/job-1", "1")
}

const writers = 16

func panics(call func()) (panicked bool) {
	defer func() { panicked = recover() != nil }()
	call()
	return false
}

func replace(t *testing.T, files Files, path, content string) {
	t.Helper()
	noError(t, files.Replace(op, path, []byte(content)))
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantNotExist(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want an error that wraps fs.ErrNotExist", err)
	}
}

func wantContent(t *testing.T, files Files, path, content string) {
	t.Helper()
	data, err := files.Read(op, path)
	noError(t, err)
	if string(data) != content {
		t.Errorf("%s holds %.60q (%d bytes), want %.60q (%d bytes)", path, data, len(data), content, len(content))
	}
}

func wantList(t *testing.T, files Files, dir string, names ...string) {
	t.Helper()
	got, err := files.List(op, dir)
	noError(t, err)
	if !slices.Equal(got, names) {
		t.Errorf("%s holds %q, want %q", dir, got, names)
	}
}

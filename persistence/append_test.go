package persistence

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestAppendModeIgnoresUmask(t *testing.T) {
	files, root := newOSFiles(t)
	old := unix.Umask(0o777)
	err := files.Append("journal", "locks.journal", []byte("x"))
	unix.Umask(old)
	noError(t, err)
	info, err := os.Stat(filepath.Join(root, "locks.journal"))
	noError(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode is %o, want %o", info.Mode().Perm(), 0o600)
	}
}

func TestFailedAppend(t *testing.T) {
	t.Run("the write stops half way", func(t *testing.T) {
		files, root := newOSFiles(t)
		noError(t, files.Append("journal", "queue/journal", []byte("old\n")))
		limited := startRole(t, "small-append-limit", root)
		if got, want := limited.line(), "journal: append to queue/journal: short write: 4092 of 10000 bytes"; got != want {
			t.Errorf("error is %q, want %q", got, want)
		}
		if got, want := limited.line(), "journal: append to queue/journal: file too large"; got != want {
			t.Errorf("error is %q, want %q", got, want)
		}
		data, err := files.Read("check", "queue/journal")
		noError(t, err)
		if len(data) != 4096 || !strings.HasPrefix(string(data), "old\n") {
			t.Errorf("the journal holds %d bytes, %.40q", len(data), data)
		}
	})
	t.Run("no regular file", func(t *testing.T) {
		files, root := newOSFiles(t)
		name := filepath.Join(root, "queue/journal")
		noError(t, unix.Mkfifo(name, 0o640))
		if err := files.Append("journal", "queue/journal", []byte("x")); err == nil {
			t.Error("a pipe without a reader can be appended to")
		}
		reader, err := unix.Open(name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		noError(t, err)
		defer func() { noError(t, unix.Close(reader)) }()
		err = files.Append("journal", "queue/journal", []byte("x"))
		if want := "journal: append to queue/journal: not a regular file"; err == nil || err.Error() != want {
			t.Errorf("error is %v, want %q", err, want)
		}
		if err := files.Append("journal", "queue", nil); !errors.Is(err, unix.EISDIR) {
			t.Errorf("error is %v, want %v", err, unix.EISDIR)
		}
	})
}

func TestBootIDStays(t *testing.T) {
	id, err := BootID()
	noError(t, err)
	again, err := BootID()
	noError(t, err)
	if len(id) < 32 || id != again || strings.TrimSpace(id) != id {
		t.Errorf("boot ids %q and %q", id, again)
	}
}

func BenchmarkAppend(b *testing.B) {
	files, _ := newOSFiles(b)
	line := []byte(strings.Repeat("x", 120) + "\n")
	for b.Loop() {
		noError(b, files.Append("journal", "locks.journal", line))
	}
}

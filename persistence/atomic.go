package persistence

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"lockstep/core/ownership"
)

// Replace replaces the content of path atomically. It writes a temporary file beside it, gives it
// the user, group and mode of the rules, syncs and renames it. The sync comes before the rename, so that unwritten data never replaces
// good data. The new name survives a power loss only after [OSFiles.SyncDir] (design.md
// "Durable or not").
//
// The directory must exist. On an error the old file is unchanged and the temporary file removed.
// A failed sync is not repeated: the kernel may have dropped the dirty pages, so that a second
// sync could succeed without the data.
func (f *OSFiles) Replace(op, path string, data ...[]byte) error {
	return f.replace(op, path, data, true)
}

// ReplaceUnsynced is Replace without the sync. Processes see the old content or the new one. After a power loss before
// [OSFiles.SyncAll], the file may have the old content, none, or other content.
func (f *OSFiles) ReplaceUnsynced(op, path string, data ...[]byte) error {
	return f.replace(op, path, data, false)
}

func (f *OSFiles) replace(op, path string, data [][]byte, sync bool) error {
	target := f.abs(path)
	temp := tempName(target)
	if step, err := writeNew(temp, data, f.owners.DataFile(path), sync); err != nil {
		return fileError(op, step, path, err)
	}
	// The content is synced by now, if it is to be at all: a name that survives a power loss must not name unwritten data.
	if err := unix.Rename(temp, target); err != nil {
		discardTemp(temp)
		return fileError(op, "rename", path, err)
	}
	return nil
}

// writeNew creates name with the data; with sync it is on the disk afterwards. On an error it
// returns the failed step and removes the file.
func writeNew(name string, data [][]byte, a ownership.Attributes, sync bool) (step string, err error) {
	fd, err := openFile(name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, a.Mode&privateBits)
	if err != nil {
		return "create", err
	}
	step, err = writeAndSync(fd, data, a, sync)
	if closeErr := unix.Close(fd); err == nil && closeErr != nil {
		// Network file systems report a lost write at close.
		step, err = "close", closeErr
	}
	if err != nil {
		discardTemp(name)
	}
	return step, err
}

func writeAndSync(fd int, data [][]byte, a ownership.Attributes, sync bool) (step string, err error) {
	if step, err := setAttributes(fd, a); err != nil {
		return step, err
	}
	for _, part := range data {
		if err := writeFull(fd, part); err != nil {
			return "write", err
		}
	}
	if !sync {
		return "", nil
	}
	if err := retryInterrupted(func() error { return unix.Fdatasync(fd) }); err != nil {
		return "sync", err
	}
	return "", nil
}

func writeFull(fd int, data []byte) error {
	for len(data) > 0 {
		var n int
		err := retryInterrupted(func() (err error) { n, err = unix.Write(fd, data); return err })
		if err != nil {
			return err
		}
		if n == 0 {
			return io.ErrShortWrite
		}
		data = data[n:]
	}
	return nil
}

// discardTemp removes a temporary file after a failure. It ignores its own errors, because the
// caller reports the failure; SweepTemp removes the file later.
func discardTemp(name string) {
	_ = unix.Unlink(name)
}

// retryInterrupted repeats a call that a signal has interrupted. EINTR means that nothing was
// done, so that repeating a sync hides no error.
func retryInterrupted(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// openFile opens a file. The descriptor is close-on-exec, so that no child process inherits it.
func openFile(name string, flags int, mode uint32) (fd int, err error) {
	err = retryInterrupted(func() (err error) {
		fd, err = unix.Open(name, flags|unix.O_CLOEXEC, mode)
		return err
	})
	return fd, err
}

// fileError returns an error with the caller's op, the failed step and the file: "save-job: write
// queue/job-12: no space left on device".
func fileError(op, step, path string, err error) error {
	return fmt.Errorf("%s: %s %s: %w", op, step, path, err)
}

const (
	tempSuffix    = ".tmp"
	tempRandomLen = 16 // hexadecimal digits of a uint64
)

// tempName returns the name of the temporary file for target: "<target>-<pid>-<16 hexadecimal
// digits>.tmp". The file is in the same directory, so that the rename is atomic. The name is not
// that of a job file. SweepTemp finds the writer by the pid.
func tempName(target string) string {
	return fmt.Sprintf("%s-%d-%0*x%s", target, os.Getpid(), tempRandomLen, rand.Uint64(), tempSuffix)
}

// tempOwner returns the pid in a name that tempName made; false for any other name. The fixed length of the random part distinguishes it
// from Ganeti's "job-12-<random>.tmp".
func tempOwner(base string) (pid int, ok bool) {
	rest, ok := strings.CutSuffix(base, tempSuffix)
	if !ok {
		return 0, false
	}
	rest, random, ok := cutLast(rest, "-")
	if !ok || len(random) != tempRandomLen || strings.Trim(random, "0123456789abcdef") != "" {
		return 0, false
	}
	target, digits, ok := cutLast(rest, "-")
	if !ok || target == "" {
		return 0, false
	}
	pid, err := strconv.Atoi(digits)
	return pid, err == nil && pid > 0
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

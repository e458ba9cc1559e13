package persistence

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// fileMode is given to every file written, whatever the umask: Ganeti's tools
// read the queue through their group.
const fileMode = 0o640

// Replace puts data in the place of path, or leaves path as it was: a temporary
// file beside it is written, synced and renamed over it. A rename must never
// put unwritten data in the place of good data, so the sync is not optional;
// but only [OSFiles.SyncDir] makes the new name survive power loss (design.md
// 4, "Durable or not").
//
// The directory must exist. On an error the temporary file is gone and the old
// file untouched. A sync that failed is not tried again: the kernel may have
// dropped the dirty pages, so a second one could succeed without the data.
func (f *OSFiles) Replace(op, path string, data []byte) error {
	target := f.abs(path)
	temp := tempName(target)
	if step, err := writeNew(temp, data, fileMode, true); err != nil {
		return fileError(op, step, path, err)
	}
	if err := unix.Rename(temp, target); err != nil {
		discardTemp(temp)
		return fileError(op, "rename", path, err)
	}
	return nil
}

// writeNew creates name with data in it, on the disk when it returns if sync is true. On
// an error it says which step failed and leaves no file behind.
func writeNew(name string, data []byte, mode fs.FileMode, sync bool) (step string, err error) {
	fd, err := openFile(name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, uint32(mode))
	if err != nil {
		return "create", err
	}
	step, err = writeAndSync(fd, data, mode, sync)
	if closeErr := unix.Close(fd); err == nil && closeErr != nil {
		// Network file systems report a lost write here.
		step, err = "close", closeErr
	}
	if err != nil {
		discardTemp(name)
	}
	return step, err
}

func writeAndSync(fd int, data []byte, mode fs.FileMode, sync bool) (step string, err error) {
	if err := unix.Fchmod(fd, uint32(mode)); err != nil {
		return "chmod", err
	}
	if err := writeFull(fd, data); err != nil {
		return "write", err
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

// discardTemp drops a temporary file after a failure. That failure is what the
// caller must hear of; a file that cannot be removed either is left to SweepTemp.
func discardTemp(name string) {
	_ = unix.Unlink(name)
}

// retryInterrupted repeats a call that a signal interrupted. EINTR says "not done",
// not "failed": repeating a sync after it hides no error.
func retryInterrupted(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// openFile returns a close-on-exec descriptor: no child of a daemon or of a job
// process ever inherits one.
func openFile(name string, flags int, mode uint32) (fd int, err error) {
	err = retryInterrupted(func() (err error) {
		fd, err = unix.Open(name, flags|unix.O_CLOEXEC, mode)
		return err
	})
	return fd, err
}

// fileError names the caller's step, what was attempted and on which file:
// "save-job: write queue/job-12: no space left on device".
func fileError(op, step, path string, err error) error {
	return fmt.Errorf("%s: %s %s: %w", op, step, path, err)
}

const (
	tempSuffix    = ".tmp"
	tempRandomLen = 16 // hexadecimal digits of a uint64
)

// tempName is target's name while it is being written:
// "<target>-<pid>-<16 hexadecimal digits>.tmp". It is in the same directory, so
// that the rename is atomic; it matches no job file's name; the pid lets
// SweepTemp tell whether the writer may be at work still.
func tempName(target string) string {
	return fmt.Sprintf("%s-%d-%0*x%s", target, os.Getpid(), tempRandomLen, rand.Uint64(), tempSuffix)
}

// tempOwner returns the pid in a name that tempName made. The fixed length of
// the random part tells ours from Ganeti's "job-12-<random>.tmp".
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

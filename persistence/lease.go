package persistence

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"lockstep/core/ownership"
)

// Lease is the file in which job processes read, without a system call, until when their node is
// certain to be the master: eight bytes, in nanoseconds of CLOCK_BOOTTIME, which advances while
// the machine sleeps. Descriptors are plain numbers, so that no finaliser closes them.
type Lease struct {
	fd int

	// Used by the daemon only.
	path        string
	mu          sync.Mutex
	replacedFDs []int // descriptors of removed lease files, which running processes still read
}

// replacedFDsMax bounds the removed files that are still renewed. Processes that read an older
// one end as after the end of the lease.
const replacedFDsMax = 16

func leasePath(runDir string) string { return filepath.Join(runDir, "lease") }

// leaseAttributes are those of lockstep's own mode: in Ganeti mode there is no lease.
var leaseAttributes = ownership.Rules{}.Of(ownership.RunFile)

// Forever is a lease that does not expire, for a node that no other node can replace as master.
const Forever = time.Duration(math.MaxInt64)

// CreateLease creates the file with an expired lease. It leaves the content of an existing file
// as it is.
func CreateLease(runDir string) (*Lease, error) {
	fd, _, _, err := openOrCreate(leasePath(runDir), unix.O_RDWR, leaseAttributes)
	if err != nil {
		return nil, fmt.Errorf("create the lease: %w", err)
	}
	l := &Lease{fd: fd, path: leasePath(runDir)}
	var content [8]byte
	if n, err := unix.Pread(fd, content[:], 0); err == nil && n == len(content) {
		return l, nil
	}
	return l, l.Renew(0)
}

// RemoveLease removes the file, for a node whose jobs need no lease.
func RemoveLease(runDir string) error {
	if err := os.Remove(leasePath(runDir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the lease: %w", err)
	}
	return nil
}

// OpenLease opens the file for a job process. The error wraps fs.ErrNotExist if there is no
// lease.
func OpenLease(runDir string) (*Lease, error) {
	fd, err := openFile(leasePath(runDir), unix.O_RDONLY, 0)
	if err != nil {
		return nil, fmt.Errorf("open the lease %s: %w", leasePath(runDir), err)
	}
	return &Lease{fd: fd}, nil
}

// Renew sets the end of the lease, as time since boot. If the file was removed, Renew creates it
// again for new processes, and also writes the old one, which running processes still read.
func (l *Lease) Renew(until time.Duration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var errs []error
	if !l.namesOpenFile() {
		errs = append(errs, l.recreate())
	}
	var content [8]byte
	binary.LittleEndian.PutUint64(content[:], uint64(until))
	for _, fd := range append([]int{l.fd}, l.replacedFDs...) {
		if n, err := unix.Pwrite(fd, content[:], 0); err != nil || n != len(content) {
			errs = append(errs, fmt.Errorf("renew the lease: %d bytes written: %w", n, err))
		}
	}
	return errors.Join(errs...)
}

// namesOpenFile reports whether the path still leads to the open file.
func (l *Lease) namesOpenFile() bool {
	var opened, named unix.Stat_t
	return unix.Fstat(l.fd, &opened) == nil && unix.Stat(l.path, &named) == nil && opened.Dev == named.Dev && opened.Ino == named.Ino
}

func (l *Lease) recreate() error {
	fd, _, _, err := openOrCreate(l.path, unix.O_RDWR, leaseAttributes)
	if err != nil {
		return fmt.Errorf("make the lease again: %w", err)
	}
	l.replacedFDs = append(l.replacedFDs, l.fd)
	if l.fd = fd; len(l.replacedFDs) > replacedFDsMax {
		_ = unix.Close(l.replacedFDs[0]) // the descriptor holds no unwritten data
		l.replacedFDs = l.replacedFDs[1:]
	}
	return nil
}

// Expire ends the lease now. It does not change a lease that has expired.
func (l *Lease) Expire() error {
	now := SinceBoot()
	l.mu.Lock()
	until, known := l.until()
	l.mu.Unlock()
	if known && until <= now {
		return nil
	}
	return l.Renew(now)
}

// IsValid reports whether the node is certain to be the master. It is false on an error.
func (l *Lease) IsValid() bool {
	until, known := l.until()
	return known && SinceBoot() < until
}

// ExpiredFor is the time since the lease expired: 0 while it is valid, and the longest duration
// if that cannot be read.
func (l *Lease) ExpiredFor() time.Duration {
	until, known := l.until()
	if !known {
		return Forever
	}
	return max(0, SinceBoot()-until)
}

func (l *Lease) until() (until time.Duration, known bool) {
	var content [8]byte
	n, err := unix.Pread(l.fd, content[:], 0)
	return time.Duration(binary.LittleEndian.Uint64(content[:])), err == nil && n == len(content)
}

// SinceBoot is the time of CLOCK_BOOTTIME: since the boot, suspended time included.
func SinceBoot() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		panic(fmt.Errorf("read CLOCK_BOOTTIME: %w", err)) // every kernel with pidfds has this clock
	}
	return time.Duration(now.Nano())
}

package persistence

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Lease is the file by which job processes see, without asking anybody, until when
// their node is the master for certain: eight bytes, nanoseconds of CLOCK_BOOTTIME,
// which goes on while a machine sleeps. One without the file is not asked for. The
// descriptor is a bare number: it is nobody's to close by accident.
type Lease struct{ fd int }

func leasePath(runDir string) string { return filepath.Join(runDir, "lease") }

// Forever is a lease that outlives its daemon: no other node could take over.
const Forever = time.Duration(math.MaxInt64)

// CreateLease makes the file, with a lease that is over, or takes it over as it is.
func CreateLease(runDir string) (*Lease, error) {
	fd, err := openFile(leasePath(runDir), unix.O_RDWR|unix.O_CREAT, fileMode)
	if err != nil {
		return nil, fmt.Errorf("create the lease: %w", err)
	}
	l := &Lease{fd}
	var content [8]byte
	if n, err := unix.Pread(fd, content[:], 0); err == nil && n == len(content) {
		return l, nil
	}
	return l, l.Renew(0)
}

// RemoveLease is for a node whose jobs need none.
func RemoveLease(runDir string) error {
	if err := os.Remove(leasePath(runDir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the lease: %w", err)
	}
	return nil
}

// OpenLease is for a job's process; nil where there is no lease.
func OpenLease(runDir string) (*Lease, error) {
	fd, err := openFile(leasePath(runDir), unix.O_RDONLY, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil //nolint:nilnil // a node that is alone
	case err != nil:
		return nil, fmt.Errorf("open the lease: %w", err)
	}
	return &Lease{fd}, nil
}

// Renew says until when the node is the master, in time since boot.
func (l *Lease) Renew(until time.Duration) error {
	var content [8]byte
	binary.LittleEndian.PutUint64(content[:], uint64(until))
	if n, err := unix.Pwrite(l.fd, content[:], 0); err != nil || n != len(content) {
		return fmt.Errorf("renew the lease: %d bytes written: %w", n, err)
	}
	return nil
}

// End says that the node is not the master from now on. A lease that is over already
// stays over since then.
func (l *Lease) End() error {
	now := SinceBoot()
	if until, known := l.until(); known && until <= now {
		return nil
	}
	return l.Renew(now)
}

// Holds is false when the node may not be the master any more, or nobody knows.
func (l *Lease) Holds() bool {
	until, known := l.until()
	return known && SinceBoot() < until
}

// OverFor is for how long the lease has been over: 0 while it holds, and as long as can be
// where nobody knows.
func (l *Lease) OverFor() time.Duration {
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

// SinceBoot is the time that CLOCK_BOOTTIME shows.
func SinceBoot() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		panic(fmt.Errorf("CLOCK_BOOTTIME: %w", err)) // every kernel has it that has pidfd
	}
	return time.Duration(now.Nano())
}

package simdisk

import "strings"

// FaultWhen says how much of its effect a failing call has had.
type FaultWhen uint8

const (
	// BeforeEffect: none.
	BeforeEffect FaultWhen = iota
	// AfterEffect: all of it. The caller cannot know.
	AfterEffect
	// PartEffect: a part, if the call can have one: an append has written the first bytes. Other
	// calls have no effect.
	PartEffect
)

// Fault fails calls of one op: the Nth from now (from 1), and Times-1 after it; Times below 0
// means for ever.
type Fault struct {
	Op    string // "": any
	Nth   int
	Times int
	Err   error
	When  FaultWhen
}

// Fail adds a fault: the calls that it describes fail from now on.
func (d *Disk) Fail(f Fault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults = append(d.faults, &f)
}

// Heal removes all faults that were added.
func (d *Disk) Heal() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults = nil
}

func (d *Disk) fault(op string, call Call) (FaultWhen, error) {
	for _, f := range d.faults {
		if f.Op != "" && f.Op != op {
			continue
		}
		f.Nth--
		if f.Nth > 0 || f.Times == 0 {
			continue
		}
		f.Times--
		return f.When, f.Err
	}
	if d.Chance != nil {
		return d.Chance(op, call)
	}
	return BeforeEffect, nil
}

// Mutations are bugs that no disk may have and no daemon can survive, to test the checkers: each
// must be found.
type Mutations struct {
	// SkipDataSync: files are renamed over others before their data is synced.
	SkipDataSync bool
	// SkipDataSyncOf: the same for the calls with this op only; "": for none.
	SkipDataSyncOf string
	// SkipSyncAll: a sync of all does nothing. ForgetsQueue: it leaves out the file system of the queue.
	SkipSyncAll, ForgetsQueue bool
	// HidesSyncErrors: a sync of all that fails seems to succeed.
	HidesSyncErrors bool
	// LyingSync: a directory's sync does nothing.
	LyingSync bool
	// Loses: writes of these ops, comma-separated, succeed without an effect.
	Loses string
	// KeepsRemoved: a removed file stays.
	KeepsRemoved bool
	// SkipAppendSync: a durable append does not sync the file.
	SkipAppendSync bool
	// KeepsFailedAppends: a replacement or removal of a file after a failed append to it succeeds without an effect.
	KeepsFailedAppends bool
	// TornAppends: every third append loses its last byte.
	TornAppends bool
	// LateWrites: a job process's writes are exchanged, two by two.
	LateWrites bool
}

func (m Mutations) skipsDataSync(op string) bool {
	return m.SkipDataSync || m.SkipDataSyncOf != "" && m.SkipDataSyncOf == op
}

// delay returns the contents that reach the disk, in this order, when f is written.
func (d *Disk) delay(op, name string, f *File) []*File {
	if d.dropsWrite(op) {
		return nil
	}
	if !d.Mutations.LateWrites || op != "run-job" {
		return []*File{f}
	}
	if earlier := d.delayed[name]; earlier != nil {
		delete(d.delayed, name)
		return []*File{f, earlier}
	}
	d.delayed[name] = f
	return nil
}

// keepsFailed reports whether a file keeps a failed append although it is replaced or removed.
func (d *Disk) keepsFailed(name string) bool {
	if !d.Mutations.KeepsFailedAppends || d.failedAppend != name {
		return false
	}
	d.failedAppend = ""
	return true
}

// dropsWrite reports whether a write of this op succeeds without an effect.
func (d *Disk) dropsWrite(op string) bool {
	for lost := range strings.SplitSeq(d.Mutations.Loses, ",") {
		if lost == op {
			return true
		}
	}
	return false
}

package simdisk

import "strings"

// FaultWhen says what a failing call has done before it fails.
type FaultWhen uint8

const (
	// BeforeEffect: nothing.
	BeforeEffect FaultWhen = iota
	// AfterEffect: all of it. Who asked cannot know.
	AfterEffect
	// PartEffect: some of it, where a call can do that: an append has written
	// the first bytes. The others do nothing.
	PartEffect
)

// Fault lets calls of one step fail: the Nth from now (from 1), and Times-1
// after it; Times below 0 means for ever.
type Fault struct {
	Op    string // "": any
	Nth   int
	Times int
	Err   error
	When  FaultWhen
}

// Fail adds a fault.
func (d *Disk) Fail(f Fault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults = append(d.faults, &f)
}

// Heal takes all faults back.
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

// Mutations are faults that no disk should have and no daemon can survive. They
// are for the tests of the checkers: each must notice the one it guards against.
type Mutations struct {
	// SkipDataSync: files are renamed over others before their data is synced.
	SkipDataSync bool
	// LyingSync: a directory's sync does nothing.
	LyingSync bool
	// Loses: writes of these steps, comma-separated, are said to be done and
	// are not.
	Loses string
	// KeepsRemoved: a file that is removed stays.
	KeepsRemoved bool
	// TornAppends: every third append leaves its last byte out.
	TornAppends bool
	// LateWrites: a job process's writes change places, two by two.
	LateWrites bool
}

// delay is what really reaches the disk, in this order, when f is written.
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

// dropsWrite: a write of this step is said to be done, and is not.
func (d *Disk) dropsWrite(op string) bool {
	for lost := range strings.SplitSeq(d.Mutations.Loses, ",") {
		if lost == op {
			return true
		}
	}
	return false
}

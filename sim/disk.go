package sim

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"sync"

	"lockstep/actors/store"
	"lockstep/core/job"
)

// Disk is the data directory of a node, in memory, with a page cache before it.
//
// What a call sees is the cache: processes come and go, nothing is lost. What
// power loss leaves is decided per directory: all that was there when it was last
// synced, and of its changes since then the first few, in order. What was
// appended to a file since it was written may be gone, but for its first bytes.
type Disk struct {
	mu        sync.Mutex
	dirs      map[string]*directory
	faults    []*DiskFault
	mutations DiskMutations
	delayed   map[string]*file // see DiskMutations.LateWrites
	// appends so far
	appends int
	// replacing is the latest file that was replaced, see leaveTemp.
	replacing string

	// chance, if set, may have any call fail, or succeed and say it failed.
	chance func(op string, call diskCall) (when FaultWhen, err error)
	// partial, if set, says how much of n bytes, at least one, an append has written
	// that fails: 0 to n-1. Unset, it is half of them.
	partial func(n int) int
	// changed, if set, is called with what processes see from now on; content nil
	// means that the name is gone.
	changed func(call diskCall, op, path string, content []byte)
	// failed, if set, is called for each injected failure.
	failed func(call diskCall, op, path string, err error)
}

var _ store.Files = (*Disk)(nil)

type diskCall string

const (
	callReplace diskCall = "replace"
	callAppend  diskCall = "append to"
	callSync    diskCall = "sync directory"
	callRead    diskCall = "read"
	callRename  diskCall = "rename"
	callRemove  diskCall = "remove"
	callList    diskCall = "list"
)

// directory maps names to files. Subdirectories are not among them: they are
// made durably, as the real disk makes them.
type directory struct {
	visible map[string]*file // as processes see it
	durable map[string]*file // as of the last sync
	pending []*change        // what has changed since, in order
}

// file is content; names may share it. It is replaced, or appended to. Bytes that
// are there never change, so that callbacks may keep them.
type file struct {
	data     []byte
	synced   bool // its data will be there after power loss, but for
	unsynced int  // the last bytes, which were appended and not synced
	parsed   *parsedJob
}

// parsedJob is a file's data, parsed once: many checkers read it.
type parsedJob struct {
	length int // of the data it is of: power loss may cut it
	job    *job.Job
	err    error
	tag    string
}

func (f *file) parse() *parsedJob {
	if f.parsed == nil || f.parsed.length != len(f.data) {
		r := &parsedJob{length: len(f.data)}
		if r.job, r.err = job.Decode(f.data); r.err == nil {
			r.tag = tagOfJob(r.job)
		} else {
			r.job = nil
		}
		f.parsed = r
	}
	return f.parsed
}

// change is one change of a directory: name means f from now on, nothing if nil.
type change struct {
	name string
	f    *file
	// after is the change in another directory that gave the file its new
	// name: the old one does not go before the new one is there.
	after *linkedChange
}

type linkedChange struct {
	dir    *directory
	change *change
}

// NewDisk makes an empty disk with the directories given.
func NewDisk(dirs ...string) *Disk {
	d := &Disk{dirs: map[string]*directory{}, delayed: map[string]*file{}}
	d.makeDir(".")
	for _, dir := range dirs {
		d.makeDir(dir)
	}
	return d
}

func (d *Disk) makeDir(dir string) *directory {
	for at := dir; d.dirs[at] == nil; at = path.Dir(at) {
		d.dirs[at] = &directory{visible: map[string]*file{}, durable: map[string]*file{}}
	}
	return d.dirs[dir]
}

func (dir *directory) set(name string, f *file) *change {
	c := &change{name: name, f: f}
	dir.pending = append(dir.pending, c)
	apply(dir.visible, c)
	return c
}

func apply(names map[string]*file, c *change) {
	if c.f == nil {
		delete(names, c.name)
	} else {
		names[c.name] = c.f
	}
}

// Replace replaces the content of path: temporary file, write, sync, rename.
func (d *Disk) Replace(op, name string, data []byte) error {
	return d.call(callReplace, op, name, func() error {
		dir := d.dirs[path.Dir(name)]
		if dir == nil {
			return fs.ErrNotExist
		}
		d.replacing = name
		f := &file{data: bytes.Clone(data), synced: !d.mutations.SkipDataSync}
		for _, f := range d.delay(op, name, f) {
			dir.set(path.Base(name), f)
			d.notifyChanged(callReplace, op, name, f.data)
		}
		return nil
	})
}

// Append adds content to the end of a file, and makes it if it is absent: one
// write, which is not synced.
func (d *Disk) Append(op, name string, content []byte) error {
	return d.callInParts(callAppend, op, name,
		func() error { return d.append(op, name, content) },
		func() {
			if n := len(content); n > 0 {
				// That there is no such directory is not what fails here.
				_ = d.append(op, name, content[:d.partialLength(n)])
			}
		})
}

func (d *Disk) append(op, name string, content []byte) error {
	dir := d.dirs[path.Dir(name)]
	if dir == nil {
		return fs.ErrNotExist
	}
	if d.dropsWrite(op) {
		return nil
	}
	if d.appends++; d.mutations.TornAppends && d.appends%3 == 0 {
		content = content[:len(content)-1]
	}
	f := dir.visible[path.Base(name)]
	if f == nil {
		f = &file{synced: true}
		dir.set(path.Base(name), f)
	}
	if f.data == nil {
		f.data = []byte{} // nil would mean that the name is gone
	}
	f.data = append(f.data, content...)
	f.unsynced += len(content)
	d.notifyChanged(callAppend, op, name, f.data)
	return nil
}

// partialLength is how much an append has written that fails.
func (d *Disk) partialLength(n int) int {
	if d.partial == nil {
		return n / 2
	}
	return d.partial(n)
}

// SyncDir makes what was done in dir before survive power loss.
func (d *Disk) SyncDir(op, name string) error {
	return d.call(callSync, op, name, func() error {
		dir := d.dirs[name]
		if dir == nil {
			return fs.ErrNotExist
		}
		if !d.mutations.LyingSync {
			dir.commit(len(dir.pending))
		}
		d.notifyChanged(callSync, op, name, nil)
		return nil
	})
}

// Read returns the content of a file.
func (d *Disk) Read(op, name string) (data []byte, err error) {
	err = d.call(callRead, op, name, func() error {
		f := d.find(name)
		if f == nil {
			return fs.ErrNotExist
		}
		data = bytes.Clone(f.data)
		if data == nil {
			data = []byte{}
		}
		return nil
	})
	return data, err
}

// Rename moves a file, and makes the directory it goes to.
func (d *Disk) Rename(op, from, to string) error {
	checkPath(to)
	return d.call(callRename, op, from, func() error {
		f := d.find(from)
		if f == nil {
			return fs.ErrNotExist
		}
		source, target := d.dirs[path.Dir(from)], d.makeDir(path.Dir(to))
		link := target.set(path.Base(to), f)
		unlink := source.set(path.Base(from), nil)
		unlink.after = &linkedChange{target, link}
		d.notifyChanged(callRename, op, to, f.data)
		d.notifyChanged(callRename, op, from, nil)
		return nil
	})
}

// Remove removes a file, if it is there.
func (d *Disk) Remove(op, name string) error {
	return d.call(callRemove, op, name, func() error {
		if d.find(name) != nil && !d.mutations.KeepsRemoved {
			d.dirs[path.Dir(name)].set(path.Base(name), nil)
			d.notifyChanged(callRemove, op, name, nil)
		}
		return nil
	})
}

// List returns the base names of all that is in a directory, sorted.
func (d *Disk) List(op, name string) (names []string, err error) {
	err = d.call(callList, op, name, func() error {
		names = d.names(name)
		return nil
	})
	return names, err
}

func (d *Disk) names(dir string) []string {
	if d.dirs[dir] == nil {
		return nil
	}
	var names []string
	for name := range d.dirs[dir].visible {
		names = append(names, name)
	}
	for sub := range d.dirs {
		if sub != "." && path.Dir(sub) == dir {
			names = append(names, path.Base(sub))
		}
	}
	slices.Sort(names)
	return names
}

func (d *Disk) find(name string) *file {
	if dir := d.dirs[path.Dir(name)]; dir != nil {
		return dir.visible[path.Base(name)]
	}
	return nil
}

// call is what all calls have in common: a sane path, faults, and errors that
// name the step, the call and the file.
func (d *Disk) call(call diskCall, op, name string, effect func() error) error {
	return d.callInParts(call, op, name, effect, func() {})
}

// callInParts is for a call that may fail with a part of its work done.
func (d *Disk) callInParts(call diskCall, op, name string, effect func() error, part func()) error {
	checkPath(name)
	d.mu.Lock()
	defer d.mu.Unlock()
	when, fault := d.fault(op, call)
	if fault != nil && when != AfterEffect {
		if when == PartEffect {
			part()
		}
		return d.fail(call, op, name, fault)
	}
	if err := effect(); err != nil {
		return diskError(op, call, name, err)
	}
	if fault != nil {
		return d.fail(call, op, name, fault)
	}
	return nil
}

func checkPath(name string) {
	if !fs.ValidPath(name) {
		panic(fmt.Sprintf("sim: path %q leaves the data directory or is not in plain form", name))
	}
}

func (d *Disk) fail(call diskCall, op, name string, err error) error {
	if d.failed != nil {
		d.failed(call, op, name, err)
	}
	return diskError(op, call, name, err)
}

func diskError(op string, call diskCall, name string, err error) error {
	return fmt.Errorf("%s: %s %s: %w", op, call, name, err)
}

func (d *Disk) notifyChanged(call diskCall, op, name string, content []byte) {
	if d.changed != nil {
		d.changed(call, op, name, content)
	}
}

// directories are the paths of all directories, sorted.
func (d *Disk) directories() []string { return slices.Sorted(maps.Keys(d.dirs)) }

// Package simdisk is a disk in memory. It implements store.Files. Changes of a directory are lost
// by a power loss until the directory is synced; a random prefix of them survives, which the
// caller's source of randomness determines. Each call has a label, such as "submit-job", and the
// caller can make calls with a label fail. The package passes the conformance suite of the real
// disk, persistence/persistencetest.
//
// It does not interpret the content of files. Changes and failures are reported to callbacks.
package simdisk

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"lockstep/actors/store"
)

// Disk is the data directory of a node, in memory, behind a page cache.
//
// Calls see the cache, which survives processes. After a power loss each directory has its
// content at the last sync, and of its later changes the first few, in order. Of the bytes that
// were appended to a file since it was written the last ones may be lost.
type Disk struct {
	// Mutations are the promises that the disk breaks.
	Mutations Mutations
	// Chance, if set, can fail any call, before or after its effect.
	Chance func(op string, call Call) (when FaultWhen, err error)
	// Partial, if set, returns how many of n bytes, at least one, a failing append has written: 0
	// to n-1. The default is half of them.
	Partial func(n int) int
	// Changed, if set, is called with the content that processes see from now on; nil means that
	// the name is gone.
	Changed func(call Call, op, path string, content []byte)
	// Failed, if set, is called for each injected failure.
	Failed func(call Call, op, path string, err error)

	mu           sync.Mutex
	dirs         map[string]*directory
	faults       []*Fault
	delayed      map[string]*File // see Mutations.LateWrites
	appends      int              // number of appends so far
	files        uint64           // number of files that Identify has numbered
	failedAppend string           // the file whose last append has failed; "": none
	// replacing is the file that was replaced last, see LeaveTemp.
	replacing string
}

var _ store.Files = (*Disk)(nil)

// Call is a kind of call, as the trace and errors name it.
type Call string

// The kinds of calls.
const (
	CallReplace       Call = "replace"
	CallAppend        Call = "append to"
	CallAppendDurable Call = "append durably to"
	CallIdentify      Call = "identify"
	CallSync          Call = "sync directory"
	CallSyncAll       Call = "sync all of"
	CallRead          Call = "read"
	CallRename        Call = "rename"
	CallRemove        Call = "remove"
	CallList          Call = "list"
)

// directory maps names to files. It does not contain subdirectories, which are created durably,
// as on the real disk.
type directory struct {
	visible map[string]*File // what processes see
	durable map[string]*File // content at the last sync
	pending []*change        // changes since then, in order
}

// File is a content; several names may share it. It is replaced, or appended to. Existing bytes
// never change, so that callbacks may keep them.
type File struct {
	Data       []byte
	id         uint64 // from 1, once Identify has numbered it
	touches    int    // see Touch
	synced     bool   // its data survives a power loss, except
	unsynced   int    // the last bytes, which were appended and not synced
	written    bool   // by Replace; a temporary file is not
	former     []byte // the data of the file that it has replaced, unless it is synced
	dropped    bool   // a failed sync has dropped its data: later ones do not write it
	memo       any
	memoLength int
}

// Memo returns what derive makes of the data. It calls derive once for the same data, because
// many checkers read the same files. All callers must pass the same function.
func (f *File) Memo(derive func(data []byte) any) any {
	if f.memo == nil || f.memoLength != len(f.Data) { // a power loss may cut the data
		f.memo, f.memoLength = derive(f.Data), len(f.Data)
	}
	return f.memo
}

// change is one change of a directory: name stands for f from now on; nil: for nothing.
type change struct {
	name string
	f    *File
	// after is the change in another directory that gave the file its new name: the old name is
	// not removed before the new one exists.
	after *linkedChange
}

type linkedChange struct {
	dir    *directory
	change *change
}

// New makes an empty disk with the directories given.
func New(dirs ...string) *Disk {
	d := &Disk{dirs: map[string]*directory{}, delayed: map[string]*File{}}
	d.makeDir(".")
	for _, dir := range dirs {
		d.makeDir(dir)
	}
	return d
}

func (d *Disk) makeDir(dir string) *directory {
	for at := dir; d.dirs[at] == nil; at = path.Dir(at) {
		d.dirs[at] = &directory{visible: map[string]*File{}, durable: map[string]*File{}}
	}
	return d.dirs[dir]
}

func (dir *directory) set(name string, f *File) *change {
	c := &change{name: name, f: f}
	dir.pending = append(dir.pending, c)
	apply(dir.visible, c)
	return c
}

func apply(names map[string]*File, c *change) {
	if c.f == nil {
		delete(names, c.name)
	} else {
		names[c.name] = c.f
	}
}

// Replace replaces the content of path: temporary file, write, sync, rename.
func (d *Disk) Replace(op, name string, data ...[]byte) error {
	return d.replace(op, name, data, !d.Mutations.skipsDataSync(op))
}

// ReplaceUnsynced is Replace without the sync.
func (d *Disk) ReplaceUnsynced(op, name string, data ...[]byte) error {
	return d.replace(op, name, data, false)
}

func (d *Disk) replace(op, name string, data [][]byte, sync bool) error {
	return d.call(CallReplace, op, name, func() error {
		dir := d.dirs[path.Dir(name)]
		if dir == nil {
			return fs.ErrNotExist
		}
		if d.keepsFailed(name) {
			return nil
		}
		d.replacing = name
		f := &File{Data: bytes.Join(data, nil), written: true, synced: sync}
		if former := dir.visible[path.Base(name)]; former != nil && !f.synced {
			f.former = former.Data
		}
		for _, f := range d.delay(op, name, f) {
			dir.set(path.Base(name), f)
			d.notifyChanged(CallReplace, op, name, f.Data)
		}
		return nil
	})
}

// Append appends content to a file, and creates it if it is absent: one write, without a sync.
func (d *Disk) Append(op, name string, content []byte) error {
	return d.callInParts(CallAppend, op, name,
		func() error { return d.append(op, name, content) },
		func() { d.appendPart(op, name, content) })
}

// AppendDurable is Append with a sync of the file, and of the directory if it creates the file or the content is empty.
func (d *Disk) AppendDurable(op, name string, content []byte) error {
	return d.callInParts(CallAppendDurable, op, name,
		func() error {
			isNew := d.Find(name) == nil
			if err := d.append(op, name, content); err != nil {
				return err
			}
			if f := d.Find(name); f != nil && !d.Mutations.SkipAppendSync {
				f.synced, f.unsynced = true, 0
			}
			if dir := d.dirs[path.Dir(name)]; (isNew || len(content) == 0) && !d.Mutations.LyingSync {
				dir.commit(len(dir.pending))
			}
			return nil
		},
		func() { d.appendPart(op, name, content) })
}

// appendPart is what a failing append has written.
func (d *Disk) appendPart(op, name string, content []byte) {
	if n := len(content); n > 0 {
		// A missing directory is not the injected failure.
		_ = d.append(op, name, content[:d.partialLength(n)])
	}
}

// Identify returns a text that changes with each write of the file. An absent file is an error.
func (d *Disk) Identify(op, name string) (identity string, err error) {
	err = d.call(CallIdentify, op, name, func() error {
		f := d.Find(name)
		if f == nil {
			return fs.ErrNotExist
		}
		if f.id == 0 {
			d.files++
			f.id = d.files
		}
		identity = fmt.Sprintf("%d %d %d", f.id, len(f.Data), f.touches)
		return nil
	})
	return identity, err
}

// Touch changes the identity of a file, as touch(1) does, and not its content.
func (d *Disk) Touch(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.Find(name).touches++
}

func (d *Disk) append(op, name string, content []byte) error {
	dir := d.dirs[path.Dir(name)]
	if dir == nil {
		return fs.ErrNotExist
	}
	if d.dropsWrite(op) {
		return nil
	}
	if d.appends++; d.Mutations.TornAppends && d.appends%3 == 0 {
		content = content[:len(content)-1]
	}
	f := dir.visible[path.Base(name)]
	if f == nil {
		f = &File{synced: true}
		dir.set(path.Base(name), f)
	}
	if f.Data == nil {
		f.Data = []byte{} // nil would mean that the name is gone
	}
	f.Data = append(f.Data, content...)
	f.unsynced += len(content)
	d.notifyChanged(CallAppend, op, name, f.Data)
	return nil
}

// partialLength is how much a failing append has written.
func (d *Disk) partialLength(n int) int {
	if d.Partial == nil {
		return n / 2
	}
	return d.Partial(n)
}

// SyncDir makes earlier changes in dir survive a power loss.
func (d *Disk) SyncDir(op, name string) error {
	return d.call(CallSync, op, name, func() error {
		dir := d.dirs[name]
		if dir == nil {
			return fs.ErrNotExist
		}
		if !d.Mutations.LyingSync {
			dir.commit(len(dir.pending))
		}
		d.notifyChanged(CallSync, op, name, nil)
		return nil
	})
}

// Read returns the content of a file.
func (d *Disk) Read(op, name string) (data []byte, err error) {
	err = d.call(CallRead, op, name, func() error {
		f := d.Find(name)
		if f == nil {
			return fs.ErrNotExist
		}
		data = bytes.Clone(f.Data)
		if data == nil {
			data = []byte{}
		}
		return nil
	})
	return data, err
}

// Rename renames a file, and creates the directory of the new name.
func (d *Disk) Rename(op, from, to string) error {
	checkPath(to)
	return d.call(CallRename, op, from, func() error {
		f := d.Find(from)
		if f == nil {
			return fs.ErrNotExist
		}
		source, target := d.dirs[path.Dir(from)], d.makeDir(path.Dir(to))
		link := target.set(path.Base(to), f)
		unlink := source.set(path.Base(from), nil)
		unlink.after = &linkedChange{target, link}
		d.notifyChanged(CallRename, op, to, f.Data)
		d.notifyChanged(CallRename, op, from, nil)
		return nil
	})
}

// Remove removes a file, if it exists.
func (d *Disk) Remove(op, name string) error {
	return d.call(CallRemove, op, name, func() error {
		if d.Find(name) != nil && !d.Mutations.KeepsRemoved && !d.keepsFailed(name) {
			d.dirs[path.Dir(name)].set(path.Base(name), nil)
			d.notifyChanged(CallRemove, op, name, nil)
		}
		return nil
	})
}

// List returns the base names of all entries of a directory, sorted.
func (d *Disk) List(op, name string) (names []string, err error) {
	err = d.call(CallList, op, name, func() error {
		names = d.Names(name)
		return nil
	})
	return names, err
}

// Names are the base names of all entries of a directory, sorted.
func (d *Disk) Names(dir string) []string {
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

// Dirs are the paths of a directory and of those below it, sorted.
func (d *Disk) Dirs(dir string) []string {
	var below []string
	for name := range d.dirs {
		if name == dir || strings.HasPrefix(name, dir+"/") {
			below = append(below, name)
		}
	}
	slices.Sort(below)
	return below
}

// Find returns a file as processes see it; nil if there is none. It must not be changed.
func (d *Disk) Find(name string) *File {
	if dir := d.dirs[path.Dir(name)]; dir != nil {
		return dir.visible[path.Base(name)]
	}
	return nil
}

// call does what all calls have in common: it checks the path, injects faults, and makes errors
// that name op, call and file.
func (d *Disk) call(call Call, op, name string, effect func() error) error {
	return d.callInParts(call, op, name, effect, func() {})
}

// callInParts is for a call that may fail with a part of its effect.
func (d *Disk) callInParts(call Call, op, name string, effect func() error, part func()) error {
	checkPath(name)
	d.mu.Lock()
	defer d.mu.Unlock()
	when, fault := d.fault(op, call)
	if fault != nil && when != AfterEffect {
		if when == PartEffect {
			part()
		}
		d.appendFailed(call, name)
		return d.fail(call, op, name, fault)
	}
	if err := effect(); err != nil {
		return callError(op, call, name, err)
	}
	if fault != nil {
		d.appendFailed(call, name)
		return d.fail(call, op, name, fault)
	}
	return nil
}

func (d *Disk) appendFailed(call Call, name string) {
	if call == CallAppendDurable {
		d.failedAppend = name
	}
}

func checkPath(name string) {
	if !fs.ValidPath(name) {
		panic(fmt.Sprintf("sim: path %q leaves the data directory or is not in plain form", name))
	}
}

func (d *Disk) fail(call Call, op, name string, err error) error {
	if d.Failed != nil {
		d.Failed(call, op, name, err)
	}
	return callError(op, call, name, err)
}

func callError(op string, call Call, name string, err error) error {
	return fmt.Errorf("%s: %s %s: %w", op, call, name, err)
}

func (d *Disk) notifyChanged(call Call, op, name string, content []byte) {
	if d.Changed != nil {
		d.Changed(call, op, name, content)
	}
}

// Directories are the paths of all directories, sorted.
func (d *Disk) Directories() []string { return slices.Sorted(maps.Keys(d.dirs)) }

// Files are the files of a directory as processes see them, by base name. The map must not be
// changed.
func (d *Disk) Files(dir string) map[string]*File { return d.dirs[dir].visible }

// Overwrite replaces a file durably. It cannot fail.
func (d *Disk) Overwrite(name string, content []byte) {
	dir := d.dirs[path.Dir(name)]
	dir.set(path.Base(name), &File{Data: content, synced: true})
	dir.commit(len(dir.pending))
}

// Discard removes a file durably. It cannot fail.
func (d *Disk) Discard(name string) {
	dir := d.dirs[path.Dir(name)]
	dir.set(path.Base(name), nil)
	dir.commit(len(dir.pending))
}

// TakeDirs moves directories of another disk to this one. The other disk must not be used
// afterwards.
func (d *Disk) TakeDirs(from *Disk, dirs ...string) {
	for _, dir := range dirs {
		d.dirs[dir] = from.dirs[dir]
		for _, f := range d.dirs[dir].visible {
			f.id = 0 // the other disk has numbered it
		}
	}
}

package simdisk

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
)

// TempSuffix is the suffix of temporary files, as in persistence.
const TempSuffix = ".tmp"

// LeaveTemp leaves the temporary file of a process that ends during a Replace, with the beginning
// of a content. A call is one step here, so the file is the one that was replaced last.
func (d *Disk) LeaveTemp(rng *rand.Rand, pid int) {
	f := d.Find(d.replacing)
	if f == nil {
		return
	}
	name := fmt.Sprintf("%s-%d-%016x%s", path.Base(d.replacing), pid, rng.Uint64(), TempSuffix)
	d.dirs[path.Dir(d.replacing)].set(name, &File{Data: f.Data[:rng.IntN(len(f.Data)+1)]})
}

// LosePower keeps what survives a power loss: of each directory's changes since its last sync a
// prefix that rng chooses. A file whose data was never synced keeps its name. Its content is nothing, or that of the file
// that it has replaced, or that of another file of its directory. Of appended bytes a prefix is left.
func (d *Disk) LosePower(rng *rand.Rand) {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.delayed)
	for _, name := range d.Directories() {
		dir := d.dirs[name]
		if n := len(dir.pending); n > 0 {
			dir.commit(rng.IntN(n + 1))
		}
	}
	// Only now: a kept change may have made a change in another directory durable.
	for _, name := range d.Directories() {
		dir := d.dirs[name]
		dir.pending = nil
		names := slices.Sorted(maps.Keys(dir.durable))
		for _, base := range names {
			dir.durable[base].losePower(rng, func() []byte { return dir.durable[names[rng.IntN(len(names))]].Data })
		}
		dir.visible = maps.Clone(dir.durable)
	}
}

// losePower makes of the file what a loss of power may leave: an unsynced file is empty, or has its former content or that of another
// file, and unsynced appends are cut off. other returns the content of another file.
func (f *File) losePower(rng *rand.Rand, other func() []byte) {
	switch {
	case !f.synced && !f.written:
		f.Data, f.synced = nil, true
	case !f.synced:
		switch rng.IntN(3) {
		case 0:
			f.Data = nil
		case 1:
			f.Data = f.former
		default:
			f.Data = slices.Clone(other())
		}
		f.synced, f.memo = true, nil
	case f.unsynced > 0:
		f.Data = slices.Clip(f.Data[:len(f.Data)-rng.IntN(f.unsynced+1)])
	}
	f.unsynced = 0
}

// commit makes the first n pending changes durable.
func (dir *directory) commit(n int) {
	kept := dir.pending[:n]
	dir.pending = dir.pending[n:]
	for _, c := range kept {
		apply(dir.durable, c)
		if c.after != nil {
			c.after.dir.commitThrough(c.after.change)
		}
	}
}

// commitThrough makes the pending changes up to and with c durable, if c is still pending.
func (dir *directory) commitThrough(c *change) {
	for i, pending := range dir.pending {
		if pending == c {
			dir.commit(i + 1)
			return
		}
	}
}

// Surviving is the content of a file that certainly survives a power loss: its durable content;
// nil and false if that is gone, or could be.
func (d *Disk) Surviving(name string) ([]byte, bool) {
	dir := d.dirs[path.Dir(name)]
	if dir == nil {
		return nil, false
	}
	base := path.Base(name)
	f := dir.durable[base]
	for _, c := range dir.pending {
		if c.name == base && c.f == nil {
			f = nil // its removal may survive
		}
	}
	if f == nil || !f.synced {
		return nil, false
	}
	return f.Data[:len(f.Data)-f.unsynced], true
}

// Durable is the content of a file at the last sync of its directory; false if it did not exist,
// or its data was not synced. A later change of the name may survive a power loss too: Surviving
// says what is certain.
func (d *Disk) Durable(name string) ([]byte, bool) {
	dir := d.dirs[path.Dir(name)]
	if dir == nil {
		return nil, false
	}
	f := dir.durable[path.Base(name)]
	if f == nil || !f.synced {
		return nil, false
	}
	return f.Data[:len(f.Data)-f.unsynced], true
}

// Unsynced reports whether a directory has changes that no sync has made durable.
func (d *Disk) Unsynced(dir string) bool { return len(d.dirs[dir].pending) > 0 }

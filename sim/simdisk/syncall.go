package simdisk

import "strings"

// fileSystems are the file systems of the disk, by the name of a directory.
var fileSystems = []string{".", "queue"}

func fileSystemOf(dir string) string {
	if dir == "queue" || strings.HasPrefix(dir, "queue/") {
		return "queue"
	}
	return "."
}

// SyncAll makes all earlier changes survive a power loss. If it fails without an effect, the data that was not synced is lost
// with the next power loss, even after a later SyncAll, as with syncfs.
func (d *Disk) SyncAll(op string) error {
	begun := false
	err := d.call(CallSyncAll, op, ".", func() error {
		begun = true
		for _, system := range fileSystems {
			forgotten := d.Mutations.SkipSyncAll || d.Mutations.ForgetsQueue && system == "queue"
			if !forgotten {
				d.syncFileSystem(system)
			}
		}
		return nil
	})
	if !begun {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.eachUnsynced(func(f *File) { f.dropped = true })
	}
	if d.Mutations.HidesSyncErrors {
		return nil
	}
	return err
}

func (d *Disk) syncFileSystem(system string) {
	d.eachUnsyncedOf(system, func(f *File) {
		if !f.dropped {
			f.synced, f.former = true, nil
		}
		f.unsynced = 0
	})
	for _, name := range d.Directories() {
		if dir := d.dirs[name]; fileSystemOf(name) == system {
			dir.commit(len(dir.pending))
		}
	}
}

func (d *Disk) eachUnsynced(f func(*File)) {
	for _, system := range fileSystems {
		d.eachUnsyncedOf(system, f)
	}
}

// eachUnsyncedOf calls f for each file of a file system that has data which is not synced.
func (d *Disk) eachUnsyncedOf(system string, f func(*File)) {
	for _, name := range d.Directories() {
		if fileSystemOf(name) != system {
			continue
		}
		for _, file := range d.dirs[name].visible {
			if !file.synced || file.unsynced > 0 {
				f(file)
			}
		}
	}
}

package ownerwatch

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"lockstep/persistence"
)

// nameMax is the longest file name that Linux permits, in bytes.
const nameMax = 255

// baseName returns what follows the last slash. A client names its livelock by a path, which may
// go through a symbolic link or lead anywhere; only the name counts.
func baseName(livelock string) string { return livelock[strings.LastIndexByte(livelock, '/')+1:] }

func (o *Owners) isOwn(livelock string) bool {
	return o.ownBase != "" && baseName(livelock) == o.ownBase
}

// path is where the livelock is, false if no file can have its name.
func (o *Owners) path(livelock string) (string, bool) {
	base := baseName(livelock)
	if base == "" || base == "." || base == ".." || len(base) > nameMax || strings.Contains(base, "\x00") {
		return "", false
	}
	return filepath.Join(o.dir, base), true
}

// isHeld reports whether a live process holds the livelock. On an error it counts as held.
// Only a regular file can be held.
func (o *Owners) isHeld(livelock string) bool {
	if o.isOwn(livelock) {
		return true
	}
	path, ok := o.path(livelock)
	if !ok {
		return false
	}
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
		return false
	}
	alive, _ := persistence.ProbeLivelock(path)
	return alive
}

// Remove unlinks the file of a dead livelock. It leaves a file that is held or not regular. A
// file that cannot be removed is removed by the sweep at the next start of the daemon.
func (o *Owners) Remove(livelock string) {
	path, ok := o.path(livelock)
	if !ok || o.isHeld(livelock) {
		return
	}
	if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() {
		_ = os.Remove(path)
	}
}

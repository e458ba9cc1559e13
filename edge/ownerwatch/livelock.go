package ownerwatch

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"lockstep/persistence"
)

// nameMax is what file systems allow a name, in bytes.
const nameMax = 255

// baseName is what follows the last slash. A client names its livelock by a path
// that may go through a symbolic link, or lead anywhere: nothing but the name
// counts.
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

// Remove unlinks the file of a livelock that was found dead. One that is held, or
// is no regular file, stays, and so does one that cannot be removed: it is swept
// away when the daemon starts again.
func (o *Owners) Remove(livelock string) {
	path, ok := o.path(livelock)
	if !ok || o.isHeld(livelock) {
		return
	}
	if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() {
		_ = os.Remove(path)
	}
}

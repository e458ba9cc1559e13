package persistence

import (
	"fmt"
	"path"
	"slices"
)

// Mover is what [Quarantine] needs; [OSFiles] has it, and so has a simulated disk.
type Mover interface {
	List(op, dir string) ([]string, error)
	Rename(op, from, to string) error
	SyncDir(op, dir string) error
}

// Quarantine moves an unreadable queue file to queue/quarantine/<base>, or
// <base>.1, <base>.2, ... if earlier ones are there: a corrupt file is evidence,
// and is neither dropped nor overwritten. It returns where the file is now; a
// path together with an error means that it was moved, but that power loss may
// undo this. Two calls for the same base name must not overlap.
//
// Only the quarantine is synced: should power loss bring the old name back, the
// file is found unreadable once more.
func Quarantine(files Mover, op, from string) (to string, err error) {
	names, err := files.List(op, QuarantineDir)
	if err != nil {
		return "", err
	}
	to = QuarantinePath(freeName(names, path.Base(from)))
	if err := files.Rename(op, from, to); err != nil {
		return "", err
	}
	return to, files.SyncDir(op, QuarantineDir)
}

// freeName returns base, or base with the lowest number that names (sorted) does
// not have.
func freeName(names []string, base string) string {
	candidate := base
	for n := 1; ; n++ {
		if _, taken := slices.BinarySearch(names, candidate); !taken {
			return candidate
		}
		candidate = fmt.Sprintf("%s.%d", base, n)
	}
}

package persistence

import (
	"fmt"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ReplaceFile puts data in the place of the file at path, durably, or leaves the file as it
// was. It works as [OSFiles.Replace] does, and then syncs the directory. The file has the
// mode from the start, whatever the umask: a secret is never readable for others. On an
// error of the last sync the new content may be there.
//
// It is for files that no actor owns: certificates, tokens, snapshot records of the consensus log.
func ReplaceFile(path string, data []byte, mode fs.FileMode) error {
	if err := replace(path, data, mode, true); err != nil {
		return err
	}
	return SyncDirectory(filepath.Dir(path))
}

// ReplaceMessage is ReplaceFile without any sync: for a file that is of no use after a
// power loss. A reader never sees half of it.
func ReplaceMessage(path string, data []byte) error { return replace(path, data, fileMode, false) }

func replace(path string, data []byte, mode fs.FileMode, sync bool) error {
	temp := tempName(path)
	if step, err := writeNew(temp, data, mode, sync); err != nil {
		return fmt.Errorf("%s %s: %w", step, path, err)
	}
	if err := unix.Rename(temp, path); err != nil {
		discardTemp(temp)
		return fmt.Errorf("rename %s: %w", path, err)
	}
	return nil
}

// SyncDirectory makes what was created, renamed or removed in a directory survive a power
// loss.
func SyncDirectory(path string) error {
	if err := syncPath(path); err != nil {
		return fmt.Errorf("sync directory %s: %w", path, err)
	}
	return nil
}

// IsTemp reports whether a name, without its directory, is that of a file that was being
// written when its process ended.
func IsTemp(name string) bool {
	_, ok := tempOwner(name)
	return ok
}

package persistence

import (
	"fmt"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"

	"lockstep/core/ownership"
)

// ReplaceFile replaces the content of the file at path, durably and atomically. It works as
// [OSFiles.Replace] does, and then syncs the directory. The file belongs to the process and has the
// mode, whatever the umask: a secret is never readable for others. After an error of the last sync the
// file may have the new content.
//
// It is for files that no actor owns: certificates, tokens, snapshot records of the consensus
// log.
func ReplaceFile(path string, data []byte, mode fs.FileMode) error {
	if err := replace(path, data, ownership.Attributes{Mode: uint32(mode), UID: -1, GID: -1}, true); err != nil {
		return err
	}
	return SyncDirectory(filepath.Dir(path))
}

// ReplaceMessage is ReplaceFile without any sync, for a file of the run directory, which is useless
// after a power loss. A reader never sees a part of it.
func ReplaceMessage(path string, data []byte, rules ownership.Rules) error {
	return replace(path, data, rules.Of(ownership.RunFile), false)
}

func replace(path string, data []byte, a ownership.Attributes, sync bool) error {
	temp := tempName(path)
	if step, err := writeNew(temp, [][]byte{data}, a, sync); err != nil {
		return fmt.Errorf("%s %s: %w", step, path, err)
	}
	if err := unix.Rename(temp, path); err != nil {
		discardTemp(temp)
		return fmt.Errorf("rename %s: %w", path, err)
	}
	return nil
}

// SyncDirectory makes creations, renames and removals in a directory survive a power loss.
func SyncDirectory(path string) error {
	if err := syncPath(path); err != nil {
		return fmt.Errorf("sync directory %s: %w", path, err)
	}
	return nil
}

// IsTemp reports whether a base name is that of a temporary file of this package.
func IsTemp(name string) bool {
	_, ok := tempOwner(name)
	return ok
}

package persistence

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"lockstep/core/ownership"
)

// privateBits are the permissions of a file between its creation and the end of setAttributes: its group may still be
// the wrong one.
const privateBits = 0o700

// setAttributes gives a new open file its user, group and mode, whatever the umask. It returns the failed step.
func setAttributes(fd int, a ownership.Attributes) (step string, err error) {
	if a.UID >= 0 || a.GID >= 0 {
		if err := unix.Fchown(fd, a.UID, a.GID); err != nil {
			return "chown", err
		}
	}
	if err := unix.Fchmod(fd, a.Mode); err != nil {
		return "chmod", err
	}
	return "", nil
}

// openOrCreate opens a file, and creates it if it is absent. An empty file may be new, also after a crash of the process
// that has created it: it gets the attributes.
func openOrCreate(name string, flags int, a ownership.Attributes) (fd int, stat unix.Stat_t, step string, err error) {
	if fd, err = openFile(name, flags|unix.O_CREAT, a.Mode&privateBits); err != nil {
		return -1, stat, "open", err
	}
	if err = unix.Fstat(fd, &stat); err != nil {
		step = "examine"
	} else if stat.Mode&unix.S_IFMT == unix.S_IFREG && stat.Size == 0 && !hasAttributes(stat, a) {
		step, err = setAttributes(fd, a)
	}
	if err != nil {
		_ = unix.Close(fd) // nothing was written
		return -1, stat, step, err
	}
	return fd, stat, "", nil
}

func hasAttributes(stat unix.Stat_t, a ownership.Attributes) bool {
	return stat.Mode&0o777 == a.Mode && (a.UID < 0 || int(stat.Uid) == a.UID) && (a.GID < 0 || int(stat.Gid) == a.GID)
}

// CorrectOwners gives existing files the user, group and mode of the rules: another version or mode
// of the daemon may have made them. Absent files are no error. It continues after an error.
func (f *OSFiles) CorrectOwners(op string, names ...string) error {
	var errs []error
	for _, name := range names {
		if step, err := correctOwner(f.abs(name), f.owners.DataFile(name)); err != nil && !errors.Is(err, unix.ENOENT) {
			errs = append(errs, fileError(op, step, name, err))
		}
	}
	return errors.Join(errs...)
}

func correctOwner(name string, a ownership.Attributes) (step string, err error) {
	// O_NONBLOCK: opening a pipe with this name must not hang.
	fd, err := openFile(name, unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return "open", err
	}
	var stat unix.Stat_t
	if err = unix.Fstat(fd, &stat); err != nil {
		step = "examine"
	} else if stat.Mode&unix.S_IFMT == unix.S_IFREG && !hasAttributes(stat, a) {
		step, err = setAttributes(fd, a)
	}
	_ = unix.Close(fd) // the descriptor was not written
	return step, err
}

// OpenLog opens a log for appending, and creates it if it is absent.
func OpenLog(path string, rules ownership.Rules) (*os.File, error) {
	fd, _, step, err := openOrCreate(path, unix.O_WRONLY|unix.O_APPEND, rules.Of(ownership.Log))
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", step, path, err)
	}
	return os.NewFile(uintptr(fd), path), nil
}

// ForeignDirError says that a directory of the daemon belongs to another user.
type ForeignDirError struct {
	Setting, Path string
	Owner, UID    int // of the directory, and the user of this process
}

func (e *ForeignDirError) Error() string {
	return fmt.Sprintf("%s: %s belongs to user %d, who could replace its files, and lockstepd runs as user %d: "+
		"give it to that user with chown, or choose another directory",
		e.Setting, e.Path, e.Owner, e.UID)
}

// checkOwner returns a *ForeignDirError if a directory belongs to a user who must not have it.
func checkOwner(setting, path string, rules ownership.Rules) error {
	var stat unix.Stat_t
	if err := unix.Stat(path, &stat); err != nil {
		return fmt.Errorf("examine %s: %w", path, err)
	}
	if owner, uid := int(stat.Uid), os.Geteuid(); owner != uid && owner != 0 && !slices.Contains(rules.UIDs(), owner) {
		return &ForeignDirError{setting, path, owner, uid}
	}
	return nil
}

package client

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"lockstep/cmd/internal/places"
	"lockstep/core/wire"
	"lockstep/edge/luxiclient"
)

// Explain is the text for an error: the event, and a remedy if there is one.
func Explain(err error) string {
	var none *luxiclient.NoDaemonError
	if errors.As(err, &none) {
		return instead(err, none, explainNoDaemon(none))
	}
	var failed *wire.Error
	if errors.As(err, &failed) && failed.Class == "JobQueueDrainError" {
		return err.Error() + `; "lockstep drain off" makes the queue accept jobs again`
	}
	var lost *luxiclient.ConnectionLostError
	if errors.As(err, &lost) && errors.Is(lost.Err, io.EOF) {
		return instead(err, lost, "the daemon has closed the connection; check that it runs, and try again")
	}
	return err.Error()
}

// instead replaces the text of inner at the end of the text of err, which wraps inner.
func instead(err, inner error, text string) string {
	before, _ := strings.CutSuffix(err.Error(), inner.Error())
	if before == err.Error() { // the text of inner is not at the end
		return before
	}
	return before + text
}

func explainNoDaemon(none *luxiclient.NoDaemonError) string {
	hint := `Start one with "make run" in the source tree or "lockstepd --data-dir DIR",
or name its socket with --socket PATH or $LOCKSTEP_SOCKET.`
	if path, has := ownDaemon(none.Path); has {
		hint = fmt.Sprintf(`Your own daemon has no socket either, at %s:
"systemctl --user start lockstepd" or "lockstepd" starts it. Or name a socket with --socket
PATH or $LOCKSTEP_SOCKET.`, path)
	}
	if none.Path == SystemSocket && unitInstalled(unitDirs()) {
		hint = `"systemctl start lockstepd" starts the system's daemon; "journalctl -u lockstepd" says why
it has ended. To use another daemon, name its socket with --socket PATH or $LOCKSTEP_SOCKET.`
	}
	if passedOver(none.Path) {
		hint += "\n" + LocalSocket + " was ignored: it belongs to another user."
	}
	if none.Path == SystemSocket && stoppedHere() {
		hint = `The queue in ./var has no daemon: "make run" starts one. ` + LocalSocket + ` has precedence.
To use another daemon, name its socket with --socket PATH or $LOCKSTEP_SOCKET.`
	}
	switch {
	case errors.Is(none.Err, syscall.EACCES), errors.Is(none.Err, syscall.EPERM):
		return fmt.Sprintf("you are not allowed to use the daemon's socket %s:\n%s", none.Path, inFrontOf(none.Path).text())
	case errors.Is(none.Err, syscall.ENOENT):
		return fmt.Sprintf("no daemon answers: there is no socket %s.\n%s", none.Path, hint)
	case errors.Is(none.Err, syscall.ECONNREFUSED):
		return fmt.Sprintf("no daemon answers: no process listens on %s.\n%s", none.Path, hint)
	}
	return fmt.Sprintf("no daemon answers at %s: %v.\n%s", none.Path, none.Err, hint)
}

// unitDirs are the directories with systemd's units of the machine and of its packages.
func unitDirs() []string {
	return []string{"/etc/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"}
}

// unitInstalled reports whether systemd can start the system's daemon.
func unitInstalled(dirs []string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool {
		_, err := os.Stat(filepath.Join(dir, "lockstepd.service"))
		return err == nil
	})
}

// ownDaemon returns the socket that the daemon of this user would have, if it was looked for
// before the system's.
func ownDaemon(chosen string) (path string, has bool) {
	c := Choice{Environment: places.Current()}
	path = c.userSocket()
	return path, chosen == SystemSocket && path != "" && c.Environment.UserMode() && !trusted(path)
}

// barrier is the path that denies this user access to a socket: the socket, or a directory above it.
type barrier struct {
	owner string
	group string // whose members have access; "": there is no group that a user should join
	user  string // the user without access
}

// inFrontOf finds the barrier: the first of the socket and the directories above it whose permissions can be read. Its group is set if
// members of the group can pass.
func inFrontOf(path string) barrier {
	b := barrier{owner: "its owner", user: "USER"}
	if me, err := user.Current(); err == nil {
		b.user = me.Username
	}
	info, err := os.Stat(path)
	for ; err != nil && filepath.Dir(path) != path; info, err = os.Stat(path) {
		path = filepath.Dir(path)
	}
	if err != nil {
		return b
	}
	status, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return b
	}
	if owner, err := user.LookupId(strconv.Itoa(int(status.Uid))); err == nil {
		b.owner = owner.Username
	}
	needs := os.FileMode(0o010)
	if !info.IsDir() {
		needs = 0o020
	}
	// Members of the group root may change much besides the queue.
	if status.Gid != 0 && info.Mode()&needs != 0 {
		b.group = strconv.Itoa(int(status.Gid))
		if group, err := user.LookupGroupId(b.group); err == nil {
			b.group = group.Name
		}
	}
	return b
}

func (b barrier) text() string {
	if b.group == "" {
		return fmt.Sprintf(`only %s has access. Run this as %s, or start lockstepd with --socket-group GROUP:
members of that group may use the socket.`, b.owner, b.owner)
	}
	return fmt.Sprintf(`only %s and the members of the group %s have access. To join, run as root
"usermod --append --groups %s %s", and log in again.`, b.owner, b.group, b.group, b.user)
}

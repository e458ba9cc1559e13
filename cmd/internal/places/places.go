// Package places has the default directories of daemons: those of the system's daemon, and those
// of the daemon of a user without root. lockstepd and the command line agree by it where the
// daemon of a user is. It reads the environment and the owners of two directories, and changes nothing.
package places

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
)

// Dirs are the directories of one daemon.
type Dirs struct {
	Data, Run, Log string
	Sockets        string // where the sockets are; Run/socket leads there
}

const (
	// SystemSockets is the directory of the sockets of the system's daemon.
	SystemSockets = "/var/run/lockstep/socket"
	// SystemConfig is the configuration file of the system's daemon.
	SystemConfig = "/etc/lockstep/lockstepd.yaml"
)

// System returns the directories of the system's daemon.
func System() Dirs {
	return Dirs{Data: "/var/lib/lockstep", Run: "/var/run/lockstep", Log: "/var/log/lockstep", Sockets: SystemSockets}
}

// Environment is what the choice depends on.
type Environment struct {
	UID    int                         // effective user
	Lookup func(string) (string, bool) // of environment variables
}

// Current returns the environment of this process.
func Current() Environment { return Environment{UID: os.Geteuid(), Lookup: os.LookupEnv} }

// ErrNoHome is the error of User without $XDG_STATE_HOME and $HOME.
var ErrNoHome = errors.New("neither $XDG_STATE_HOME nor $HOME is an absolute path")

// User returns the directories of the daemon of this user. Queue, logs and livelocks are below
// $XDG_STATE_HOME, because jobs continue after a logout, which removes $XDG_RUNTIME_DIR. Only the
// sockets are there; they are beside the data if it is unset or belongs to another user.
func (e Environment) User() (Dirs, error) {
	state, err := e.base("XDG_STATE_HOME", ".local/state")
	if err != nil {
		return Dirs{}, err
	}
	dirs := Dirs{Data: filepath.Join(state, "lib"), Run: filepath.Join(state, "run"), Log: filepath.Join(state, "log")}
	dirs.Sockets = filepath.Join(dirs.Run, "socket")
	if runtime, _ := e.Lookup("XDG_RUNTIME_DIR"); filepath.IsAbs(runtime) && e.owns(runtime) {
		dirs.Sockets = filepath.Join(runtime, "lockstep")
	}
	return dirs, nil
}

// UserConfig returns the path of the configuration file of the user's daemon.
func (e Environment) UserConfig() (string, error) {
	dir, err := e.base("XDG_CONFIG_HOME", ".config")
	return filepath.Join(dir, "lockstepd.yaml"), err
}

// ConfigMayBeMissing reports whether a configuration file is that of a unit, which names it although it need not exist.
func (e Environment) ConfigMayBeMissing(file string) bool {
	users, err := e.UserConfig()
	return file == SystemConfig || err == nil && file == users
}

// base returns the directory of lockstep below a directory of the XDG base directory
// specification, which ignores relative paths.
func (e Environment) base(variable, belowHome string) (string, error) {
	if dir, _ := e.Lookup(variable); filepath.IsAbs(dir) {
		return filepath.Join(dir, "lockstep"), nil
	}
	if home, _ := e.Lookup("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, belowHome, "lockstep"), nil
	}
	return "", ErrNoHome
}

// UserMode reports whether a daemon of this user has the directories of User by default. The
// user root has not, and neither has the owner of the system's queue: the service of an
// operator that runs lockstepd as another user keeps its queue.
func (e Environment) UserMode() bool {
	return e.UID != 0 && !e.owns(filepath.Join(System().Data, "queue"))
}

func (e Environment) owns(dir string) bool {
	info, err := os.Stat(dir)
	if err != nil || !info.IsDir() {
		return false
	}
	status, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(status.Uid) == e.UID
}

// Package ownership is the table of user, group and mode of each file, directory and socket that the daemon makes.
//
// The daemon's mode chooses the table: [Own] for lockstep's own queue or cluster, [Ganeti] for the place of Ganeti's
// daemons. [Table.Resolve] replaces the names by numbers once, at the start of the daemon. Package
// persistence applies the [Rules] that result. Pure; nothing survives a crash.
package ownership

import (
	"fmt"
	"path"
	"strings"

	"lockstep/core/paths"
)

// Class is a set of files with the same user, group and mode.
type Class uint8

// The classes. A file in the data directory has the class that [ClassOf] returns.
const (
	Configuration Class = iota // config.data
	Private                    // reservations, locks, their journal, the configuration's journal and history, the audit log
	// Queue: job files and records, archive, serial, version, lock, drain mark; settings.json and other files of the data
	// directory.
	Queue
	Ssconf  // ssconf_*
	Key     // hmac.key, hmac.key.other
	RunFile // livelocks, the lease, messages to job processes
	PIDFile
	Log
	LuxiSocket  // of clients
	WconfSocket // for locks and the configuration
	AdminSocket
	OutputSocket // of the readers of output

	DataDir
	QueueDir // queue, its archive and its quarantine
	AuditDir // and the directory of schedules
	RunDir
	SocketDir
	LivelockDir // and the directory of messages to job processes
	LogDir

	classes = iota
)

// Entry says which user and group own the files of one class, and their mode.
type Entry struct {
	Mode  uint32 // permission bits
	User  string // "": the user of the process that makes the file
	Group string // "": its group
}

// Table says for each class of files who owns them.
type Table [classes]Entry

// Own is the table of lockstep's own mode: every file belongs to the user and group of its process.
func Own() Table {
	return Table{
		Configuration: {Mode: 0o640}, Private: {Mode: 0o600}, Queue: {Mode: 0o640}, Ssconf: {Mode: 0o444}, Key: {Mode: 0o440},
		RunFile: {Mode: 0o640}, PIDFile: {Mode: 0o600}, Log: {Mode: 0o640},
		LuxiSocket: {Mode: 0o660}, WconfSocket: {Mode: 0o600}, AdminSocket: {Mode: 0o600}, OutputSocket: {Mode: 0o660},
		DataDir: {Mode: 0o750}, QueueDir: {Mode: 0o750}, AuditDir: {Mode: 0o700}, RunDir: {Mode: 0o750}, SocketDir: {Mode: 0o750},
		LivelockDir: {Mode: 0o750}, LogDir: {Mode: 0o750},
	}
}

// Accounts are the names that an installation of Ganeti gives to its user and groups.
type Accounts struct {
	Daemon       string // user of the daemons that lockstepd replaces: "gnt-masterd"
	ConfdGroup   string // group of the daemon that reads config.data: "gnt-confd"
	DaemonsGroup string // group of all daemons: "gnt-daemons"
}

// Ganeti is the table for the place of Ganeti's daemons. A file without a group is for the daemon's
// user alone. lockstepd makes no ssconf files there: the node daemon does, as root.
func Ganeti(a Accounts) Table {
	daemons := func(mode uint32) Entry { return Entry{mode, a.Daemon, a.DaemonsGroup} }
	return Table{
		Configuration: {0o640, a.Daemon, a.ConfdGroup}, Private: {0o600, a.Daemon, a.ConfdGroup},
		Queue: daemons(0o640), Ssconf: {Mode: 0o444}, Key: daemons(0o440),
		RunFile: daemons(0o640), PIDFile: {0o600, a.Daemon, ""}, Log: {0o600, a.Daemon, ""},
		LuxiSocket: daemons(0o660), OutputSocket: daemons(0o660), WconfSocket: daemons(0o600), AdminSocket: {0o600, a.Daemon, ""},
		DataDir: {0o755, a.Daemon, ""}, QueueDir: daemons(0o750), AuditDir: {0o700, a.Daemon, ""},
		RunDir: daemons(0o775), SocketDir: daemons(0o770),
		LivelockDir: daemons(0o750), LogDir: daemons(0o770),
	}
}

// Attributes are the user, group and mode of a new file.
type Attributes struct {
	Mode     uint32 // permission bits, whatever the umask
	UID, GID int    // -1: those of the process that makes the file
}

// Rules say for each class of files which numbers of user and group, and which mode, new files get. The zero value are the rules of
// lockstep's own mode.
type Rules struct {
	of *[classes]Attributes // nil: those of Own
}

var ownAttributes = func() (all [classes]Attributes) {
	for class, e := range Own() {
		all[class] = Attributes{e.Mode, -1, -1}
	}
	return all
}()

// Resolve replaces names by numbers. The functions return the number of a user and of a group; their errors say what is
// missing.
func (t Table) Resolve(user, group func(name string) (int, error)) (Rules, error) {
	var all [classes]Attributes
	for class, e := range t {
		all[class].Mode = e.Mode
		var err error
		if all[class].UID, err = number(e.User, user); err != nil {
			return Rules{}, fmt.Errorf("user of the daemon's files: %w", err)
		}
		if all[class].GID, err = number(e.Group, group); err != nil {
			return Rules{}, fmt.Errorf("group of the daemon's files: %w", err)
		}
	}
	return Rules{&all}, nil
}

func number(name string, lookup func(name string) (int, error)) (int, error) {
	if name == "" {
		return -1, nil
	}
	return lookup(name)
}

// Of returns the attributes of a class.
func (r Rules) Of(c Class) Attributes {
	if r.of == nil {
		return ownAttributes[c]
	}
	return r.of[c]
}

// DataFile returns the attributes of a file with that path below the data directory.
func (r Rules) DataFile(name string) Attributes { return r.Of(ClassOf(name)) }

// UIDs and GIDs return the numbers in the rules, without -1. They may repeat.
func (r Rules) UIDs() []int { return r.numbers(func(a Attributes) int { return a.UID }) }

// GIDs is for groups what UIDs is for users.
func (r Rules) GIDs() []int { return r.numbers(func(a Attributes) int { return a.GID }) }

func (r Rules) numbers(of func(Attributes) int) (found []int) {
	for c := range Class(classes) {
		if n := of(r.Of(c)); n >= 0 {
			found = append(found, n)
		}
	}
	return found
}

// privatePrefixes begin the names of private files in the data directory. A file of the configuration, of the locks, of the sessions or of
// the grants without an own entry is private, also a journal that was set aside.
var privatePrefixes = []string{"config.", "locks.", "tempres.", "sessions.", "access."}

// ClassOf returns the class of a file with that path below the data directory. An unknown file has the class Queue.
func ClassOf(name string) Class {
	switch name {
	case paths.ConfigPath:
		return Configuration
	case paths.ConfdKeyPath, paths.ConfdOtherKeyPath:
		return Key
	}
	if dir := path.Dir(name); dir == paths.AuditDir || dir == paths.ScheduleDir {
		return Private
	}
	if path.Dir(name) == "." {
		for _, prefix := range privatePrefixes {
			if strings.HasPrefix(name, prefix) {
				return Private
			}
		}
		if strings.HasPrefix(name, paths.SsconfPrefix) {
			return Ssconf
		}
	}
	return Queue
}

// Package lock decides which owner holds which lock (locks.md 1; design.md "Locks"). It has the names of locks and their
// order, the allocation of locks to owners, the requests that wait, the declarations of what opcodes will ask for, and
// the bytes in which the state is kept.
//
// It is pure. The caller passes requests, releases and the current time to a State. The State returns whether a
// request was granted, which owners block it, whose pending requests were granted by the change, and which owners'
// records have changed. The lock manager's actor writes these records to the journal before it answers.
package lock

import (
	"cmp"
	"strconv"
	"strings"

	"lockstep/core/haskell"
)

// Level is a class of locks. The order of the numbers is the order in which locks are taken (locks.md 1.1).
type Level uint8

const (
	// Cluster has a group and a single member, BGL.
	Cluster Level = iota
	// Instance locks carry instance names, all later levels UUIDs; this is not checked.
	Instance
	NodeGroup
	Node
	NodeRes
	Network
	// Config has one lock, ConfigLock, and no group. Its name begins like those of level Cluster, but it is the last
	// of Ganeti's locks in the order.
	Config
	// Free locks are lockstep's, for things that Ganeti has no lock for. The level has no group. Ganeti's programs never
	// see them: they have files of their own, and are in no answer that Ganeti has (Snapshot.Split).
	Free

	levels = iota
)

var levelNames = [levels]string{
	Cluster: "cluster", Instance: "instance", NodeGroup: "nodegroup", Node: "node", NodeRes: "node-res", Network: "network",
	Config: "config", Free: "lock",
}

// ganetiLevelNames are Ganeti's own words, which only its error texts use.
var ganetiLevelNames = [levels]string{
	Cluster: "Cluster", Instance: "Instance", NodeGroup: "NodeGroup", Node: "Node", NodeRes: "NodeRes", Network: "Network",
	Free: "Free",
}

func (l Level) String() string { return levelNames[l] }

// LevelError is the error for a text that names no level.
type LevelError struct{ Name string }

func (e *LevelError) Error() string { return "Unknown lock-level name '" + e.Name + "'" }

// ParseLevel finds a level by name. The error is a *LevelError.
func ParseLevel(name string) (Level, error) {
	for l, known := range levelNames {
		if name == known {
			return Level(l), nil
		}
	}
	return 0, &LevelError{name}
}

// Lock is one lock. Locks are not created: every name has one (locks.md 1.1).
//
// Invariant: a group has no member name; level Cluster has only the member BGL, level Config only the member
// ConfigLock. The member name at level Free is a FreeName.
type Lock struct {
	level  Level
	group  bool
	member string
}

// BGL is the big lock: nearly every job holds it shared.
var BGL = Lock{level: Cluster, member: "BGL"}

// ConfigLock is taken within calls that change the configuration.
var ConfigLock = Lock{level: Config, member: "config"}

// lockset in the place of a member's name means the group.
const lockset = "[lockset]"

// Group is the lock of all members of a level. Its owner holds each of them. The levels Config and Free have no group.
func Group(level Level) Lock {
	if level >= Config {
		panic("no group lock at level " + strconv.Itoa(int(level)))
	}
	return Lock{level: level, group: true}
}

// Member is the lock of one object at a level from Instance to Network, or a free lock. The name "[lockset]" gives the
// group, as it does in ParseLock. A free lock needs a FreeName.
func Member(level Level, name string) Lock {
	if level < Instance || level == Config || level == Free && !FreeName(name) {
		panic("no lock " + strconv.Quote(name) + " at level " + strconv.Itoa(int(level)))
	}
	if name == lockset {
		return Group(level)
	}
	return Lock{level: level, member: name}
}

// freeNameMax is the maximum length of the name of a free lock, in bytes.
const freeNameMax = 100

// FreeName reports whether a text is the name of a free lock: words of letters, digits, dots, underscores and hyphens, with a slash between
// two words; 1 to 100 bytes in all.
func FreeName(name string) bool {
	before := byte('/')
	for i := range len(name) {
		switch c := name[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '_', c == '-', c == '/' && before != '/':
			before = c
		default:
			return false
		}
	}
	return before != '/' && len(name) <= freeNameMax
}

// Level is the level of the lock. The first part of the name does not determine it.
func (l Lock) Level() Level { return l.level }

// IsGroup reports whether the lock is the group of its level.
func (l Lock) IsGroup() bool { return l.group }

// Name is the member's name; "" for a group.
func (l Lock) Name() string { return l.member }

// Compare is the order in which locks must be taken: level, then group before members, then the names' bytes.
func (l Lock) Compare(m Lock) int {
	switch {
	case l.level != m.level:
		return cmp.Compare(l.level, m.level)
	case l.group != m.group:
		if l.group {
			return -1
		}
		return 1
	default:
		return strings.Compare(l.member, m.member)
	}
}

// String is the name on the wire and on disk: LEVEL/MEMBER, or LEVEL/[lockset] for all of a level.
func (l Lock) String() string {
	switch {
	case l.level == Config:
		return "cluster/" + l.member
	case l.group:
		return levelNames[l.level] + "/" + lockset
	default:
		return levelNames[l.level] + "/" + l.member
	}
}

// NameError is the error for a text that names no lock.
type NameError struct{ Name string }

func (e *NameError) Error() string { return "Unknown lock name '" + e.Name + "'" }

// ParseLock finds a lock by name. Any text may follow "instance/", "node/" and so on, also the empty one; only a FreeName
// may follow "lock/". The error is a *NameError.
func ParseLock(name string) (Lock, error) {
	prefix, member, _ := strings.Cut(name, "/")
	level, err := ParseLevel(prefix)
	switch {
	case len(prefix) == len(name) || err != nil || level == Config || level == Free && !FreeName(member):
		return Lock{}, &NameError{name}
	case level != Cluster:
		return Member(level, member), nil
	case member == BGL.member:
		return BGL, nil
	case member == ConfigLock.member:
		return ConfigLock, nil
	case member == lockset:
		return Group(Cluster), nil
	default:
		return Lock{}, &NameError{name}
	}
}

// MarshalText returns the full name of the lock, such as node/n1, for JSON.
func (l Lock) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText reads the full name of a lock, as ParseLock does.
func (l *Lock) UnmarshalText(text []byte) error {
	parsed, err := ParseLock(string(text))
	if err == nil {
		*l = parsed
	}
	return err
}

// UnmarshalJSON reads the full name of a lock, as ParseLock does. Without this method null would decode as a lock.
func (l *Lock) UnmarshalJSON(data []byte) error {
	parsed, err := parseLockJSON(data)
	if err == nil {
		*l = parsed
	}
	return err
}

// ganetiName is the name in Ganeti's error texts (locks.md 1.1, last column).
func (l Lock) ganetiName() string {
	switch {
	case l == BGL:
		return "BGL"
	case l == ConfigLock:
		return "ConfigLock"
	case l.group:
		return ganetiLevelNames[l.level] + "LockSet"
	default:
		return ganetiLevelNames[l.level] + " " + haskell.Quote(l.member)
	}
}

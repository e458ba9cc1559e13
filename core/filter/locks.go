package filter

import (
	"encoding/json"
	"iter"

	"lockstep/core/config"
	"lockstep/core/lock"
	"lockstep/core/opcode"
)

// Lock is a lock that an opcode is declared to take. A lock whose name has the UUID of an object has a second name with the name of the
// object: "node/UUID" and "node/n3".
type Lock struct {
	Names     []string
	Exclusive bool
}

// Declare returns the locks that an opcode with this input is declared to take.
type Declare func(input json.RawMessage) []Lock

// DeclareOf returns the Declare of a catalogue and of the resources of a configuration, which may be nil. A demand for all locks of a
// level is one for the group of the level, and one for each object. It leaves out unknown sets of locks, which the opcode chooses when it
// runs, and the big lock in shared mode, which nearly every opcode takes.
func DeclareOf(c *opcode.Catalogue, r *config.Resources) Declare {
	return func(input json.RawMessage) []Lock {
		declared := c.Declare(input, r)
		var all []Lock
		if declared.BGL {
			all = append(all, Lock{[]string{lock.BGL.String()}, true})
		}
		for k := range lock.Levels {
			level := lock.DemandLevel(k)
			want := declared.At(level)
			exclusive := want.Kind >= lock.ExclusiveSet
			if want.Kind == lock.AllShared || want.Kind == lock.AllExclusive {
				all = append(all, Lock{[]string{lock.Group(level).String()}, exclusive})
				for uuid, name := range objectsAt(r, level) {
					all = append(all, lockOf(level, uuid, name, exclusive))
				}
			}
			for _, name := range want.Names {
				all = append(all, lockOf(level, name, nameAt(r, level, name), exclusive))
			}
		}
		return all
	}
}

// lockOf is the lock of an object. name is "" if the object is unknown. Locks of instances have names only.
func lockOf(level lock.Level, member, name string, exclusive bool) Lock {
	switch {
	case name == "" || name == member:
		return Lock{[]string{lock.Member(level, member).String()}, exclusive}
	case level == lock.Instance:
		return Lock{[]string{lock.Member(level, name).String()}, exclusive}
	}
	return Lock{[]string{lock.Member(level, member).String(), lock.Member(level, name).String()}, exclusive}
}

// objectsAt are the UUIDs and names of the objects that have a lock at a level.
func objectsAt(r *config.Resources, level lock.Level) iter.Seq2[string, string] {
	switch level {
	case lock.Instance:
		return r.Instances()
	case lock.NodeGroup:
		return r.Groups()
	case lock.Network:
		return r.Networks()
	}
	return r.Nodes()
}

// nameAt is the name of the node group, node or network with a UUID. It is "" if there is none, and for other levels.
func nameAt(r *config.Resources, level lock.Level, uuid string) string {
	switch level {
	case lock.NodeGroup:
		if g, found := r.Group(uuid); found {
			return g.Name
		}
	case lock.Node, lock.NodeRes:
		if n, found := r.Node(uuid); found {
			return n.Name
		}
	case lock.Network:
		if n, found := r.Network(uuid); found {
			return n.Name
		}
	}
	return ""
}

// The texts of the field mode.
var (
	modeShared    = []byte("shared")
	modeExclusive = []byte("exclusive")
)

func (l *Lock) mode() []byte {
	if l.Exclusive {
		return modeExclusive
	}
	return modeShared
}

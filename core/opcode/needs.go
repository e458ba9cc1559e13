package opcode

import (
	"encoding/json"
	"slices"

	"lockstep/core/config"
	"lockstep/core/lock"
)

// Failure is why an opcode cannot be executed, as its error result says it (queue.md 3.4 and 1.3).
type Failure struct {
	Class string // of the error, as OpPrereqError
	Text  string
	Code  string // for programs, as unknown_entity
}

func (f *Failure) Error() string { return f.Text }

const (
	prereqError   = "OpPrereqError"
	wrongInput    = "wrong_input"
	unknownEntity = "unknown_entity"
	badSetting    = "environment_error"
)

// executed is the opcodes of the lock table that lockstep executes itself: with them, the prediction is what is taken.
var executed = map[string]bool{
	"OP_TEST_DELAY": true, "OP_TEST_JQUEUE": true, "OP_CLUSTER_SET_PARAMS": true, "OP_CLUSTER_REDIST_CONF": true,
}

// Locks is the locks that an opcode, given by its stored input, has to hold while lockstep executes it. Opcodes that
// nobody here executes need none, they fail at once. Who needs any needs the big lock as well, shared unless it asks for
// more; who needs none does not even need that. The error is a *Failure.
func (c *Catalogue) Locks(input json.RawMessage, known *config.Resources) (lock.Needs, error) {
	g := give(input, known)
	var n lock.Needs
	if executed[g.opcode] {
		request, failure := g.request()
		if failure != nil {
			return lock.Needs{}, failure
		}
		n.Request = request
	} else if op, ok := c.opcodes[g.opcode]; ok && op.needs != nil {
		var bad *Invalid
		if n, bad = op.needs(g); bad != nil {
			return lock.Needs{}, &Failure{Class: prereqError, Text: bad.Text, Code: wrongInput}
		}
	}
	if n.Any() && (len(n.Request) == 0 || n.Request[0].Lock != lock.BGL) {
		n.Request = slices.Insert(n.Request, 0, lock.Item{Lock: lock.BGL, Mode: lock.Shared})
	}
	return n, nil
}

// request is the opcode's row of the lock table, as a request.
func (g *given) request() (lock.Request, *Failure) {
	d := g.declare(lockTable[g.opcode])
	var r lock.Request
	for level := lock.Instance; level <= lock.Network; level++ {
		want, mode := d.At(level), lock.Shared
		switch want.Known {
		case lock.ExclusiveSet, lock.AllExclusive:
			mode = lock.Exclusive
		case lock.UnknownShared, lock.UnknownExclusive:
			return nil, &Failure{Class: prereqError, Text: "The master node of the cluster is not known", Code: badSetting}
		}
		switch want.Known {
		case lock.AllShared, lock.AllExclusive:
			r = append(r, lock.Item{Lock: lock.Group(level), Mode: mode})
		}
		for _, name := range want.Names {
			if level == lock.Node {
				if _, known := g.known.Node(name); !known {
					return nil, &Failure{Class: prereqError, Text: "Node '" + name + "' is not known", Code: unknownEntity}
				}
			}
			r = append(r, lock.Item{Lock: lock.Member(level, name), Mode: mode})
		}
	}
	return r, nil
}

// expected is needs as a prediction: which of AnyOf it will be is unknown.
func expected(n lock.Needs) lock.Declaration {
	d := lock.Declared(n.Request...)
	for _, i := range n.AnyOf {
		want := lock.Want{Known: lock.UnknownShared}
		if i.Mode == lock.Exclusive {
			want = want.Exclusively()
		}
		at := d.At(i.Lock.Level())
		*at = at.Join(want)
	}
	return d
}

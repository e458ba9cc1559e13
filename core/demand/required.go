package demand

import (
	"slices"

	"lockstep/core/lock"
)

// Refusal says why the locks of an opcode cannot be told.
type Refusal struct {
	Param string // the parameter that is wrong, "" if it is none
	Code  string // a code for programs: wrong_input, unknown_entity, environment_error
	Text  string // a sentence for the client
}

// The codes of a Refusal (queue.md 3.4).
const (
	wrongInput       = "wrong_input"
	unknownEntity    = "unknown_entity"
	environmentError = "environment_error"
)

// Refuse is the refusal of the value of a parameter.
func Refuse(param, text string) *Refusal {
	return &Refusal{Param: param, Code: wrongInput, Text: "Can't parse value for '" + param + "': " + text}
}

// executedOpcodes is the opcodes of the lock table that lockstep executes. They take the predicted locks.
var executedOpcodes = map[string]bool{
	"OP_TEST_DELAY": true, "OP_TEST_JQUEUE": true, "OP_CLUSTER_SET_PARAMS": true, "OP_CLUSTER_REDIST_CONF": true,
}

// Required is the locks that an opcode must hold while lockstep executes it. Opcodes that lockstep does not execute fail at
// once and need no locks. An opcode that needs any lock needs the big lock as well, shared unless it asks for more. named
// is nil if the opcode does not name its locks.
func Required(g *Params, named Source) (n lock.RequiredLocks, bad *Refusal) {
	if executedOpcodes[g.Opcode] {
		n.Request, bad = g.request()
	} else if named != nil {
		n, bad = named(g)
	}
	if bad != nil {
		return lock.RequiredLocks{}, bad
	}
	if n.NotEmpty() && (len(n.Request) == 0 || n.Request[0].Lock != lock.BGL) {
		n.Request = slices.Insert(n.Request, 0, lock.Item{Lock: lock.BGL, Mode: lock.Shared})
	}
	return n, nil
}

// request is the opcode's row of the lock table, as a request. It is refused if the master node or a named node is not known.
func (g *Params) request() (lock.Request, *Refusal) {
	d := g.declare(lockTable[g.Opcode])
	var r lock.Request
	for level := lock.Instance; level <= lock.Network; level++ {
		want, mode := d.At(level), lock.Shared
		switch want.Kind {
		case lock.ExclusiveSet, lock.AllExclusive:
			mode = lock.Exclusive
		case lock.UnknownShared, lock.UnknownExclusive:
			return nil, &Refusal{Text: "The master node of the cluster is not known", Code: environmentError}
		}
		switch want.Kind {
		case lock.AllShared, lock.AllExclusive:
			r = append(r, lock.Item{Lock: lock.Group(level), Mode: mode})
		}
		for _, name := range want.Names {
			if level == lock.Node {
				if _, known := g.resources.Node(name); !known {
					return nil, &Refusal{Text: "Node '" + name + "' is not known", Code: unknownEntity}
				}
			}
			r = append(r, lock.Item{Lock: lock.Member(level, name), Mode: mode})
		}
	}
	return r, nil
}

// declarationOf is required locks as a declaration. It is unknown which of AnyOf the opcode will hold.
func declarationOf(n lock.RequiredLocks) lock.Declaration {
	d := lock.DeclarationOf(n.Request...)
	for _, i := range n.AnyOf {
		want := lock.Demand{Kind: lock.UnknownShared}
		if i.Mode == lock.Exclusive {
			want = want.Exclusively()
		}
		at := d.At(i.Lock.Level())
		*at = at.Join(want)
	}
	return d
}

package opcode

import (
	"encoding/json"
	"slices"

	"lockstep/core/config"
	"lockstep/core/lock"
)

// Failure says why an opcode cannot be executed, in the form of its error result (queue.md 3.4 and 1.3).
type Failure struct {
	Class string // the class of the error, as OpPrereqError
	Text  string
	Code  string // a code for programs, as unknown_entity
}

func (f *Failure) Error() string { return f.Text }

const (
	prereqError      = "OpPrereqError"
	wrongInput       = "wrong_input"
	unknownEntity    = "unknown_entity"
	environmentError = "environment_error"
)

// executedOpcodes is the opcodes of the lock table that lockstep executes. They take the predicted locks.
var executedOpcodes = map[string]bool{
	"OP_TEST_DELAY": true, "OP_TEST_JQUEUE": true, "OP_CLUSTER_SET_PARAMS": true, "OP_CLUSTER_REDIST_CONF": true,
}

// RequiredLocks is the locks that an opcode, given by its stored input, must hold while lockstep executes it. Opcodes
// that lockstep does not execute fail at once and need no locks. An opcode that needs any lock needs the big lock as
// well, shared unless it asks for more. The error is a *Failure.
func (c *Catalogue) RequiredLocks(input json.RawMessage, resources *config.Resources) (lock.RequiredLocks, error) {
	g := readParams(input, resources)
	var n lock.RequiredLocks
	if executedOpcodes[g.opcode] {
		request, failure := g.request()
		if failure != nil {
			return lock.RequiredLocks{}, failure
		}
		n.Request = request
	} else if op, ok := c.opcodes[g.opcode]; ok && op.requiredLocks != nil {
		var bad *Invalid
		if n, bad = op.requiredLocks(g); bad != nil {
			return lock.RequiredLocks{}, &Failure{Class: prereqError, Text: bad.Text, Code: wrongInput}
		}
	}
	if n.NotEmpty() && (len(n.Request) == 0 || n.Request[0].Lock != lock.BGL) {
		n.Request = slices.Insert(n.Request, 0, lock.Item{Lock: lock.BGL, Mode: lock.Shared})
	}
	return n, nil
}

// request is the opcode's row of the lock table, as a request.
func (g *opcodeParams) request() (lock.Request, *Failure) {
	d := g.declare(lockTable[g.opcode])
	var r lock.Request
	for level := lock.Instance; level <= lock.Network; level++ {
		want, mode := d.At(level), lock.Shared
		switch want.Kind {
		case lock.ExclusiveSet, lock.AllExclusive:
			mode = lock.Exclusive
		case lock.UnknownShared, lock.UnknownExclusive:
			return nil, &Failure{Class: prereqError, Text: "The master node of the cluster is not known", Code: environmentError}
		}
		switch want.Kind {
		case lock.AllShared, lock.AllExclusive:
			r = append(r, lock.Item{Lock: lock.Group(level), Mode: mode})
		}
		for _, name := range want.Names {
			if level == lock.Node {
				if _, known := g.resources.Node(name); !known {
					return nil, &Failure{Class: prereqError, Text: "Node '" + name + "' is not known", Code: unknownEntity}
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

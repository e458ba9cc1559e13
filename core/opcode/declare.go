package opcode

import (
	"encoding/json"

	"lockstep/core/config"
	"lockstep/core/lock"
)

// Declare predicts the locks that an opcode will ask for, from its input and from what is known of the cluster, which
// may be nil (queue.md 8.3; designs.md "Predictive queue"). Names of instances are names, those of nodes, groups and
// networks are UUIDs where the cluster knows them; what the cluster does not know may come to be before the job's turn,
// so its own name stands for it, and what lies behind it is some locks.
//
// It never fails. An input that cannot be read, or of an opcode that nobody knows (its definition may be gone), counts
// as the big lock: with that the scheduler expects the worst, as it has to where it knows nothing (queue.md 8.5).
//
// It runs for every job that is submitted, and for all of them when the daemon starts.
func (c *Catalogue) Declare(input json.RawMessage, known *config.Resources) lock.Declaration {
	g := give(input, known)
	if claims, ok := lockTable[g.opcode]; ok {
		return g.declare(claims)
	}
	if op, ok := c.opcodes[g.opcode]; ok && op.needs != nil {
		if n, bad := op.needs(g); bad == nil {
			return expected(n)
		}
	}
	return lock.Declaration{BGL: true}
}

// claim is an entry in an opcode's row of the lock table: the same locks at one or several levels.
type claim struct {
	of        source
	levels    []lock.Level
	exclusive bool
}

// source finds the locks of a claim. What it returns says nothing of the mode: it is always a shared want.
type source func(*given) lock.Want

// condition is what an entry of the lock table depends on.
type condition func(*given) bool

// bgl is the row of an opcode that wants the big lock exclusively: no other lock is of interest then.
var bgl = []claim{{levels: []lock.Level{lock.Cluster}}}

func shared(of source, levels ...lock.Level) claim {
	return claim{of: of, levels: levels}
}

func exclusive(of source, levels ...lock.Level) claim {
	return claim{of: of, levels: levels, exclusive: true}
}

func (g *given) declare(claims []claim) lock.Declaration {
	var d lock.Declaration
	for i := range claims {
		c := &claims[i]
		if c.levels[0] == lock.Cluster {
			d.BGL = true
			continue
		}
		want := c.of(g)
		if c.exclusive {
			want = want.Exclusively()
		}
		for _, level := range c.levels {
			at := d.At(level)
			*at = at.Join(want)
		}
	}
	return d
}

// all is every lock of the level.
func all(*given) lock.Want { return lock.Want{Known: lock.AllShared} }

// some is locks of which nobody can say which.
func some(*given) lock.Want { return lock.Want{Known: lock.UnknownShared} }

// these is names that belong to somebody else and are in order already.
func these(names []string) lock.Want {
	if len(names) == 0 {
		return lock.Want{}
	}
	return lock.Want{Known: lock.SharedSet, Names: names}
}

// orAll is every lock of the level if there would be none.
func orAll(of source) source {
	return func(g *given) lock.Want {
		if want := of(g); want.Known != lock.Nothing {
			return want
		}
		return all(g)
	}
}

// together is the locks of several sources.
func together(of ...source) source {
	return func(g *given) lock.Want {
		var want lock.Want
		for _, part := range of {
			want = want.Join(part(g))
		}
		return want
	}
}

func either(is condition, then, otherwise source) source {
	return func(g *given) lock.Want {
		if is(g) {
			return then(g)
		}
		return otherwise(g)
	}
}

func when(is condition, then source) source { return either(is, then, none) }

func unless(is condition, then source) source { return either(is, none, then) }

func none(*given) lock.Want { return lock.Want{} }

// isTrue is about a flag that is not set unless the opcode says so.
func isTrue(param string) condition {
	return func(g *given) bool { return g.flag(param, false) }
}

// isntFalse is about a flag that is set unless the opcode says otherwise.
func isntFalse(param string) condition {
	return func(g *given) bool { return g.flag(param, true) }
}

// isSet: the parameter has a value, and not an empty one.
func isSet(param string) condition {
	return func(g *given) bool {
		v := string(g.value(param))
		return v != "" && v != `""` && v != "[]"
	}
}

func is(param, value string) condition {
	return func(g *given) bool { return g.text(param) == value }
}

func not(c condition) condition {
	return func(g *given) bool { return !c(g) }
}

func anyOf(cs ...condition) condition {
	return func(g *given) bool {
		for _, c := range cs {
			if c(g) {
				return true
			}
		}
		return false
	}
}

func allOf(cs ...condition) condition {
	return func(g *given) bool {
		for _, c := range cs {
			if !c(g) {
				return false
			}
		}
		return true
	}
}

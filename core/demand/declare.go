package demand

import "lockstep/core/lock"

// Source computes the locks of an opcode that names them in its parameters. The parameters may be invalid.
type Source func(*Params) (lock.RequiredLocks, *Refusal)

// Declare predicts the locks that an opcode will ask for, from its parameters and the resources of the cluster, which may
// be nil (queue.md 8.3; designs.md "Predictive queue"). Instances are locked by name; nodes, groups and networks by UUID,
// if the cluster knows them. An unknown object may be created before the job runs. Its lock has its name, and the
// objects that it refers to are unknown locks. named is nil if the opcode does not name its locks.
//
// It never fails. Malformed input and unknown opcodes, whose definition may have been deleted, count as the big lock,
// because the scheduler must expect the worst case (queue.md 8.5).
//
// It runs for every job that is submitted, and for all jobs when the daemon starts.
func Declare(g *Params, named Source) lock.Declaration {
	if claims, ok := lockTable[g.Opcode]; ok {
		return g.declare(claims)
	}
	if named != nil {
		if n, bad := named(g); bad == nil {
			return declarationOf(n)
		}
	}
	return lock.Declaration{BGL: true}
}

// tableEntry is an entry in an opcode's row of the lock table: the same locks at one or several levels.
type tableEntry struct {
	source    lockSource
	levels    []lock.Level
	exclusive bool
}

// lockSource finds the locks of an entry. Its result is always a shared demand; the entry has the mode.
type lockSource func(*Params) lock.Demand

// condition decides whether an entry of the lock table applies.
type condition func(*Params) bool

// bgl is the row of an opcode that wants the big lock exclusively. It needs no other locks.
var bgl = []tableEntry{{levels: []lock.Level{lock.Cluster}}}

func shared(of lockSource, levels ...lock.Level) tableEntry {
	return tableEntry{source: of, levels: levels}
}

func exclusive(of lockSource, levels ...lock.Level) tableEntry {
	return tableEntry{source: of, levels: levels, exclusive: true}
}

func (g *Params) declare(entries []tableEntry) lock.Declaration {
	var d lock.Declaration
	for i := range entries {
		c := &entries[i]
		if c.levels[0] == lock.Cluster {
			d.BGL = true
			continue
		}
		want := c.source(g)
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

// allLocks demands every lock of the level, shared.
func allLocks(*Params) lock.Demand { return lock.Demand{Kind: lock.AllShared} }

// unknownLocks demands locks of the level, shared. Their names are not known before the opcode runs.
func unknownLocks(*Params) lock.Demand { return lock.Demand{Kind: lock.UnknownShared} }

// sortedNames is the demand for names that are shared with others and sorted already.
func sortedNames(names []string) lock.Demand {
	if len(names) == 0 {
		return lock.Demand{}
	}
	return lock.Demand{Kind: lock.SharedSet, Names: names}
}

// orAllLocks is every lock of the level if the source has none.
func orAllLocks(source lockSource) lockSource {
	return func(g *Params) lock.Demand {
		if want := source(g); want.Kind != lock.Nothing {
			return want
		}
		return allLocks(g)
	}
}

// unionOf demands what any of the sources demands.
func unionOf(of ...lockSource) lockSource {
	return func(g *Params) lock.Demand {
		var want lock.Demand
		for _, part := range of {
			want = want.Join(part(g))
		}
		return want
	}
}

func either(is condition, then, otherwise lockSource) lockSource {
	return func(g *Params) lock.Demand {
		if is(g) {
			return then(g)
		}
		return otherwise(g)
	}
}

func when(is condition, then lockSource) lockSource { return either(is, then, none) }

func unless(is condition, then lockSource) lockSource { return either(is, none, then) }

func none(*Params) lock.Demand { return lock.Demand{} }

// isTrue reports whether a flag, false by default, is set.
func isTrue(param string) condition {
	return func(g *Params) bool { return g.flag(param, false) }
}

// isNotFalse reports whether a flag, true by default, is set.
func isNotFalse(param string) condition {
	return func(g *Params) bool { return g.flag(param, true) }
}

// isSet reports whether the parameter has a value that is not empty.
func isSet(param string) condition {
	return func(g *Params) bool {
		v := string(g.Value(param))
		return v != "" && v != `""` && v != "[]"
	}
}

func is(param, value string) condition {
	return func(g *Params) bool { return g.text(param) == value }
}

func not(c condition) condition {
	return func(g *Params) bool { return !c(g) }
}

func anyOf(cs ...condition) condition {
	return func(g *Params) bool {
		for _, c := range cs {
			if c(g) {
				return true
			}
		}
		return false
	}
}

func allOf(cs ...condition) condition {
	return func(g *Params) bool {
		for _, c := range cs {
			if !c(g) {
				return false
			}
		}
		return true
	}
}

package opcode

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"lockstep/core/config"
	"lockstep/core/lock"
	"lockstep/core/rawjson"
)

// The parameters that name the locks of an opcode.
const (
	locksKey = "locks"
	anyOfKey = "opportunistic_locks"
	countKey = "opportunistic_count"
)

// lockNameDescription says what parseLockName accepts.
const lockNameDescription = "the name of a lock: cluster/BGL, or one of instance/, nodegroup/, node/, node-res/ and network/ followed by a name, " +
	"or by [lockset] for all of its kind; or a name of 1 to 100 letters, digits, dots, underscores and hyphens, with or without lock/ before it"

// parseLockName finds a lock that an opcode may name. It refuses the lock of the configuration, which is held only
// during a change, and all locks of level cluster except the big lock.
func parseLockName(name string) (lock.Lock, bool) {
	l, err := lock.ParseLock(name)
	_, member, _ := strings.Cut(name, "/")
	return l, err == nil && member != "" && l.Level() != lock.Config && (l.Level() != lock.Cluster || l == lock.BGL)
}

func isLockName(v json.RawMessage) bool {
	_, ok := parseLockName(fullLockName(string(rawjson.Unquote(v))))
	return ok
}

// freePrefix begins the full name of a free lock.
const freePrefix = "lock/"

// fullLockName replaces the bare name of a free lock, which has no slash, by the full one.
func fullLockName(name string) string {
	if lock.BareName(name) {
		return freePrefix + name
	}
	return name
}

// CheckBareLockNames refuses a bare name of a free lock that is also an instance or a node: the client may mean either.
// The error names both full names; an opcode that gives one of these is accepted. The input is that of a Draft.
func (c *Catalogue) CheckBareLockNames(input json.RawMessage, resources *config.Resources) error {
	g := readParams(input, resources)
	if g.opcode != runCommand {
		return nil
	}
	for _, param := range []string{locksKey, anyOfKey} {
		for _, w := range g.wantedLocks(param) {
			if fullLockName(w.name) == w.name {
				continue
			}
			var other string
			if _, known := resources.Node(w.name); known {
				other = "node"
			} else if _, known := resources.Instance(w.name); known {
				other = "instance"
			} else {
				continue
			}
			return &Failure{Class: prereqError, Code: wrongInput, Text: rawjson.Quoted(w.name) + " in '" + param + "' is the name of a free lock and of a cluster's " +
				other + ": write " + freePrefix + w.name + " for the free lock, " + other + "/" + w.name + " for the lock of the " + other}
		}
	}
	return nil
}

// wantedLock is a lock that an opcode wants, with the name in the opcode.
type wantedLock struct {
	name string
	mode lock.Mode
}

// wantedLocks is the value of a parameter: a list of [name, "shared" or "exclusive"].
func (g *opcodeParams) wantedLocks(param string) []wantedLock {
	var all []wantedLock
	for pair := range rawjson.Elements(g.value(param)) {
		w := wantedLock{mode: lock.Shared}
		first := true
		for part := range rawjson.Elements(pair) {
			if first {
				w.name = string(rawjson.Unquote(part))
			} else if string(part) == `"exclusive"` {
				w.mode = lock.Exclusive
			}
			first = false
		}
		all = append(all, w)
	}
	return all
}

// commandLocks is the required locks that OP_RUN_COMMAND names.
func commandLocks(g *opcodeParams) (lock.RequiredLocks, *Invalid) {
	count := 1
	if v := g.value(countKey); v != nil {
		n, _ := parseInteger(v)
		count = int(min(n, 1<<30))
	}
	var n lock.RequiredLocks
	var bad *Invalid
	if n.Request, bad = g.paramLocks(locksKey); bad != nil {
		return lock.RequiredLocks{}, bad
	}
	if n.AnyOf, bad = g.paramLocks(anyOfKey); bad != nil {
		return lock.RequiredLocks{}, bad
	}
	if len(n.AnyOf) > 0 {
		n.Count = count
	}
	return n, checkAnyOf(&n, count)
}

// checkAnyOf checks that the opportunistic locks can be acquired.
func checkAnyOf(n *lock.RequiredLocks, count int) *Invalid {
	switch {
	case len(n.AnyOf) == 0 && count == 1:
		return nil
	case len(n.AnyOf) == 0:
		return paramError(countKey, "it says how many of "+anyOfKey+" are needed at least, but there are none of these: give some, or leave it out")
	case count < 1 || count > len(n.AnyOf):
		return paramError(countKey, "of "+strconv.Itoa(len(n.AnyOf))+" different locks in "+anyOfKey+" "+strconv.Itoa(count)+
			" cannot be obtained: give more locks, or want fewer")
	}
	level := n.AnyOf[0].Lock.Level()
	for _, i := range n.AnyOf {
		switch {
		case i.Lock.Level() == lock.Cluster || i.Lock.IsGroup():
			return paramError(anyOfKey, i.Lock.String()+" is no choice: name the locks of which some suffice, and put what is needed in any case into "+locksKey)
		case i.Lock.Level() != level:
			return paramError(anyOfKey, "it has locks of level "+level.String()+" and of level "+i.Lock.Level().String()+": they must be of one level")
		}
	}
	for _, i := range n.Request {
		if i.Lock.Level() == level {
			return paramError(anyOfKey, locksKey+" has "+i.Lock.String()+", which is of level "+level.String()+
				", too: the locks of a level are all needed or all opportunistic")
		}
	}
	return nil
}

func paramError(param, text string) *Invalid {
	return &Invalid{Param: param, Text: "Can't parse value for '" + param + "': " + text}
}

// paramLocks is the locks of a parameter. It refuses a lock that is named in two modes, because the client's intention
// is unknown.
func (g *opcodeParams) paramLocks(param string) ([]lock.Item, *Invalid) {
	wanted := g.wantedLocks(param)
	if len(wanted) == 0 {
		return nil, nil
	}
	modes := make(map[string]lock.Mode, len(wanted))
	for i := range wanted {
		wanted[i].name = fullLockName(wanted[i].name)
		w := wanted[i]
		if before, named := modes[w.name]; named && before != w.mode {
			return nil, paramError(param, "it has "+rawjson.Quoted(w.name)+" both shared and exclusive: name each lock once")
		}
		modes[w.name] = w.mode
	}
	return resolveLocks(param, g.resources, wanted)
}

// resolveLocks is the wanted locks in lock order. If several names mean one lock, the strongest mode counts.
func resolveLocks(param string, resources *config.Resources, wanted []wantedLock) ([]lock.Item, *Invalid) {
	if len(wanted) == 0 {
		return nil, nil
	}
	items := make([]lock.Item, 0, len(wanted))
	for _, w := range wanted {
		l, ok := parseLockName(lockName(resources, w.name))
		if !ok {
			return nil, paramError(param, "want "+lockNameDescription+", found "+rawjson.Quoted(w.name))
		}
		items = append(items, lock.Item{Lock: l, Mode: w.mode})
	}
	slices.SortFunc(items, func(a, b lock.Item) int { return a.Lock.Compare(b.Lock) })
	merged := items[:1]
	for _, i := range items[1:] {
		if last := &merged[len(merged)-1]; last.Lock == i.Lock {
			last.Mode = max(last.Mode, i.Mode)
		} else {
			merged = append(merged, i)
		}
	}
	return merged, nil
}

// lockName replaces names of objects by their UUIDs. Locks of objects that the cluster does not know keep their names:
// every name has a lock.
func lockName(resources *config.Resources, name string) string {
	level, member, _ := strings.Cut(name, "/")
	switch level {
	case "nodegroup":
		member = groupLock(resources, member)
	case "node", "node-res":
		member = nodeLock(resources, member)
	case "network":
		member = networkLock(resources, member)
	default:
		return name
	}
	return level + "/" + member
}

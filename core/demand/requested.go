package demand

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

// LockNameDescription says what ParseLockName accepts.
const LockNameDescription = "the name of a lock: " +
	"cluster/BGL, or one of instance/, nodegroup/, node/, node-res/ and network/ followed by a name, " +
	"or by [lockset] for all of its kind; " +
	"or a name of 1 to 100 letters, digits, dots, underscores, hyphens and slashes, with or without lock/ before it"

// ParseLockName finds a lock that an opcode may name; false for any other text. It refuses the lock of the configuration, which is held
// only during a change, and all locks of level cluster except the big lock.
func ParseLockName(name string) (lock.Lock, bool) {
	l, err := lock.ParseLock(name)
	_, member, _ := strings.Cut(name, "/")
	return l, err == nil && member != "" && l.Level() != lock.Config && (l.Level() != lock.Cluster || l == lock.BGL)
}

// IsLockName reports whether a JSON value is the name of a lock, full or short (lock.Meant).
func IsLockName(v json.RawMessage) bool {
	full, err := lock.Meant(string(rawjson.Unquote(v)))
	_, ok := ParseLockName(full)
	return ok && err == nil
}

// LockNameHint says which lock a user may mean by a JSON value that is no lock's name; "" if unknown.
func LockNameHint(v json.RawMessage) string {
	if _, err := lock.Meant(string(rawjson.Unquote(v))); err != nil {
		return err.Error()
	}
	return ""
}

// CheckShortNames refuses a short name of a free lock that is also an instance or a node, and in Ganeti mode one with a slash: the client
// may mean either. The refusal names the full names; an opcode that gives one of these is accepted.
func CheckShortNames(g *Params, ganetiMode bool) *Refusal {
	if g.Opcode != RunCommand {
		return nil
	}
	for _, param := range []string{locksKey, anyOfKey} {
		for _, w := range g.wantedLocks(param) {
			full, err := lock.Meant(w.Name)
			if err != nil || full == w.Name {
				continue
			}
			var other string
			if _, known := g.resources.Node(w.Name); known {
				other = "node"
			} else if _, known := g.resources.Instance(w.Name); known {
				other = "instance"
			}
			subject := rawjson.Quoted(w.Name) + " in '" + param + "' "
			switch {
			case other != "":
				return &Refusal{Param: param, Code: wrongInput, Text: subject + "is the name of a free lock and of a cluster's " + other +
					": write " + full + " for the free lock, " + other + "/" + w.Name + " for the lock of the " + other}
			case ganetiMode && strings.Contains(w.Name, "/"):
				return &Refusal{Param: param, Code: wrongInput, Text: subject + "does not begin with a level of locks: write " + full +
					" for a free lock"}
			}
		}
	}
	return nil
}

// Wanted is a lock that an opcode wants, with the name in the opcode.
type Wanted struct {
	Name string
	Mode lock.Mode
}

// wantedLocks is the value of a parameter: a list of [name, "shared" or "exclusive"].
func (g *Params) wantedLocks(param string) []Wanted {
	var all []Wanted
	for pair := range rawjson.Elements(g.Value(param)) {
		w := Wanted{Mode: lock.Shared}
		first := true
		for part := range rawjson.Elements(pair) {
			if first {
				w.Name = string(rawjson.Unquote(part))
			} else if string(part) == `"exclusive"` {
				w.Mode = lock.Exclusive
			}
			first = false
		}
		all = append(all, w)
	}
	return all
}

// RunCommand is the opcode that names its locks itself.
const RunCommand = "OP_RUN_COMMAND"

// OfCommand is the required locks that OP_RUN_COMMAND names: all of locks, and at least opportunistic_count, by default one, of
// opportunistic_locks.
func OfCommand(g *Params) (lock.RequiredLocks, *Refusal) {
	count := 1
	if v := g.Value(countKey); v != nil {
		n, _ := strconv.ParseInt(string(v), 10, 64)
		count = int(min(n, 1<<30))
	}
	var n lock.RequiredLocks
	var bad *Refusal
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

// checkAnyOf returns why the opportunistic locks cannot be acquired, nil if they can be.
func checkAnyOf(n *lock.RequiredLocks, count int) *Refusal {
	switch {
	case len(n.AnyOf) == 0 && count == 1:
		return nil
	case len(n.AnyOf) == 0:
		return Refuse(countKey, "it says how many of "+anyOfKey+" are needed at least, but there are none of these: give some, or leave it out")
	case count < 1 || count > len(n.AnyOf):
		return Refuse(countKey, "of "+strconv.Itoa(len(n.AnyOf))+" different locks in "+anyOfKey+" "+strconv.Itoa(count)+
			" cannot be obtained: give more locks, or want fewer")
	}
	level := n.AnyOf[0].Lock.Level()
	for _, i := range n.AnyOf {
		switch {
		case i.Lock.Level() == lock.Cluster || i.Lock.IsGroup():
			return Refuse(anyOfKey, i.Lock.String()+
				" is no choice: name the locks of which some suffice, and put what is needed in any case into "+locksKey)
		case i.Lock.Level() != level:
			return Refuse(anyOfKey, "it has locks of level "+level.String()+" and of level "+i.Lock.Level().String()+": they must be of one level")
		}
	}
	for _, i := range n.Request {
		if i.Lock.Level() == level {
			return Refuse(anyOfKey, locksKey+" has "+i.Lock.String()+", which is of level "+level.String()+
				", too: the locks of a level are all needed or all opportunistic")
		}
	}
	return nil
}

// paramLocks is the locks of a parameter. It refuses a lock that is named in two modes, because the client's intention
// is unknown.
func (g *Params) paramLocks(param string) ([]lock.Item, *Refusal) {
	wanted := g.wantedLocks(param)
	if len(wanted) == 0 {
		return nil, nil
	}
	modes := make(map[string]lock.Mode, len(wanted))
	for i := range wanted {
		if full, err := lock.Meant(wanted[i].Name); err == nil {
			wanted[i].Name = full
		}
		w := wanted[i]
		if before, named := modes[w.Name]; named && before != w.Mode {
			return nil, Refuse(param, "it has "+rawjson.Quoted(w.Name)+" both shared and exclusive: name each lock once")
		}
		modes[w.Name] = w.Mode
	}
	return g.resolve(param, wanted)
}

// Resolve is the required locks for the wanted ones, all of which are named in full.
func (g *Params) Resolve(wanted []Wanted) (lock.RequiredLocks, *Refusal) {
	items, bad := g.resolve(locksKey, wanted)
	return lock.RequiredLocks{Request: items}, bad
}

// resolve is the wanted locks in lock order. If several names mean one lock, the strongest mode counts.
func (g *Params) resolve(param string, wanted []Wanted) ([]lock.Item, *Refusal) {
	if len(wanted) == 0 {
		return nil, nil
	}
	items := make([]lock.Item, 0, len(wanted))
	for _, w := range wanted {
		l, ok := ParseLockName(lockName(g.resources, w.Name))
		if !ok {
			return nil, Refuse(param, "want "+LockNameDescription+", found "+rawjson.Quoted(w.Name))
		}
		items = append(items, lock.Item{Lock: l, Mode: w.Mode})
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

package lock

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"lockstep/core/wire"
)

// Call is one parsed call of the lock manager's protocol (locks.md 2.3).
type Call struct {
	Function      string
	Owner         Owner // the caller; none for the functions that only read
	ActsForOwner  bool  // there is an Owner, which will hold or wait for something
	Opportunistic bool  // it takes the free ones among its locks
	do            func(s *State, now time.Time) (CallResult, error)
}

// CallResult has the answer to a call, and the owners that its change concerns.
type CallResult struct {
	Result  any     // to be encoded as JSON
	Changed []Owner // the owners whose Record has changed, in the order of the changes
	Notify  []Owner // other owners whose pending request was granted
}

// emptyResult is the result of a call that returns nothing; clients insist on the list (locks.md 2.1).
var emptyResult = []any{}

// ErrNoFunction is the error for a function that does not concern locks.
var ErrNoFunction = errors.New("no such function")

// ParseCall parses a call. The error is ErrNoFunction, or says which argument is invalid.
func ParseCall(function string, args []json.RawMessage) (Call, error) {
	parse, known := functions[function]
	if !known {
		return Call{}, ErrNoFunction
	}
	c := Call{Function: function}
	err := parse(&c, args)
	return c, err
}

// Do executes a call. After an error the State is unchanged.
func (c Call) Do(s *State, now time.Time) (CallResult, error) { return c.do(s, now) }

// functions are the functions about locks, by name.
var functions = map[string]func(c *Call, args []json.RawMessage) error{
	"tryUpdateLocks":                parseTryUpdate,
	"updateLocksWaiting":            parseUpdateWaiting,
	"hasPendingRequest":             ownerQuery(func(s *State, o Owner) any { return s.HasPending(o) }),
	"listLocks":                     ownerQuery(func(s *State, o Owner) any { return heldItems(s, o) }),
	"freeLocks":                     parseRelease,
	"freeLocksLevel":                parseLevelCall((*State).ReleaseLevel),
	"unlockConfig":                  parseUnlockConfig,
	"downGradeLocksLevel":           parseLevelCall((*State).DowngradeLevel),
	"intersectLocks":                parseIntersect,
	"opportunisticLockUnion":        parseUnion,
	"guardedOpportunisticLockUnion": parseGuardedUnion,
	"listAllLocks":                  globalQuery(func(s *State) any { return ganetiLocks(s) }),
	"listAllLocksOwners":            globalQuery(func(s *State) any { return allOwners(s) }),
	"listLocksWaitingStatus":        globalQuery(func(s *State) any { return []any{allOwners(s), allPending(s)} }),
}

// Arguments decodes positional arguments strictly. Errors with a prescribed text (locks.md 1.1, 2.2) keep the text.
func Arguments(args []json.RawMessage, into ...any) error {
	err := wire.RequiredArguments(args, into...)
	var owner *OwnerError
	var name *NameError
	var level *LevelError
	switch {
	case errors.As(err, &owner):
		return owner
	case errors.As(err, &name):
		return name
	case errors.As(err, &level):
		return level
	default:
		return err
	}
}

// PendingArguments parses [identity, priority, request] and the arguments that follow. The priority must fit 32 bits.
func PendingArguments(args []json.RawMessage, more ...any) (Pending, error) {
	var p Pending
	var priority int32 // the range that decodePriority reads from the disk
	err := Arguments(args, append([]any{&p.Owner, &priority, &p.Request}, more...)...)
	p.Priority = int(priority)
	return p, err
}

func (c *Call) setAction(o Owner, do func(s *State, now time.Time) (CallResult, error)) {
	c.Owner, c.ActsForOwner, c.do = o, true, do
}

func parseTryUpdate(c *Call, args []json.RawMessage) error {
	var o Owner
	var req Request
	err := Arguments(args, &o, &req)
	c.setAction(o, func(s *State, now time.Time) (CallResult, error) { return updateResult(s.TryUpdate(now, o, req)) })
	return err
}

func parseUpdateWaiting(c *Call, args []json.RawMessage) error {
	p, err := PendingArguments(args)
	c.setAction(p.Owner, func(s *State, now time.Time) (CallResult, error) {
		u, err := s.SafeUpdateWaiting(now, p)
		if !u.Granted && len(u.Blockers) == 0 {
			u.Blockers = []Owner{p.Owner} // an empty list would say that it is granted: its own job is in the way
		}
		return updateResult(u, err)
	})
	return err
}

func parseRelease(c *Call, args []json.RawMessage) error {
	var o Owner
	err := Arguments(args, &o)
	c.setAction(o, func(s *State, now time.Time) (CallResult, error) { return releaseResult(s.Release(now, o)) })
	return err
}

func parseUnlockConfig(c *Call, args []json.RawMessage) error {
	var o Owner
	err := Arguments(args, &o)
	c.setAction(o, func(s *State, now time.Time) (CallResult, error) {
		return releaseResult(s.ReleaseLevel(now, o, Config))
	})
	return err
}

// parseLevelCall is the parser for the functions that release or downgrade at one level: [identity, level].
func parseLevelCall(release func(*State, time.Time, Owner, Level) Update) func(*Call, []json.RawMessage) error {
	return func(c *Call, args []json.RawMessage) error {
		var o Owner
		var name string
		if err := Arguments(args, &o, &name); err != nil {
			return err
		}
		level, err := ParseLevel(name)
		c.setAction(o, func(s *State, now time.Time) (CallResult, error) { return releaseResult(release(s, now, o, level)) })
		return err
	}
}

func parseIntersect(c *Call, args []json.RawMessage) error {
	var o Owner
	var keep []Lock
	err := Arguments(args, &o, &keep)
	c.setAction(o, func(s *State, now time.Time) (CallResult, error) { return releaseResult(s.Intersect(now, o, keep)) })
	return err
}

func parseUnion(c *Call, args []json.RawMessage) error {
	var o Owner
	var items []Item
	if err := Arguments(args, &o, &items); err != nil {
		return err
	}
	return c.union(o, items, 0)
}

func parseGuardedUnion(c *Call, args []json.RawMessage) error {
	var countMin int
	var o Owner
	var items []Item
	if err := Arguments(args, &countMin, &o, &items); err != nil {
		return err
	}
	return c.union(o, items, countMin)
}

func (c *Call) union(o Owner, items []Item, countMin int) error {
	for i := range items {
		if items[i].Mode == None {
			return fmt.Errorf("%s: a union cannot release", items[i].Lock)
		}
	}
	c.Opportunistic = true
	c.setAction(o, func(s *State, now time.Time) (CallResult, error) {
		u := s.GuardedOpportunisticUnion(now, o, items, countMin)
		return CallResult{Result: notNull(u.Locks), Changed: u.Changed}, nil
	})
	return nil
}

// ownerQuery is the parser for the functions that read the state of one owner: [identity].
func ownerQuery(read func(*State, Owner) any) func(*Call, []json.RawMessage) error {
	return func(c *Call, args []json.RawMessage) error {
		var o Owner
		err := Arguments(args, &o)
		c.do = func(s *State, _ time.Time) (CallResult, error) { return CallResult{Result: read(s, o)}, nil }
		return err
	}
}

// globalQuery is the parser for the functions that read the whole state, without arguments.
func globalQuery(read func(*State) any) func(*Call, []json.RawMessage) error {
	return func(c *Call, args []json.RawMessage) error {
		c.do = func(s *State, _ time.Time) (CallResult, error) { return CallResult{Result: read(s)}, nil }
		return Arguments(args)
	}
}

func updateResult(u Update, err error) (CallResult, error) {
	return CallResult{Result: notNull(u.Blockers), Changed: u.Changed, Notify: u.Notify}, err
}

func releaseResult(u Update) (CallResult, error) {
	return CallResult{Result: emptyResult, Changed: u.Changed, Notify: u.Notify}, nil
}

func heldItems(s *State, o Owner) any { return notNull(s.Allocation().Held(o)) }

// ganetiLocks is every lock with an owner. The queries about all locks are Ganeti's, whose programs do not know free
// locks.
func ganetiLocks(s *State) []Lock {
	return notNull(slices.DeleteFunc(s.Allocation().Locks(), Lock.IsFree))
}

// allOwners is every lock with its direct owners: [[lock, [[owner, mode], ...]], ...].
func allOwners(s *State) any {
	all := [][2]any{}
	for _, l := range ganetiLocks(s) {
		owners := [][2]any{}
		for _, c := range s.Allocation().Owners(l) {
			owners = append(owners, [2]any{c.Owner, c.Mode.String()})
		}
		all = append(all, [2]any{l, owners})
	}
	return all
}

func allPending(s *State) any {
	all := [][3]any{}
	for _, p := range s.Pending() {
		if items := ganetiItems(p.Request); len(items) > 0 || len(p.Request) == 0 {
			all = append(all, [3]any{p.Priority, p.Owner, Request(items)})
		}
	}
	return all
}

// notNull is the list, or an empty list in place of nil, which would be null on the wire.
func notNull[E any](list []E) []E {
	if list == nil {
		return []E{}
	}
	return list
}

// Functions are the names of all functions about locks, in order.
func Functions() []string { return slices.Sorted(maps.Keys(functions)) }

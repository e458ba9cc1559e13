package lock

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Call is one call of the lock manager's protocol, taken apart (locks.md 2.3).
type Call struct {
	Function string
	Owner    Owner // who asks; none for the functions that only look
	Asks     bool  // there is an Owner, who will hold or want something
	Takes    bool  // it takes what is free of a choice
	do       func(s *State, now time.Time) (Answer, error)
}

// Answer is what a call comes to.
type Answer struct {
	Result  any     // to be encoded as JSON
	Changed []Owner // whose Record is another one now, in the order of the changes
	Notify  []Owner // who else has got what it waited for
}

// nothing is the result of a call that has none; clients insist on the list
// (locks.md 2.1).
var nothing = []any{}

// ErrNoFunction is about a call of something that is no function about locks.
var ErrNoFunction = errors.New("no such function")

// ParseCall takes a call apart. Errors are about the arguments, or ErrNoFunction.
func ParseCall(function string, args []json.RawMessage) (Call, error) {
	parse, known := functions[function]
	if !known {
		return Call{}, ErrNoFunction
	}
	c := Call{Function: function}
	err := parse(&c, args)
	return c, err
}

// Do carries a call out. After an error the State is as it was.
func (c Call) Do(s *State, now time.Time) (Answer, error) { return c.do(s, now) }

// functions are the functions about locks, by name.
var functions = map[string]func(c *Call, args []json.RawMessage) error{
	"tryUpdateLocks":                parseTryUpdate,
	"updateLocksWaiting":            parseUpdateWaiting,
	"hasPendingRequest":             ofOwner(func(s *State, o Owner) any { return s.HasPending(o) }),
	"listLocks":                     ofOwner(func(s *State, o Owner) any { return heldItems(s, o) }),
	"freeLocks":                     parseFree,
	"freeLocksLevel":                parseLevel((*State).FreeLevel),
	"unlockConfig":                  parseUnlockConfig,
	"downGradeLocksLevel":           parseLevel((*State).DowngradeLevel),
	"intersectLocks":                parseIntersect,
	"opportunisticLockUnion":        parseUnion,
	"guardedOpportunisticLockUnion": parseGuardedUnion,
	"listAllLocks":                  ofAll(func(s *State) any { return orNone(s.Allocation().Locks()) }),
	"listAllLocksOwners":            ofAll(func(s *State) any { return allOwners(s) }),
	"listLocksWaitingStatus":        ofAll(func(s *State) any { return []any{allOwners(s), allPending(s)} }),
}

// Arguments takes positional arguments apart, strictly. Texts of errors that
// have one of their own (locks.md 1.1, 2.2) are kept.
func Arguments(args []json.RawMessage, into ...any) error {
	if len(args) != len(into) {
		return fmt.Errorf("%d arguments, expected %d", len(args), len(into))
	}
	for i, target := range into {
		if string(args[i]) == "null" {
			return fmt.Errorf("argument %d is null", i+1)
		}
		if err := json.Unmarshal(args[i], target); err != nil {
			return argumentError(i, err)
		}
	}
	return nil
}

// argumentError keeps the texts of the errors that have one of their own.
func argumentError(i int, err error) error {
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
		return fmt.Errorf("argument %d: %w", i+1, err)
	}
}

// PendingArguments takes apart [identity, priority, request] and whatever follows.
func PendingArguments(args []json.RawMessage, more ...any) (Pending, error) {
	var p Pending
	var priority int32 // what can be read back from the disk (decodePriority)
	err := Arguments(args, append([]any{&p.Owner, &priority, &p.Request}, more...)...)
	p.Priority = int(priority)
	return p, err
}

func (c *Call) asks(o Owner, do func(s *State, now time.Time) (Answer, error)) {
	c.Owner, c.Asks, c.do = o, true, do
}

func parseTryUpdate(c *Call, args []json.RawMessage) error {
	var o Owner
	var req Request
	err := Arguments(args, &o, &req)
	c.asks(o, func(s *State, now time.Time) (Answer, error) { return updated(s.TryUpdate(now, o, req)) })
	return err
}

func parseUpdateWaiting(c *Call, args []json.RawMessage) error {
	p, err := PendingArguments(args)
	c.asks(p.Owner, func(s *State, now time.Time) (Answer, error) { return updated(s.SafeUpdateWaiting(now, p)) })
	return err
}

func parseFree(c *Call, args []json.RawMessage) error {
	var o Owner
	err := Arguments(args, &o)
	c.asks(o, func(s *State, now time.Time) (Answer, error) { return freed(s.Release(now, o)) })
	return err
}

func parseUnlockConfig(c *Call, args []json.RawMessage) error {
	var o Owner
	err := Arguments(args, &o)
	c.asks(o, func(s *State, now time.Time) (Answer, error) { return freed(s.FreeLevel(now, o, Config)) })
	return err
}

// parseLevel is for the functions that give back at one level.
func parseLevel(give func(*State, time.Time, Owner, Level) Update) func(*Call, []json.RawMessage) error {
	return func(c *Call, args []json.RawMessage) error {
		var o Owner
		var name string
		if err := Arguments(args, &o, &name); err != nil {
			return err
		}
		level, err := ParseLevel(name)
		c.asks(o, func(s *State, now time.Time) (Answer, error) { return freed(give(s, now, o, level)) })
		return err
	}
}

func parseIntersect(c *Call, args []json.RawMessage) error {
	var o Owner
	var keep []Lock
	err := Arguments(args, &o, &keep)
	c.asks(o, func(s *State, now time.Time) (Answer, error) { return freed(s.Intersect(now, o, keep)) })
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
	var least int
	var o Owner
	var items []Item
	if err := Arguments(args, &least, &o, &items); err != nil {
		return err
	}
	return c.union(o, items, least)
}

func (c *Call) union(o Owner, items []Item, least int) error {
	for i := range items {
		if items[i].Mode == None {
			return fmt.Errorf("%s: a union cannot release", items[i].Lock)
		}
	}
	c.Takes = true
	c.asks(o, func(s *State, now time.Time) (Answer, error) {
		u := s.GuardedOpportunisticUnion(now, o, items, least)
		return Answer{Result: orNone(u.Locks), Changed: u.Changed}, nil
	})
	return nil
}

// ofOwner is for the functions that look at one owner.
func ofOwner(look func(*State, Owner) any) func(*Call, []json.RawMessage) error {
	return func(c *Call, args []json.RawMessage) error {
		var o Owner
		err := Arguments(args, &o)
		c.do = func(s *State, _ time.Time) (Answer, error) { return Answer{Result: look(s, o)}, nil }
		return err
	}
}

// ofAll is for the functions that look at everything.
func ofAll(look func(*State) any) func(*Call, []json.RawMessage) error {
	return func(c *Call, args []json.RawMessage) error {
		c.do = func(s *State, _ time.Time) (Answer, error) { return Answer{Result: look(s)}, nil }
		return Arguments(args)
	}
}

func updated(u Update, err error) (Answer, error) {
	return Answer{Result: orNone(u.Blockers), Changed: u.Changed, Notify: u.Notify}, err
}

func freed(u Update) (Answer, error) {
	return Answer{Result: nothing, Changed: u.Changed, Notify: u.Notify}, nil
}

func heldItems(s *State, o Owner) any { return orNone(s.Allocation().Held(o)) }

// allOwners is every lock with its direct owners: [[lock, [[owner, mode], ...]], ...].
func allOwners(s *State) any {
	all := [][2]any{}
	for _, l := range s.Allocation().Locks() {
		claims := [][2]any{}
		for _, c := range s.Allocation().Owners(l) {
			claims = append(claims, [2]any{c.Owner, c.Mode.String()})
		}
		all = append(all, [2]any{l, claims})
	}
	return all
}

func allPending(s *State) any {
	all := [][3]any{}
	for _, p := range s.Pending() {
		all = append(all, [3]any{p.Priority, p.Owner, p.Request})
	}
	return all
}

// orNone is a list that is never null on the wire.
func orNone[E any](list []E) []E {
	if list == nil {
		return []E{}
	}
	return list
}

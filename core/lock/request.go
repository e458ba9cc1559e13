package lock

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"lockstep/core/rawjson"
)

// Mode is how a lock is held or requested. Each mode includes those with smaller numbers.
type Mode uint8

const (
	// None: the lock is not held. In a request it is a release.
	None Mode = iota
	// Shared allows other shared owners.
	Shared
	// Exclusive excludes all other owners.
	Exclusive
)

var modeNames = [...]string{None: "release", Shared: "shared", Exclusive: "exclusive"}

// String is the word of a request for this mode.
func (m Mode) String() string { return modeNames[m] }

// ParseMode reads the word of a request: "shared", "exclusive" or "release".
func ParseMode(word string) (Mode, error) {
	m := slices.Index(modeNames[:], word)
	if m < 0 {
		return 0, fmt.Errorf("unknown lock mode %s, want shared, exclusive or release", rawjson.Quote(word))
	}
	return Mode(m), nil
}

// Item is one lock and a mode: requested, or held. A held item is never None.
type Item struct {
	Lock Lock
	Mode Mode
}

// Compare orders items by lock, then by mode.
func (i Item) Compare(k Item) int {
	if c := i.Lock.Compare(k.Lock); c != 0 {
		return c
	}
	return cmp.Compare(i.Mode, k.Mode)
}

// MarshalJSON writes [lock, "shared"|"exclusive"|"release"].
func (i Item) MarshalJSON() ([]byte, error) { return appendItem(nil, i), nil }

// UnmarshalJSON reads [lock, mode]. An unknown lock is a *NameError.
func (i *Item) UnmarshalJSON(data []byte) error {
	parts, err := elements(data)
	if err != nil || len(parts) != 2 {
		return errors.New("a lock request is [lock, mode]")
	}
	lock, err := parseLockJSON(parts[0])
	if err != nil {
		return err
	}
	word, err := text(parts[1])
	if err != nil {
		return err
	}
	mode, err := ParseMode(word)
	if err != nil {
		return err
	}
	*i = Item{lock, mode}
	return nil
}

func parseLockJSON(raw json.RawMessage) (Lock, error) {
	name, err := text(raw)
	if err != nil {
		return Lock{}, err
	}
	return ParseLock(name)
}

// text reads a JSON string. null is an error.
func text(raw json.RawMessage) (string, error) {
	s, err := rawjson.ReadText(raw)
	if err != nil {
		return "", errors.New("want a string")
	}
	return s, nil
}

func appendItem(dst []byte, i Item) []byte {
	dst = append(append(dst, '['), rawjson.Quote(i.Lock.String())...)
	dst = append(append(dst, `,"`...), i.Mode.String()...)
	return append(dst, `"]`...)
}

func appendItems(dst []byte, items []Item) []byte {
	dst = append(dst, '[')
	for k, i := range items {
		if k > 0 {
			dst = append(dst, ',')
		}
		dst = appendItem(dst, i)
	}
	return append(dst, ']')
}

// Request is a list of items that an owner asks for. All of them are granted, or none.
type Request []Item

// MarshalJSON writes the list of items; an empty one is [], never null.
func (r Request) MarshalJSON() ([]byte, error) { return appendItems(nil, r), nil }

// Pending is a request that waits. Smaller priorities go first.
type Pending struct {
	Priority int
	Owner    Owner
	Request  Request
}

// Compare is the pending order: priority, owner, request (locks.md 1.6).
func (p *Pending) Compare(q *Pending) int {
	if c := cmp.Compare(p.Priority, q.Priority); c != 0 {
		return c
	}
	if c := p.Owner.Compare(q.Owner); c != 0 {
		return c
	}
	return slices.CompareFunc(p.Request, q.Request, Item.Compare)
}

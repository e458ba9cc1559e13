package lock

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
)

// A choice is an owner that waits for some of a set of locks, at least count of them (design.md "Grants and owners"). It takes
// as many as are free as soon as these are enough, after all pending requests, which may be for the same locks; among
// choices, the first one to arrive takes first. It reserves nothing and blocks nobody. A choice is not written to the journal,
// because its wait ends with the connection of its client.

// choice is one such wait.
type choice struct {
	owner Owner
	count int
	items []Item // in lock order
	since time.Time
	order int // of arrival
}

// missing is how many locks the owner needs beside those that it holds.
func (c *choice) missing(h *holder) int {
	n := c.count
	for _, i := range c.items {
		if h.mode(i.Lock) >= i.Mode {
			n--
		}
	}
	return n
}

// choices are the open choices of all owners, at most one for each.
type choices struct {
	byOwner map[Owner]*choice
	byLock  map[Lock][]*choice
	arrived int // number of choices that have arrived
	// freed are the locks that may block fewer since the choices were tried; true: and so may the lock for what it implies.
	freed map[Lock]bool
}

func (c *choices) add(o *choice) {
	if c.byOwner == nil {
		c.byOwner, c.byLock, c.freed = map[Owner]*choice{}, map[Lock][]*choice{}, map[Lock]bool{}
	}
	o.order = c.arrived
	c.arrived++
	c.byOwner[o.owner] = o
	for _, i := range o.items {
		c.byLock[i.Lock] = append(c.byLock[i.Lock], o)
	}
}

// drop ends the wait of an owner. It reports whether there was one.
func (c *choices) drop(owner Owner) bool {
	o := c.byOwner[owner]
	if o == nil {
		return false
	}
	delete(c.byOwner, owner)
	is := func(other *choice) bool { return other == o }
	for _, i := range o.items {
		if c.byLock[i.Lock] = slices.DeleteFunc(c.byLock[i.Lock], is); len(c.byLock[i.Lock]) == 0 {
			delete(c.byLock, i.Lock)
		}
	}
	return true
}

// leave notes that an owner, or the reservation of a request, has left a point.
func (c *choices) leave(at *waitPoint) {
	if len(c.byOwner) > 0 {
		l := at.entry.lock
		c.freed[l] = c.freed[l] || at == &at.entry.points[atLock] || at == &at.entry.points[atLockExclusive]
	}
}

// takeFreed are the choices that may get what they want now, in order of arrival. It forgets what was freed.
func (c *choices) takeFreed(implied Hierarchy) []*choice {
	if len(c.freed) == 0 {
		return nil
	}
	freed := c.freed
	c.freed = map[Lock]bool{}
	some := map[*choice]struct{}{}
	for l, itself := range freed { // the order does not matter
		for _, o := range c.byLock[l] {
			some[o] = struct{}{}
		}
		if !itself || !l.group {
			continue
		}
		for member, waiting := range c.byLock {
			if slices.Contains(implied(member), l) {
				for _, o := range waiting {
					some[o] = struct{}{}
				}
			}
		}
	}
	return slices.SortedFunc(maps.Keys(some), (*choice).compare)
}

func (c *choice) compare(other *choice) int { return cmp.Compare(c.order, other.order) }

// Choose gives an owner as many of these locks as are free if, with those that it holds already, they are at least count. Otherwise it
// takes none and waits, in place of an earlier choice of the owner. An owner that holds enough of them gets no others, so
// that the call may be repeated. Errors are those of TryUpdate.
func (s *State) Choose(now time.Time, o Owner, count int, items []Item) (Update, error) {
	h := s.table.holder(o)
	defer s.table.forget(h)
	// The former choice ends even if this call is refused: the client has sent this one in its place.
	s.choices.drop(o)
	if h.pending != nil {
		return Update{}, ErrPending
	}
	c := &choice{owner: o, count: count, items: slices.SortedFunc(slices.Values(items), Item.Compare), since: now}
	if c.missing(h) <= 0 {
		return Update{Granted: true}, nil
	}
	for _, i := range items {
		if err := s.table.check(h, Request{i}); err != nil {
			return Update{}, err
		}
	}
	s.beginPass(now)
	took, enough := s.tryChoice(c)
	if !enough {
		s.choices.add(c)
	}
	u := s.finishPass(h, took)
	u.Granted = enough
	if !enough {
		u.Blockers = s.ChoiceBlockers(o)
	}
	return u, nil
}

// tryChoice gives an owner what it chooses if that is enough. took reports whether it has got a lock.
func (s *State) tryChoice(c *choice) (took, enough bool) {
	h := s.table.holder(c.owner)
	defer s.table.forget(h)
	missing := c.missing(h)
	if missing <= 0 {
		return false, true
	}
	took = len(s.takeFree(h, c.items, missing)) > 0
	return took, took
}

// tryChoices gives choices that wait what has become free in the pass. An owner that gets enough is granted and waits no longer.
func (s *State) tryChoices() {
	for _, c := range s.choices.takeFreed(s.table.implied) {
		if _, enough := s.tryChoice(c); enough {
			s.choices.drop(c.owner)
			s.pass.granted = append(s.pass.granted, c.owner)
		}
	}
}

// DropChoice ends the wait of an owner for some of a set.
func (s *State) DropChoice(o Owner) { s.choices.drop(o) }

// Choosing reports whether the owner waits for some of a set of locks.
func (s *State) Choosing(o Owner) bool { return s.choices.byOwner[o] != nil }

// ChoiceBlockers are the owners that have locks which the owner chooses from, in owner order.
func (s *State) ChoiceBlockers(o Owner) []Owner {
	c := s.choices.byOwner[o]
	if c == nil {
		return nil
	}
	return s.table.blockers(s.table.holders[o], c.items)
}

// Choice is an owner that waits for at least Count of Items since a time.
type Choice struct {
	Owner Owner
	Count int
	Items []Item
	Since time.Time
}

// Choices are the owners that wait for some of a set of locks, in order of arrival.
func (s *State) Choices() []Choice {
	all := make([]Choice, 0, len(s.choices.byOwner))
	for _, c := range slices.SortedFunc(maps.Values(s.choices.byOwner), (*choice).compare) {
		all = append(all, Choice{c.owner, c.count, c.items, c.since})
	}
	return all
}

// ChoiceArguments parses [count, identity, items] and the arguments that follow. The items must be different, none a release, and at
// least count.
func ChoiceArguments(args []json.RawMessage, more ...any) (o Owner, count int, items []Item, err error) {
	if err = Arguments(args, append([]any{&count, &o, &items}, more...)...); err != nil {
		return o, count, items, err
	}
	for k, i := range items {
		switch {
		case i.Mode == None:
			return o, count, items, fmt.Errorf("%s: a union cannot release", i.Lock)
		case slices.ContainsFunc(items[:k], func(other Item) bool { return other.Lock == i.Lock }):
			return o, count, items, fmt.Errorf("%s is there twice", i.Lock)
		}
	}
	if count < 1 || count > len(items) {
		return o, count, items, fmt.Errorf("of %d locks %d cannot be obtained", len(items), count)
	}
	return o, count, items, nil
}

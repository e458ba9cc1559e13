package lock

import "slices"

// InconsistentError is about a request that wants one lock in two modes. The text's spelling is Ganeti's.
type InconsistentError struct{ Lock Lock }

func (e *InconsistentError) Error() string {
	return "Inconsitent requests for lock " + e.Lock.ganetiName()
}

// OrderError is about a request for a lock before the greatest one held.
type OrderError struct{ Lock, Held Lock }

func (e *OrderError) Error() string {
	return "Order violation: requesting " + e.Lock.ganetiName() + " while holding " + e.Held.ganetiName()
}

// GroupError is about an exclusive request for a lock whose group the owner shares.
type GroupError struct{ Lock, Group Lock }

func (e *GroupError) Error() string {
	return "Order violation: requesting exclusively " + e.Lock.ganetiName() + " while holding a shared lock on the group lock " +
		e.Group.ganetiName() + " it belongs to."
}

// check tells what forbids the request, whatever other owners hold (locks.md 1.5, steps 1 to 3). The first step that
// fails decides.
func (t *Table) check(h *holder, req Request) error {
	if err := consistent(req); err != nil {
		return err
	}
	if len(h.held) == 0 {
		return nil
	}
	greatest := h.greatestFirst.items[0].lock
	for _, i := range req {
		if i.Lock.Compare(greatest) < 0 && !t.covers(h, i) {
			return &OrderError{i.Lock, greatest}
		}
	}
	for _, i := range req {
		if i.Mode != Exclusive {
			continue
		}
		for _, g := range t.implied(i.Lock) {
			if h.mode(g) == Shared {
				return &GroupError{i.Lock, g}
			}
		}
	}
	return nil
}

// consistent tells whether no lock is wanted in two modes. The error names the first that is.
func consistent(req Request) error {
	if len(req) < 2 {
		return nil
	}
	modes := make(map[Lock]uint8, len(req))
	for _, i := range req {
		modes[i.Lock] |= 1 << i.Mode
	}
	for _, i := range req {
		if modes[i.Lock] != 1<<i.Mode {
			return &InconsistentError{i.Lock}
		}
	}
	return nil
}

// covers tells whether the owner has the item already, or more, itself or through a lock that it implies. A release is
// always covered.
func (t *Table) covers(h *holder, i Item) bool {
	return h.mode(i.Lock) >= i.Mode ||
		slices.ContainsFunc(t.implied(i.Lock), func(g Lock) bool { return h.mode(g) >= i.Mode })
}

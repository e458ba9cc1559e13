package lock

import "slices"

// InconsistentError is the error for a request that wants one lock in two modes. The text's spelling is Ganeti's.
type InconsistentError struct{ Lock Lock }

func (e *InconsistentError) Error() string {
	return "Inconsitent requests for lock " + e.Lock.ganetiName()
}

// OrderError is the error for a request for a lock that precedes the greatest held lock.
type OrderError struct{ Lock, Held Lock }

func (e *OrderError) Error() string {
	return "Order violation: requesting " + e.Lock.ganetiName() + " while holding " + e.Held.ganetiName()
}

// GroupError is the error for an exclusive request for a lock whose group the owner holds shared.
type GroupError struct{ Lock, Group Lock }

func (e *GroupError) Error() string {
	return "Order violation: requesting exclusively " + e.Lock.ganetiName() + " while holding a shared lock on the group lock " +
		e.Group.ganetiName() + " it belongs to."
}

// check is the error for a request that is invalid no matter what other owners hold (locks.md 1.5, steps 1 to 3). The
// first step that fails decides.
func (t *Table) check(h *holder, req Request) error {
	if err := consistent(req); err != nil {
		return err
	}
	if len(h.held) == 0 {
		return nil
	}
	greatest := h.greatestFirst.First().lock
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

// consistent checks that no lock is wanted in two modes. The error names the first such lock.
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

// covers reports whether the owner already holds the item or a stronger one, itself or through a lock that implies it.
// A release is always covered.
func (t *Table) covers(h *holder, i Item) bool {
	return h.mode(i.Lock) >= i.Mode ||
		slices.ContainsFunc(t.implied(i.Lock), func(g Lock) bool { return h.mode(g) >= i.Mode })
}

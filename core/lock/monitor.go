package lock

import (
	"slices"

	"lockstep/core/natural"
)

// MonitorRow is one lock in the answer to Query("lock"): a lock that is held, itself or through a lock that implies
// it, or that a pending request mentions (locks.md 2.6; queue.md 2.6).
type MonitorRow struct {
	Lock    Lock
	Mode    Mode            // None, shown as null, if the lock itself is not held
	Owners  []Owner         // the owners that hold the lock itself, in owner order; shown by Owner.IdentityJSON
	Pending []MonitorWaiter // in pending order, one for each owner
}

// MonitorWaiter is an owner that waits for a lock, and the mode that it wants. The owner may wait for other locks, too.
type MonitorWaiter struct {
	Mode  Mode
	Owner Owner
}

// MonitorRows is the lock monitor, in lock order. CompareNames is the order of the query's answer.
func (s *State) MonitorRows() []MonitorRow {
	rows := map[Lock]*MonitorRow{}
	for _, l := range s.table.Locks() {
		row := &MonitorRow{Lock: l}
		for _, claim := range s.table.Owners(l) {
			row.Owners = append(row.Owners, claim.Owner)
			row.Mode = claim.Mode
		}
		rows[l] = row
	}
	for _, p := range s.Pending() {
		for l, mode := range strongest(p.Request) {
			if rows[l] == nil {
				rows[l] = &MonitorRow{Lock: l}
			}
			if mode > None {
				rows[l].Pending = append(rows[l].Pending, MonitorWaiter{mode, p.Owner})
			}
		}
	}
	all := make([]MonitorRow, 0, len(rows))
	for _, row := range rows {
		all = append(all, *row)
	}
	slices.SortFunc(all, func(a, b MonitorRow) int { return a.Lock.Compare(b.Lock) })
	return all
}

// strongest is the highest mode in which a request mentions each lock.
func strongest(req Request) map[Lock]Mode {
	modes := make(map[Lock]Mode, len(req))
	for _, i := range req {
		modes[i.Lock] = max(modes[i.Lock], i.Mode)
	}
	return modes
}

// SortMonitorRows puts rows in the order of the query's answer.
func SortMonitorRows(rows []MonitorRow) { slices.SortFunc(rows, CompareNames) }

// CompareNames orders rows as the answer to a query does: by name, in natural order.
func CompareNames(a, b MonitorRow) int { return natural.Compare(a.Lock.String(), b.Lock.String()) }

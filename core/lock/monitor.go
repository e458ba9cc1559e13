package lock

import (
	"cmp"
	"slices"
	"strings"
)

// MonitorRow is one lock in the answer to Query("lock"): a lock that is held, itself or through a lock that implies
// it, or that a pending request mentions (locks.md 2.6; queue.md 2.6).
type MonitorRow struct {
	Lock    Lock
	Mode    Mode            // None, shown as null, if the lock itself is not held
	Owners  []Owner         // who holds the lock itself, in owner order; shown by Owner.IdentityJSON
	Pending []MonitorWaiter // in pending order, one for each owner
}

// MonitorWaiter is an owner that waits for a lock, among others perhaps, and the mode it wants.
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

// CompareNames orders rows as the answer to a query does: by name, runs of digits being compared as numbers.
func CompareNames(a, b MonitorRow) int { return compareNatural(a.Lock.String(), b.Lock.String()) }

func compareNatural(a, b string) int {
	for a != "" && b != "" {
		x, y := digitRun(a), digitRun(b)
		a, b = a[len(x):], b[len(y):]
		if c := compareRuns(x, y); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(a), len(b))
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// digitRun is the longest prefix of s, which is not empty, that is all digits or has none.
func digitRun(s string) string {
	digits := isDigit(s[0])
	for i := range len(s) {
		if isDigit(s[i]) != digits {
			return s[:i]
		}
	}
	return s
}

// compareRuns puts numbers before text, and equal numbers of different lengths in the order of their text.
func compareRuns(x, y string) int {
	dx, dy := isDigit(x[0]), isDigit(y[0])
	switch {
	case dx && dy:
		n, m := strings.TrimLeft(x, "0"), strings.TrimLeft(y, "0")
		return cmp.Or(cmp.Compare(len(n), len(m)), strings.Compare(n, m), strings.Compare(x, y))
	case dx:
		return -1
	case dy:
		return 1
	default:
		return strings.Compare(x, y)
	}
}

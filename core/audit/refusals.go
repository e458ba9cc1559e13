package audit

import (
	"maps"
	"slices"
	"time"
)

// RefusalPause is the least time between two entries about refusals of a user. A client that repeats a refused call can thus not push the
// entries of others out of the log.
const RefusalPause = time.Second

// refusalUsersMax bounds the users whose refusals are counted apart. Further ones count as one user.
const refusalUsersMax = 1000

// Refusals limits the entries about refusals. The zero value has none.
type Refusals struct {
	users map[string]*refusals // by Entry.Key; those with an entry in the last RefusalPause
}

// refusals are those of one user since an entry about one.
type refusals struct {
	until   time.Time // until then no further entry
	last    Entry     // of those without an entry
	leftOut int       // without an entry
}

// Take reports whether a refusal has an entry. Otherwise it is counted, for an entry in Due.
func (r *Refusals) Take(e Entry, now time.Time) bool {
	key := e.Key
	if r.users[key] == nil && len(r.users) >= refusalUsersMax {
		key = "others"
	}
	if of := r.users[key]; of != nil {
		of.last = e
		of.leftOut++
		return false
	}
	if r.users == nil {
		r.users = map[string]*refusals{}
	}
	r.users[key] = &refusals{until: now.Add(RefusalPause)}
	return true
}

// Due are the entries of the users whose pause is over, each about the latest of the refusals that had none.
func (r *Refusals) Due(now time.Time) []Entry {
	var due []Entry
	for _, key := range slices.Sorted(maps.Keys(r.users)) {
		of := r.users[key]
		switch {
		case now.Before(of.until):
		case of.leftOut == 0:
			delete(r.users, key)
		default:
			of.last.LeftOut = of.leftOut - 1
			due = append(due, of.last)
			of.until, of.leftOut = now.Add(RefusalPause), 0
		}
	}
	return due
}

// Pending reports whether Due is to be asked again.
func (r *Refusals) Pending() bool { return len(r.users) > 0 }

package lock

import "slices"

// IsFree reports whether the lock is one of lockstep's own, which Ganeti's programs do not know.
func (l Lock) IsFree() bool { return l.level == Free }

func (i Item) isFree() bool { return i.Lock.IsFree() }

// ganetiItems is the items without free locks. The result may be the list itself.
func ganetiItems(items []Item) []Item {
	first := slices.IndexFunc(items, Item.isFree)
	if first < 0 {
		return items
	}
	return slices.DeleteFunc(slices.Clone(items), Item.isFree)
}

// namesFree reports whether the request asks for a free lock, whatever else it asks for.
func (r Request) namesFree() bool { return slices.ContainsFunc(r, Item.isFree) }

// Split separates what Ganeti's programs may see of an owner from the rest, for two journals. free has the free locks
// that the owner holds, and its pending request, whole, if that names a free lock: a part of a request could be granted
// by a program that does not know the rest.
func (r Record) Split() (ganeti, free Record) {
	ganeti, free = Record{Owner: r.Owner, Locks: ganetiItems(r.Locks)}, Record{Owner: r.Owner}
	if len(ganeti.Locks) < len(r.Locks) {
		free.Locks = slices.DeleteFunc(slices.Clone(r.Locks), func(i Item) bool { return !i.isFree() })
	}
	if r.Pending != nil && r.Pending.Request.namesFree() {
		free.Pending = r.Pending
	} else {
		ganeti.Pending = r.Pending
	}
	return ganeti, free
}

// Empty reports whether the record says that the owner neither holds nor wants anything.
func (r Record) Empty() bool { return len(r.Locks) == 0 && r.Pending == nil }

// Split is Record.Split for all owners: the content of locks.data, and that of the file of the free locks.
func (s Snapshot) Split() (ganeti, free Snapshot) {
	for _, h := range s.Holdings {
		g, f := Record{Owner: h.Owner, Locks: h.Locks}.Split()
		if len(g.Locks) > 0 {
			ganeti.Holdings = append(ganeti.Holdings, Holding{h.Owner, g.Locks})
		}
		if len(f.Locks) > 0 {
			free.Holdings = append(free.Holdings, Holding{h.Owner, f.Locks})
		}
	}
	for _, p := range s.Pending {
		if p.Request.namesFree() {
			free.Pending = append(free.Pending, p)
		} else {
			ganeti.Pending = append(ganeti.Pending, p)
		}
	}
	return ganeti, free
}

// Join puts together what Split has separated. If both parts have a pending request of one owner, the part of the free
// locks is the older one, because its journal is written last; its request is dropped.
func Join(ganeti, free Snapshot) Snapshot {
	latest := ganeti.records()
	for o, f := range free.records() {
		r := latest[o]
		r.Owner = o
		r.Locks = append(slices.Clone(r.Locks), f.Locks...)
		if r.Pending == nil {
			r.Pending = f.Pending
		}
		latest[o] = r
	}
	return snapshotOf(latest)
}

// records returns what the snapshot has of each owner, as the record that would set the owner so.
func (s Snapshot) records() map[Owner]Record {
	all := map[Owner]Record{}
	for _, h := range s.Holdings {
		all[h.Owner] = Record{Owner: h.Owner, Locks: h.Locks}
	}
	for _, p := range s.Pending {
		r := all[p.Owner]
		r.Owner, r.Pending = p.Owner, &p
		all[p.Owner] = r
	}
	return all
}

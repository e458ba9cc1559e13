package query

// LockItem is one row of the lock monitor: a lock, or a job for whose end other jobs wait.
type LockItem struct {
	Name    string
	Mode    string   // "" if the lock is not held
	Owners  []string // each is the JSON of an identity
	Pending []LockWaiters
}

// LockWaiters is an owner that wants a lock in a mode, or the jobs that wait for the same end of another job.
type LockWaiters struct {
	Mode   string
	Owners []string
}

// Locks are the fields of locks (queue.md 2.6). A filter on the name does not select rows to examine: a lock without
// owners and waiters has no row.
var Locks = newTable("", []Field[LockItem]{
	field("name", "Name", Other, "Name of the lock", func(l *LockItem) Value { return normal(l.Name) }),
	field("mode", "Mode", Other, "How the lock is held, exclusive or shared", func(l *LockItem) Value {
		if l.Mode == "" {
			return normal(nil)
		}
		return normal(l.Mode)
	}),
	field("owner", "Owner", Other, "Who holds the lock", func(l *LockItem) Value { return normal(append([]string{}, l.Owners...)) }),
	field("pending", "Pending", Other, "Who waits for the lock", func(l *LockItem) Value {
		pending := make([]any, len(l.Pending))
		for i, w := range l.Pending {
			pending[i] = []any{w.Mode, w.Owners}
		}
		return normal(pending)
	}),
})

package locks

import "lockstep/core/answer"

// ownerDocument is an owner of locks as --json prints it.
type ownerDocument struct {
	Owner    any    `json:"owner"` // a job's id, or a name
	Livelock string `json:"livelock"`
	PID      int    `json:"pid"`
}

// itemDocument is a lock and a mode as --json prints them.
type itemDocument struct {
	Lock string `json:"lock"`
	Mode string `json:"mode"`
}

// lockDocument is a lock as --json prints it.
type lockDocument struct {
	Name    string           `json:"name"`
	Mode    string           `json:"mode,omitempty"`
	Owners  []any            `json:"owners"` // ids of jobs, or names
	Pending []waiterDocument `json:"pending"`
}

type waiterDocument struct {
	Mode  string `json:"mode"`
	Owner any    `json:"owner"`
}

type waitDocument struct {
	Owner    ownerDocument   `json:"owner"`
	Priority int             `json:"priority"`
	Request  []itemDocument  `json:"request"`
	Blockers []ownerDocument `json:"blockers"`
	Seconds  float64         `json:"seconds"`
}

// stateDocument is the JSON output. No list is null, and tuples of the wire are objects.
type stateDocument struct {
	Locks []lockDocument   `json:"locks"`
	Waits []waitDocument   `json:"waits"`
	Jobs  []answer.JobWait `json:"jobs"`
}

func (s lockState) document() stateDocument {
	d := stateDocument{Locks: []lockDocument{}, Waits: []waitDocument{}, Jobs: []answer.JobWait{}}
	for _, row := range s.Locks {
		one := lockDocument{Name: row.Name, Mode: row.Mode, Owners: []any{}, Pending: []waiterDocument{}}
		for _, owner := range row.Owners {
			one.Owners = append(one.Owners, principalDocument(holderOf(owner)))
		}
		for _, waiter := range row.Pending {
			one.Pending = append(one.Pending, waiterDocument{waiter.Mode, principalDocument(holderOf(waiter.Owner))})
		}
		d.Locks = append(d.Locks, one)
	}
	for _, wait := range s.Waits {
		one := waitDocument{Owner: ownerDocumentOf(wait.Owner), Priority: wait.Priority, Request: []itemDocument{},
			Blockers: []ownerDocument{}, Seconds: wait.Seconds}
		for _, item := range wait.Request {
			one.Request = append(one.Request, itemDocument{item.Lock, item.Mode})
		}
		for _, blocker := range wait.Blockers {
			one.Blockers = append(one.Blockers, ownerDocumentOf(blocker))
		}
		d.Waits = append(d.Waits, one)
	}
	for _, wait := range s.Jobs {
		one := answer.JobWait{ID: wait.ID, On: []answer.AwaitedJob{}}
		for _, on := range wait.On {
			one.On = append(one.On, answer.AwaitedJob{ID: on.ID, Statuses: append([]string{}, on.Statuses...), Process: on.Process})
		}
		d.Jobs = append(d.Jobs, one)
	}
	return d
}

func ownerDocumentOf(o answer.LockOwner) ownerDocument {
	return ownerDocument{principalDocument(o.Who), o.Livelock, o.PID}
}

func principalDocument(p answer.Principal) any {
	if p.Named {
		return p.Name
	}
	return p.Job
}

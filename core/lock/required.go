package lock

// RequiredLocks is what an opcode must hold to run: all of Request, and at least Count of AnyOf, as many as are free.
// AnyOf is of one level, at which Request has no lock; both are in lock order.
type RequiredLocks struct {
	Request Request `json:"locks,omitempty"`
	AnyOf   []Item  `json:"any_of,omitempty"`
	Count   int     `json:"count,omitempty"`
}

// NotEmpty reports whether the opcode needs any lock.
func (n RequiredLocks) NotEmpty() bool { return len(n.Request)+len(n.AnyOf) > 0 }

package locks

import (
	"encoding/json"
	"fmt"

	"lockstep/core/lock"
	"lockstep/messages"
)

// The messages of this file are plain Go: core/lock has the types of what they carry. Nothing changes a message, or
// what it points to, once it is sent.

// Call asks the lock manager for one operation. It may come twice (locks.md 2.1).
type Call struct {
	Request   uint64
	Operation Operation
}

// CallResult is the answer. It leaves only after all that it says is written. Value is what the operation says of it,
// nil where there is a failure.
type CallResult struct {
	Request uint64
	Value   any
	Failure *messages.Failure
}

// Operation is what a Call asks for: Apply, Cleanup, Await, PassBGL, ListRows, ListWaits or GetStatus.
type Operation interface{ operation() }

type (
	// Apply is a function of Ganeti's protocol that the state of locks answers. Value: the call's result.
	Apply struct{ Call lock.Call }
	// Cleanup finds dead owners now. Value: an empty list.
	Cleanup struct{}
	// Await is updateLocksWaiting for clients that wait on their connection. Value: an AwaitResult. It comes when the
	// request is granted, withdrawn by somebody else, or after so many seconds. The request goes on waiting then,
	// until it is repeated or freed.
	Await struct {
		Pending lock.Pending
		Seconds float64
	}
	// PassBGL passes the big lock from an owner to the daemon, for good (prepareClusterDestruction of locks.md 2.3).
	// Value: an empty list.
	PassBGL struct{ From lock.Owner }
	// ListRows asks for the lock monitor. Value: []answer.Lock.
	ListRows struct{}
	// ListWaits asks who waits for whom. Value: []answer.LockWait.
	ListWaits struct{}
	// GetStatus is answered at once, whatever the state. Value: a ManagerStatus.
	GetStatus struct{}
)

func (Apply) operation()     {}
func (Cleanup) operation()   {}
func (Await) operation()     {}
func (PassBGL) operation()   {}
func (ListRows) operation()  {}
func (ListWaits) operation() {}
func (GetStatus) operation() {}

// AwaitFunction is the name of Await on the wire: [identity, priority, request, seconds].
const AwaitFunction = "lockstepAwaitLocks"

// Parse is the operation that a client calls by a function's name. Errors are about the arguments, or
// lock.ErrNoFunction.
func Parse(function string, args []json.RawMessage) (Operation, error) {
	switch function {
	case "cleanupLocks":
		return Cleanup{}, lock.Arguments(args)
	case AwaitFunction:
		var a Await
		var err error
		a.Pending, err = lock.PendingArguments(args, &a.Seconds)
		return a, err
	}
	c, err := lock.ParseCall(function, args)
	return Apply{c}, err
}

// Published has the records of owners whose locks or requests are different now. Complete: there are no other owners.
// Incarnation is that of messages.LocksStarted.
type Published struct {
	Records     []lock.Record
	Complete    bool
	Incarnation uint64
}

// Encode is a value as clients are sent it. It escapes the characters <, > and &.
func Encode(value any) json.RawMessage {
	encoded, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Errorf("the answer to a call cannot be encoded: %w", err))
	}
	return encoded
}

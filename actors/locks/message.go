package locks

import (
	"encoding/json"
	"fmt"
	"time"

	"lockstep/core/lock"
	"lockstep/messages"
)

// These messages are plain Go, because core/lock has the types of their content. A message,
// and what it points to, never changes once sent.

// Operate asks the lock manager for one operation. A client may send it twice (locks.md 2.1).
type Operate struct {
	Request   uint64
	Operation Operation
}

// OperateResult answers an Operate. It leaves after everything it says is on the disk. Value is
// the result of the operation, nil with a failure.
type OperateResult struct {
	Request uint64
	Value   any
	Failure *messages.Failure
}

// GetRequest is the number of the call.
func (r *OperateResult) GetRequest() uint64 { return r.Request }

// GetFailure is the error of the call, nil if it succeeded.
func (r *OperateResult) GetFailure() *messages.Failure { return r.Failure }

// Operation is what an Operate asks for: Apply, Cleanup, Await, AwaitUnion, PassBGL, ListRows, ListWaits, ListHeld or GetStatus.
type Operation interface{ operation() }

type (
	// Apply executes one of Ganeti's functions about locks, such as updateLocks, on the state. Value: the function's result.
	Apply struct{ Call lock.Call }
	// Cleanup makes the lock manager look for owners whose processes have died, and free their locks. Value: an empty list.
	Cleanup struct{}
	// Await is updateLocksWaiting for a client that waits on its connection. The answer
	// comes when the request is granted, withdrawn, or its seconds have passed. After that
	// the request still waits, until it is repeated or freed. Value: an AwaitResult.
	Await struct {
		Pending lock.Pending
		Seconds float64
	}
	// AwaitUnion is guardedOpportunisticLockUnion for a client that waits on its connection: the owner gets as many of Items as are free, as
	// soon as it has at least Count. The answer comes then, or when the wait is withdrawn, or when its seconds have passed. After
	// that the owner waits no longer. Value: an AwaitResult.
	AwaitUnion struct {
		Owner   lock.Owner
		Count   int
		Items   []lock.Item
		Seconds float64
	}
	// PassBGL passes the big lock from an owner to the daemon, until the daemon ends
	// (prepareClusterDestruction of locks.md 2.3). Value: an empty list.
	PassBGL struct{ From lock.Owner }
	// ListRows asks for the lock monitor, with free locks. Value: []answer.Lock.
	ListRows struct{}
	// ListWaits asks which owner waits for which other. Value: []answer.LockWait.
	ListWaits struct{}
	// ListHeld asks for the locks of an owner, or, without an owner, of the owners whose process has this pid. Value: []lock.Item.
	ListHeld struct {
		Owner lock.Owner
		PID   int
	}
	// GetStatus asks for the ManagerStatus. It is answered at once, also while the lock manager still reads its files.
	GetStatus struct{}
)

func (Apply) operation()      {}
func (Cleanup) operation()    {}
func (Await) operation()      {}
func (AwaitUnion) operation() {}
func (PassBGL) operation()    {}
func (ListRows) operation()   {}
func (ListWaits) operation()  {}
func (ListHeld) operation()   {}
func (GetStatus) operation()  {}

// AwaitFunction is the name of Await on the wire. Its arguments are [identity, priority,
// request, seconds].
const AwaitFunction = "lockstepAwaitLocks"

// AwaitUnionFunction is the name of AwaitUnion on the wire. Its arguments are [count, identity, items, seconds].
const AwaitUnionFunction = "lockstepAwaitUnion"

// Parse returns the operation of a function's name and arguments. Its errors concern the
// arguments, or are lock.ErrNoFunction.
func Parse(function string, args []json.RawMessage) (Operation, error) {
	switch function {
	case "cleanupLocks":
		return Cleanup{}, lock.Arguments(args)
	case AwaitFunction:
		var a Await
		var err error
		a.Pending, err = lock.PendingArguments(args, &a.Seconds)
		return a, err
	case AwaitUnionFunction:
		var a AwaitUnion
		var err error
		a.Owner, a.Count, a.Items, err = lock.ChoiceArguments(args, &a.Seconds)
		return a, err
	}
	c, err := lock.ParseCall(function, args)
	return Apply{c}, err
}

// PublishOwners asks for OwnersPublished with all owners. Later changes come to Config.Subscribers only.
type PublishOwners struct{}

// OwnersPublished has the records of owners whose locks or requests have changed. Complete: there
// are no other owners. Withheld are those of Records whose requests are pending because their jobs
// are paused. Dead are owners of which a process was found dead. Incarnation is that of
// messages.LocksStarted.
type OwnersPublished struct {
	Records     []lock.Record
	Withheld    []Withheld
	Dead        []lock.Owner
	Complete    bool
	Incarnation uint64
}

// Withheld is an owner whose request is withheld, with the number of messages.SetLockPause.
type Withheld struct {
	Owner lock.Owner
	Pause uint64
}

// PublishConfigLocks asks the lock manager to send ConfigLocks to the configuration's actor, as soon as it has read its files.
type PublishConfigLocks struct{}

// ConfigLocks has the holders of the locks that the configuration's actor must know: the configuration lock, and the big lock
// if an owner holds it exclusively. That actor gets it when the lock manager has read its files, after PublishConfigLocks, and at
// each change of the holders, before the client whose call made the change gets its answer. A change that cannot be written is
// taken back by another ConfigLocks.
type ConfigLocks struct {
	Config map[lock.Owner]lock.Mode
	BGL    lock.Owner // zero: no owner holds the big lock exclusively
}

// SetBypassLimit sets how long later requests may overtake a request for locks; 0 means for ever.
type SetBypassLimit struct{ Limit time.Duration }

// Encode returns a value as JSON for clients, with <, > and & escaped.
func Encode(value any) json.RawMessage {
	encoded, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Errorf("the answer to a call cannot be encoded: %w", err))
	}
	return encoded
}

// Package calls implements the WConfD calls about the configuration and the reservations (config.md 4). A call takes a State and
// an Env and returns a new State and an Outcome. A failed call does not change the State. Pure: time, randomness and lock
// states are part of Env, so that applying a call again gives the same result.
package calls

import (
	"encoding/json"
	"errors"

	"lockstep/core/config/model"
	"lockstep/core/config/ownrules"
	"lockstep/core/config/reserve"
	"lockstep/core/config/verify"
	"lockstep/core/lock"
)

// State is what calls of WConfD read and change: the configuration, the reservations and what is derived from them. It is immutable.
type State struct {
	Config   *model.Config
	Reserved reserve.State
	Findings verify.Findings // what is wrong with Config
	// ConcurrentChanges are changes of address pools that were committed while a client held the configuration lock. The client
	// has read an older configuration; the changes are applied to what it writes (config.md 12.12).
	ConcurrentChanges []PoolChange
	// Rules are lockstep's own filter rules. No call of WConfD sees them.
	Rules ownrules.Rules
}

// NewState returns the initial state for a configuration and reservations.
func NewState(c *model.Config, r reserve.State) State {
	return State{Config: c, Reserved: r, Findings: verify.Of(c)}
}

// Env is what a call depends on beside the State: the time, the caller, and the locks that are held.
type Env struct {
	Now    model.Time
	Caller reserve.Caller         // the process at the other end of the socket
	Random func(count int) []byte // for generateMAC and generateDRBDSecret
	Locks  Locks
}

// Locks says who holds the locks that calls of WConfD depend on: the configuration lock and the big lock.
type Locks struct {
	Held    bool      // a client holds cluster/config in any mode
	Mode    lock.Mode // in which the client of the call holds it
	Granted bool      // the client of lockConfig holds it now
	BGL     BGL
}

// BGL is the exclusive holder of the lock cluster/BGL.
type BGL int

// The holders of cluster/BGL that calls distinguish.
const (
	BGLOther  BGL = iota // any other case
	BGLClient            // the client of the call
	BGLDaemon            // the daemon, after prepareClusterDestruction
)

// Outcome is the result of a call and its side effects. The State is returned separately.
type Outcome struct {
	Result []byte // JSON; nil if IsConfig
	Err    *Error // in place of a result
	// IsConfig: the result is State.Config. The caller encodes it once per serial number.
	IsConfig bool
	Busy     bool // the answer is that a client holds the configuration lock

	Touched []model.Touched // the objects that have changed
	Changed bool            // the configuration changed; it must be durable before the answer
	Await   bool            // the answer waits for distribution (config.md 8.2)
	// ReservedChanged: the reservations changed. They must be durable before the answer.
	ReservedChanged bool

	Unlock     *lock.Owner // free its configuration lock after the change is durable
	PassBGL    *lock.Owner // its cluster/BGL passes to the daemon
	Flush      bool        // write and distribute, then answer
	FlushGroup string      // only to the nodes of this group; "" for all
}

// Error is the error that the client of a call gets: it raises the exception named by Class (locks.md 2.1).
type Error struct {
	Class   string
	Text    string
	Details []string // of a ConfigVerifyError
}

func (e *Error) Error() string { return e.Class + ": " + e.Text }

// Args returns the arguments of the exception: the text, and the details if there are any.
func (e *Error) Args() []any {
	if e.Details != nil {
		return []any{e.Text, e.Details}
	}
	return []any{e.Text}
}

func failure(class, text string) *Error { return &Error{Class: class, Text: text} }

func configuration(text string) *Error { return failure("ConfigurationError", text) }
func reservation(text string) *Error   { return failure("ReservationError", text) }
func generic(text string) *Error       { return failure("GenericError", text) }

// Call is one call of WConfD that Parse has accepted, with its arguments decoded.
type Call struct {
	Method string
	Owner  lock.Owner // the client that the call names; the zero Owner if it names none
	spec   spec
	do     step
}

// step executes a call. The error is an *Error or an error that asError converts.
type step func(t *tx) (result []byte, err error)

// spec describes a call. A call with busy takes the configuration lock in the name of the daemon while it executes, and answers
// busy if a client holds the lock (config.md 3).
type spec struct {
	parse func(a *arguments) step
	busy  string
}

// ErrNoCall reports a method that this package does not implement.
var ErrNoCall = errors.New("no such call")

// Parse decodes the arguments of a call and returns the call, which Apply executes. The error is ErrNoCall for an unknown method, else an
// *Error about an argument.
func Parse(method string, args []json.RawMessage) (Call, error) {
	s, known := specs[method]
	if !known {
		return Call{}, ErrNoCall
	}
	a := &arguments{values: args}
	for _, v := range args {
		if err := model.CheckUTF8(v); err != nil {
			a.fail(err)
		}
	}
	do := s.parse(a)
	if a.err != nil {
		return Call{}, generic("RPC input: " + a.err.Error())
	}
	return Call{method, a.client, s, do}, nil
}

// TakesLock reports whether the call takes the configuration lock while it executes.
func (c Call) TakesLock() bool { return c.spec.busy != "" }

// reads are the calls that change nothing in any state.
var reads = map[string]bool{
	"readConfig":         true,
	"verifyConfig":       true,
	"computeDRBDMap":     true,
	"listReservedIps":    true,
	"lockstepConfigHash": true,
}

// OnlyReads reports whether the call changes nothing and depends on no lock.
func (c Call) OnlyReads() bool { return reads[c.Method] }

// Own returns a change of lockstep's own as a call that takes the configuration lock. method names it in the history. change returns its
// own rules after the change. An error of change is a GenericError.
func Own(method string, change func(e *model.Edit, r ownrules.Rules, now model.Time) (ownrules.Rules, error)) Call {
	return Call{Method: method, spec: spec{busy: busyFalse}, do: func(t *tx) (_ []byte, err error) {
		t.Rules, err = change(t.edit, t.Rules, t.env.Now)
		return yes, err
	}}
}

// DropDead returns the release of the reservations of dead callers as a call. DRBD minors of disks in the configuration stay
// (config.md 12.6).
func DropDead(isDead func(reserve.Caller) bool) Call {
	return Call{Method: "lockstepDropReservations", do: func(t *tx) ([]byte, error) {
		t.Reserved = t.Reserved.DropDead(isDead, t.config().Disks.Has)
		return void, nil
	}}
}

// tx is one call while it is executed: the state before it, the changes so far, and the outcome for the client.
type tx struct {
	State
	env  Env
	edit *model.Edit
	out  Outcome
}

// config returns the configuration with the changes so far.
func (t *tx) config() *model.Config { return t.edit.Config() }

// Apply executes the call. After an error or a busy answer the returned State equals s.
func (c Call) Apply(s State, env Env) (State, Outcome) {
	if c.TakesLock() && env.Locks.Held {
		return s, Outcome{Result: []byte(c.spec.busy), Busy: true}
	}
	t := &tx{State: s, env: env, edit: s.Config.Edit()}
	result, err := c.do(t)
	if err != nil {
		return s, Outcome{Err: asError(err)}
	}
	t.out.Result = result
	t.Config, t.out.Touched = t.edit.Commit(env.Now)
	if t.out.Changed = t.Config != s.Config; t.out.Changed {
		t.Findings = s.Findings.After(s.Config, t.Config, t.out.Touched)
		t.out.Await = awaits(s.Config, t.Config, t.out.Touched)
	}
	t.out.ReservedChanged = t.Reserved != s.Reserved
	return t.State, t.out
}

func asError(err error) *Error {
	var e *Error
	var duplicate *reserve.DuplicateError
	switch {
	case errors.As(err, &e):
		return e
	case errors.As(err, &duplicate):
		return reservation(duplicate.Error())
	default:
		return generic(err.Error())
	}
}

// Constant results.
var (
	void = []byte("[]") // clients insist on it
	yes  = []byte("true")
	no   = []byte("false")
	null = []byte("null")
)

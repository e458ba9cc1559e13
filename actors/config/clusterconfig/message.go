package clusterconfig

import (
	"encoding/json"

	"lockstep/core/config"
	"lockstep/core/config/calls"
	"lockstep/core/config/model"
	"lockstep/core/config/ownrules"
	"lockstep/core/config/reserve"
	"lockstep/core/lock"
	"lockstep/messages"
)

// These messages are plain Go, because core/config has the types of their content. A message, and what it points to, never
// changes once sent.

// ConfigPublished has the configuration in force, the filter rules that config.data cannot have, and lockstep's settings, the content of
// settings.json. Subscribers get it when the
// actor has started and after each change that is on the disk. The sender of messages.PublishConfig gets it with the number of
// its request. SetAside are the paths of damaged contents of settings.json in the quarantine.
type ConfigPublished struct {
	Request  uint64
	Config   *model.Config
	Rules    ownrules.Rules
	Settings []byte
	SetAside []string
}

// FilterRules are all filter rules, by uuid.
func (p *ConfigPublished) FilterRules() map[string]json.RawMessage {
	return config.FilterRules(p.Config, p.Rules)
}

// GetRequest is the number of the request, 0 for subscribers.
func (p *ConfigPublished) GetRequest() uint64 { return p.Request }

// Call asks the actor to execute one call of WConfD about the configuration or the reservations. Caller is the process at the other end
// of the socket. A client may send a call twice (config.md 4.7).
type Call struct {
	Request uint64
	Call    calls.Call
	Caller  reserve.Caller
}

// CallResult answers a Call, after everything that the answer says is on the disk. It has either an error, or a configuration, or another
// result as JSON.
type CallResult struct {
	Request  uint64
	Result   []byte
	Snapshot *calls.Snapshot
	Error    *calls.Error
}

// GetRequest is the number of the call.
func (r *CallResult) GetRequest() uint64 { return r.Request }

// ResolveForeign ends the state in which another program has changed config.data and all changes fail: the content of that program
// becomes the configuration, or is replaced by the configuration in force.
type ResolveForeign struct {
	Request uint64
	Adopt   bool
}

// ResolveForeignResult answers ResolveForeign when the configuration is in force, with its serial number. Foreign: another program
// had changed config.data.
type ResolveForeignResult struct {
	Request uint64
	Foreign bool
	Serial  int64
	Failure *messages.Failure
}

// GetRequest is the number of the request.
func (r *ResolveForeignResult) GetRequest() uint64 { return r.Request }

// GetFailure is the error, nil if there is none.
func (r *ResolveForeignResult) GetFailure() *messages.Failure { return r.Failure }

// CheckForeign asks whether another program has changed config.data, so that all changes fail.
type CheckForeign struct{ Request uint64 }

// CheckForeignResult answers CheckForeign. Foreign is the error that every change gets because another program has changed config.data;
// nil if changes can be made.
type CheckForeignResult struct {
	Request uint64
	Foreign *messages.Failure
	Failure *messages.Failure // config.data cannot be examined
}

// GetRequest is the number of the request.
func (r *CheckForeignResult) GetRequest() uint64 { return r.Request }

// Identified tells the actor to which owner of locks a process belongs. It is sent for calls to the lock manager, whose senders may make
// calls without identity.
type Identified struct {
	PID   int
	Owner lock.Owner
}

// CallerDied reports that a process that the actor has watched has ended.
type CallerDied struct{ Caller reserve.Caller }

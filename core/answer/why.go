package answer

import (
	"encoding/json"
	"fmt"
	"slices"
)

// Why answers LockstepWhy: why a job does not run, or its current state.
type Why struct {
	Archived bool   `json:"archived"`
	ID       int64  `json:"id"`
	Name     string `json:"name,omitempty"` // empty: none
	// Progress is that of the command of the running opcode; nil: it has said nothing.
	Progress *Progress `json:"progress,omitempty"`
	Reasons  []Reason  `json:"reasons"`
	// Schedule is the due time of the schedule that has submitted the job; nil: none has.
	Schedule *DueTime `json:"schedule,omitempty"`
	Status   string   `json:"status"`
	Summary  []string `json:"summary"`
}

// The kinds of reasons.
const (
	WhyDependency  = "dependency"   // it waits for the end of another job
	WhyHold        = "hold"         // an operator holds it
	WhyDue         = "due"          // it starts at a time, which has not come
	WhyFilter      = "filter"       // a filter rule pauses or rejects it
	WhyFilterLimit = "filter-limit" // a filter rule limits how many such jobs run
	WhyRateLimit   = "rate-limit"   // its reason trail limits how many such jobs run
	WhySlots       = "slots"        // no run slot is free
	WhyOrder       = "order"        // other jobs come first
	WhyLock        = "lock"         // other owners hold locks that it waits for
	WhyStarting    = "starting"     // its process is being started
	WhyCannotStart = "cannot-start" // no job process can be started
	WhyCannotWrite = "cannot-write" // its file cannot be written
	WhyReader      = "reader"       // its output waits for the client that follows it
	WhyStopping    = "stopping"     // the daemon is stopping
	WhyCycle       = "cycle"        // it and other jobs wait for each other, and none of them ends
	WhyRunning     = "running"      // it runs
	WhyEnded       = "ended"        // it has ended
)

func whyKinds() []string {
	return []string{WhyDependency, WhyHold, WhyDue, WhyFilter, WhyFilterLimit, WhyRateLimit, WhySlots, WhyOrder, WhyLock,
		WhyStarting, WhyCannotStart, WhyCannotWrite, WhyReader, WhyStopping, WhyCycle, WhyRunning, WhyEnded}
}

// Reason is one reason. Its kind says which fields it has, see MarshalJSON.
type Reason struct {
	Kind string `json:"kind"`

	Opcode    int      `json:"opcode"` // from 0
	Opcodes   int      `json:"opcodes"`
	Job       int64    `json:"job"`
	JobStatus *string  `json:"job_status"` // nil: not looked up; empty: not known
	Statuses  []string `json:"statuses"`
	Unknown   bool     `json:"unknown"` // to the node that is the master
	// Former: the other job is one of a former due time of the schedule of this one, which waits for its end because of the overlap.
	Former bool `json:"former_of_schedule"`

	UUID       string `json:"uuid"`
	Action     string `json:"action"`
	RuleReason string `json:"reason"` // for which the rule was made
	// By made the rule, or holds the job, or cannot write: ByProcess or ByDaemon. Of WhyCannotStart it is the user as whom the job
	// cannot start; empty: no job can. Empty otherwise: not known.
	By string `json:"by"`

	Label   string `json:"label"`
	Limit   int64  `json:"limit"`
	Running int64  `json:"running"`
	Slots   int64  `json:"slots"`

	Position     int64   `json:"position"`
	AtLeast      bool    `json:"at_least"` // the position is a minimum
	Pending      int64   `json:"pending"`
	Predictive   bool    `json:"predictive"`
	Weight       float64 `json:"weight"`
	StaticWeight float64 `json:"static_weight"`
	AgeTicks     int64   `json:"age_ticks"`
	BigLock      bool    `json:"big_lock"`
	Causes       []Cause `json:"causes"`
	// In the order expected; absent without. BlockedBy are the first owners whose locks the job waits for, and OtherBlockers
	// is the number of the others.
	BlockedBy     []LockBlocker `json:"blocked_by"`
	OtherBlockers int64         `json:"other_blockers"`
	Reserves      bool          `json:"reserves"`
	ReservedBy    int64         `json:"reserved_by"`
	// ReservationsBefore is how many reservations other jobs have for locks that it wants. NothingPromised: more urgent jobs
	// wait, and while such ones come, nothing is promised.
	ReservationsBefore int64 `json:"reservations_before"`
	NothingPromised    bool  `json:"nothing_promised"`

	Locks    []LockItem `json:"locks"`
	Seconds  float64    `json:"seconds"`
	Blockers []Blocker  `json:"blockers"`

	// Steps are the waits of a cycle, from job to job. With Slots they lead from a job with a run slot to one without.
	Steps []WaitStep `json:"steps"`

	Due *Time `json:"due_ts"` // when it may start
	Try *Try  `json:"try"`    // that begins then; nil: none, or it is not tried again

	Result string `json:"result"`   // end of the job in words; empty: see ListedJob
	Since  *Time  `json:"since_ts"` // nil or zero: not known
	Text   string `json:"text"`

	// Raw is the decoded JSON, for kinds that this version does not know.
	Raw json.RawMessage `json:"-"`
}

// Cause is an owner of locks that increases a job's weight, so that other jobs of its priority go first.
type Cause struct {
	Job    int64   `json:"job"`
	Owner  string  `json:"owner"` // the name of a client; empty for a job
	Lock   string  `json:"lock"`  // empty if the cause is not a single lock
	Value  float64 `json:"value"`
	Level  string  `json:"level"`
	How    string  `json:"how"`
	Others int     `json:"others"` // number of further owners with the same effect
}

// MarshalJSON writes the name of the owner if there is one, else the id of the job. It leaves out an empty lock.
func (c Cause) MarshalJSON() ([]byte, error) {
	keys := map[string]any{"value": c.Value, "level": c.Level, "how": c.How, "others": c.Others}
	if c.Owner != "" {
		keys["owner"] = c.Owner
	} else {
		keys["job"] = c.Job
	}
	if c.Lock != "" {
		keys["lock"] = c.Lock
	}
	return encode(keys)
}

// LockBlocker is an owner that has to leave locks before a job can start.
type LockBlocker struct {
	Job   int64    `json:"job"`
	Owner string   `json:"owner"` // the name of a client; empty for a job
	Locks []string `json:"locks"` // that the job wants, the first ones
	// OtherLocks is the number of the others.
	OtherLocks int64 `json:"other_locks"`
	// Holds: the owner has the first lock. Otherwise it gets the lock before the job.
	Holds bool `json:"holds"`
}

// MarshalJSON writes the name of the owner if there is one, else the id of the job. It leaves out other_locks if there are none.
func (b LockBlocker) MarshalJSON() ([]byte, error) {
	keys := map[string]any{"locks": b.Locks, "holds": b.Holds}
	if b.Owner != "" {
		keys["owner"] = b.Owner
	} else {
		keys["job"] = b.Job
	}
	if b.OtherLocks > 0 {
		keys["other_locks"] = b.OtherLocks
	}
	return encode(keys)
}

// Blocker is an owner of locks that a job waits for.
type Blocker struct {
	Job   int64    `json:"job"`
	Owner string   `json:"owner"` // the name of a client; empty for a job
	Since Time     `json:"since_ts"`
	Locks []string `json:"locks"`
}

// MarshalJSON writes the owner and the locks; for a job, whose owner is empty, also its id and the time since when.
func (b Blocker) MarshalJSON() ([]byte, error) {
	keys := map[string]any{"owner": b.Owner, "locks": b.Locks}
	if b.Owner == "" {
		keys["job"], keys["since_ts"] = b.Job, b.Since
	}
	return encode(keys)
}

// WaitStep is a wait of a job for another.
type WaitStep struct {
	Job  int64  `json:"job"`
	For  int64  `json:"for"` // 0: a job that is not submitted yet; so is Job
	By   string `json:"by"`  // WaitProcess, WaitDependency or WaitLock
	Lock string `json:"lock,omitempty"`
}

// The causes of a WaitStep.
const (
	WaitProcess    = "process"    // a process of the job waits for the end of the other
	WaitDependency = "dependency" // an opcode of the job depends on the other
	WaitLock       = "lock"       // an opcode of the job needs a lock that the other has
)

// MarshalJSON writes the fields of the reason's kind.
func (r Reason) MarshalJSON() ([]byte, error) {
	keys := map[string]any{"kind": r.Kind}
	switch r.Kind {
	case WhyDependency:
		keys["opcode"], keys["job"], keys["statuses"] = r.Opcode, r.Job, r.Statuses
		if r.Unknown {
			keys["unknown"] = true
		}
		if r.Former {
			keys["former_of_schedule"] = true
		}
		if r.JobStatus != nil {
			keys["job_status"] = *r.JobStatus
		}
	case WhyHold:
		r.addMaker(keys)
	case WhyDue:
		keys["due_ts"] = r.Due
		if r.Try != nil {
			keys["try"] = r.Try
		}
	case WhyFilter:
		keys["uuid"], keys["action"], keys["reason"] = r.UUID, r.Action, r.RuleReason
		r.addMaker(keys)
	case WhyFilterLimit:
		keys["uuid"], keys["limit"], keys["running"], keys["reason"] = r.UUID, r.Limit, r.Running, r.RuleReason
		r.addMaker(keys)
	case WhyRateLimit:
		keys["label"], keys["limit"], keys["running"] = r.Label, r.Limit, r.Running
	case WhySlots:
		keys["slots"], keys["running"] = r.Slots, r.Running
	case WhyOrder:
		r.addOrder(keys)
	case WhyLock:
		keys["locks"], keys["seconds"], keys["blockers"] = r.Locks, r.Seconds, r.Blockers
	case WhyCycle:
		keys["steps"] = r.Steps
		if r.Slots > 0 {
			keys["slots"] = r.Slots
		}
	case WhyCannotStart:
		keys["text"] = r.Text
		if r.By != "" {
			keys["by"] = r.By
		}
	case WhyCannotWrite:
		keys["by"], keys["text"], keys["since_ts"] = r.By, r.Text, r.Since
	case WhyReader:
		keys["since_ts"] = r.Since
	case WhyRunning:
		keys["opcode"], keys["opcodes"] = r.Opcode, r.Opcodes
		if r.Since != nil {
			keys["since_ts"] = *r.Since
		}
	case WhyEnded:
		keys["since_ts"] = r.Since
		if r.Result != "" {
			keys["result"] = r.Result
		}
	}
	return encode(keys)
}

func (r Reason) addMaker(keys map[string]any) {
	if r.By != "" {
		keys["by"] = r.By
	}
}

func (r Reason) addOrder(keys map[string]any) {
	keys["position"], keys["pending"], keys["predictive"] = r.Position, r.Pending, r.Predictive
	if r.AtLeast {
		keys["at_least"] = true
	}
	if len(r.BlockedBy) > 0 {
		keys["blocked_by"] = r.BlockedBy
	}
	if r.OtherBlockers > 0 {
		keys["other_blockers"] = r.OtherBlockers
	}
	if r.Reserves {
		keys["reserves"] = true
	}
	if r.ReservedBy != 0 {
		keys["reserved_by"] = r.ReservedBy
	}
	if r.ReservationsBefore > 0 {
		keys["reservations_before"] = r.ReservationsBefore
	}
	if r.NothingPromised {
		keys["nothing_promised"] = true
	}
	if r.Predictive {
		keys["weight"], keys["static_weight"], keys["age_ticks"] = r.Weight, r.StaticWeight, r.AgeTicks
		keys["big_lock"], keys["causes"] = r.BigLock, r.Causes
	}
}

// UnmarshalJSON reads a reason. For an unknown kind whose fields do not decode, only Kind and Raw are set.
func (r *Reason) UnmarshalJSON(data []byte) error {
	type plain Reason // without this method
	decoded := plain{}
	if err := json.Unmarshal(data, &decoded); err != nil {
		var kind struct {
			Kind string `json:"kind"`
		}
		if known := json.Unmarshal(data, &kind); known != nil || slices.Contains(whyKinds(), kind.Kind) {
			return fmt.Errorf("decode a reason: %w", err)
		}
		decoded = plain{Kind: kind.Kind}
	}
	*r = Reason(decoded)
	r.Raw = slices.Clone(data)
	return nil
}

// PendingReason is a short text why a job does not run yet: [id, text] on the wire, empty if nothing blocks the job.
// LockstepPending is answered with a list of them.
type PendingReason struct {
	ID   int64
	Text string
}

// MarshalJSON writes [id, text].
func (p PendingReason) MarshalJSON() ([]byte, error) { return encode([2]any{p.ID, p.Text}) }

// UnmarshalJSON reads [id, text].
func (p *PendingReason) UnmarshalJSON(data []byte) error {
	return readParts(data, "the reason of a pending job is not [id, text]", &p.ID, &p.Text)
}

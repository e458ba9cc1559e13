package audit

import (
	"time"

	coreaudit "lockstep/core/audit"
	"lockstep/messages"
)

// Started is sent to the clients when the actor has started. Requests without an answer are lost, and are sent again.
type Started struct{}

// Record asks for an entry, whose number and time the actor sets. Recorded answers it when the entry is durable. An entry about a refusal
// may be left out, see coreaudit.Refusals. Required: what the entry says is not done without the entry. An entry that is not required is
// kept after a failed write, and written as soon as it can be.
type Record struct {
	Request  uint64
	Entry    coreaudit.Entry
	Required bool
}

// Recorded answers a Record.
type Recorded struct {
	Request uint64
	Failure *messages.Failure // nil: the entry is durable, or is left out
}

// GetRequest is the number of the request.
func (r *Recorded) GetRequest() uint64 { return r.Request }

// Look asks for the files of the log. LookResult answers it at once, or with Until when there is an entry with a higher number than After,
// but not later than that time, from which on the sender does not want the answer.
type Look struct {
	Request uint64
	After   uint64
	Until   time.Time
}

// LookResult answers a Look.
type LookResult struct {
	Request uint64
	Files   []uint64 // first numbers of the files that exist, in order
	Last    uint64   // number of the newest entry that is durable; 0: there is none
	// Failure is why entries cannot be written since Since; nil: they can.
	Failure *messages.Failure
	Since   time.Time
}

// GetRequest is the number of the request.
func (r *LookResult) GetRequest() uint64 { return r.Request }

// Messages of the actor to itself.
type (
	// readAgain: the log could not be read.
	readAgain struct{ incarnation uint32 }
	// askAgain: the question whether all members know the log has had no answer for some time.
	askAgain struct {
		incarnation uint32
		question    uint64
	}
	// writeAgain: entries that are kept could not be written.
	writeAgain struct{ incarnation uint32 }
	// pauseOver: the pause after refusals of some user is over.
	pauseOver struct{ incarnation uint32 }
)

package calendar

import (
	"time"

	"lockstep/core/access"
	"lockstep/core/answer"
	"lockstep/core/schedule"
	"lockstep/messages"
)

type (
	// Change asks for a change of a schedule. ChangeResult answers it. One of Put and Order is set.
	Change struct {
		Request uint64
		Name    string
		Put     *Put
		Order   Order
		UntilUs int64 // of Pause; 0: until it is resumed
		By      string
		// OnlyOf is the key of the user whose schedules alone may be changed (access.Policy.OnlyOf); empty: all may.
		OnlyOf string
	}
	// Put adds a schedule, or gives it another definition.
	Put struct {
		Definition schedule.Definition // checked
		Owner      access.Identity     // to whom the jobs belong
		Maker      string              // who defines it, in words
		Replace    bool                // a schedule of that name may exist
	}
	// ChangeResult answers a Change. Jobs are those of Run.
	ChangeResult struct {
		Request uint64
		Changed bool
		Jobs    []int64
		Failure *messages.Failure
	}
	// List asks for schedules. ListResult answers it.
	List struct {
		Request uint64
		Name    string // empty: all
		// A page of all has the first Limit schedules after the name After that have Search in their names.
		Search, After string
		Limit         int // 0: no limit
	}
	// ListResult answers a List, by name.
	ListResult struct {
		Request   uint64
		Schedules []Shown
		More      bool // there are others after the last one
	}
	// Shown is a schedule as it is now.
	Shown struct {
		File  *schedule.File // not changed
		Next  time.Time      // its next due time; the zero time: none is known
		State schedule.State
		Why   string // see schedule.File.WhyNot
		// Failing is why it waits for its file to be read again; empty: it does not.
		Failing string
	}
	// Summarize asks for the number of schedules, and which of them are in trouble. SummarizeResult answers it at once.
	Summarize struct{ Request uint64 }
	// SummarizeResult answers Summarize. Summary is nil until the schedules are read.
	SummarizeResult struct {
		Request uint64
		Summary *answer.ScheduleSummary
	}
	// Happened says what has happened to schedules, when that is on the disk. It goes to the events actor. Lost: earlier events may be
	// missing.
	Happened struct {
		Events []answer.ScheduleEvent
		Lost   bool
	}
)

// Order is what is to be done with a schedule.
type Order uint8

// The orders.
const (
	NoOrder Order = iota
	Pause
	Resume
	Run
	Remove
)

// GetRequest is the number of the request.
func (r *ChangeResult) GetRequest() uint64 { return r.Request }

// GetFailure is the error, nil if there is none.
func (r *ChangeResult) GetFailure() *messages.Failure { return r.Failure }

// GetRequest is the number of the request.
func (r *SummarizeResult) GetRequest() uint64 { return r.Request }

// GetRequest is the number of the request.
func (r *ListResult) GetRequest() uint64 { return r.Request }

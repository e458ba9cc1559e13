package answer

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"lockstep/core/access"
	"lockstep/core/job"
	"lockstep/core/progress"
)

// JobSelection is the argument of LockstepListJobs. A job is selected if it matches each list that is not empty, and it
// matches a list if it matches one element. In Names and Opcodes '*' stands for any text and '?' for one character.
type JobSelection struct {
	// IDs are looked up in the archive, too. Unknown ids are not in the answer.
	IDs      []int64  `json:"ids,omitempty"`
	Names    []string `json:"names,omitempty"`
	Statuses []string `json:"statuses,omitempty"` // as clients see them
	Users    []string `json:"users,omitempty"`    // names or numbers of submitters
	Opcodes  []string `json:"opcodes,omitempty"`  // OP_IDs of any opcode of the job, "OP_" may be omitted
	Reasons  []string `json:"reasons,omitempty"`  // parts of a client's text in the reason trail
	// Searches are texts: one of them is part of the job's name, or of what one of its opcodes does, as Work says it. Upper and lower
	// case are the same.
	Searches []string `json:"searches,omitempty"`
	// SinceUS is a time in microseconds since 1970: the job was submitted, was started or has ended at that time or
	// later. 0: no limit.
	SinceUS int64 `json:"since_us,omitempty"`
	// Archived: also jobs in the archive.
	Archived bool `json:"archived,omitempty"`

	// Limit is the maximum number of jobs, those with the highest ids; 0: no limit.
	Limit int `json:"limit,omitempty"`
	// MaxUnfinished and MaxEnded are the maximum numbers of jobs that have not ended, of which running jobs come first,
	// and of jobs that have, of which those that ended last come first. 0: no limit. With them the answer has the former
	// before the latter, otherwise it is in the order of ids.
	MaxUnfinished int `json:"max_unfinished,omitempty"`
	MaxEnded      int `json:"max_ended,omitempty"`
}

// JobList is the answer to LockstepListJobs: the selected jobs, and how many a limit leaves out.
type JobList struct {
	Jobs []ListedJob `json:"jobs"`
	// More is the number of selected jobs that are not in Jobs because of a limit.
	More int `json:"more"`
	// Unread is the number of archived jobs that were not examined because of a limit.
	Unread int `json:"unread"`
	// Readers are running jobs whose output waits for the client that follows it, by id.
	Readers []ReaderWait `json:"readers,omitempty"`
}

// ReaderWait is a job whose output waits for its reader, see WhyReader.
type ReaderWait struct {
	Job   int64 `json:"job"`
	Since Time  `json:"since_ts"`
}

// JobPageRequest is the argument of LockstepPageJobs: a page of the selected jobs. IDs and limits of the selection other
// than Limit do not apply.
type JobPageRequest struct {
	JobSelection
	// OldestFirst: the page is in ascending order of ids, otherwise in descending order.
	OldestFirst bool `json:"oldest_first,omitempty"`
	// Cursor is the Cursor of the page before. 0: the first page.
	Cursor int64 `json:"cursor,omitempty"`
}

// JobPage is the answer to LockstepPageJobs: some of the selected jobs, and where the next page begins.
type JobPage struct {
	Jobs []ListedJob `json:"jobs"`
	// Cursor is the id of the last job that was examined. The next page begins next to it. 0: there is no next page.
	// One call examines a bounded number of jobs, so a page may have fewer jobs than its limit, or none, and a cursor.
	Cursor   int64 `json:"cursor"`
	Examined int   `json:"examined"` // number of jobs that were examined for this page
}

// NextJobs answers LockstepNextJobs: the jobs that start next, as far as it is known now.
type NextJobs struct {
	Jobs []NextJob `json:"jobs"` // by position
	// Examined is the number of queued jobs that were looked at, the oldest ones. More: there are others.
	Examined int  `json:"examined"`
	More     bool `json:"more"`
}

// NextJob is a pending job in LockstepNextJobs, with what keeps it from its start.
type NextJob struct {
	ID       int64    `json:"id"`
	Name     string   `json:"name"` // empty: none
	User     string   `json:"user"` // empty: unknown
	UserName string   `json:"user_name"`
	Priority int      `json:"priority"`
	Summary  []string `json:"summary"`
	Received Time     `json:"received_ts"`
	Order    Reason   `json:"order"`  // of kind WhyOrder
	Limits   []Reason `json:"limits"` // of other kinds: what must become free besides
}

// ListedJob is one job of a list.
type ListedJob struct {
	ID       int64  `json:"id"`
	Name     string `json:"name"` // empty: none
	Status   string `json:"status"`
	Result   string `json:"result"`    // end of the job in words; empty: it has succeeded or not ended, or nothing is known
	User     string `json:"user"`      // submitter, as "uid=1000(alice)" or "user=deploy"; empty: unknown
	UserName string `json:"user_name"` // of the submitter, as "alice" or "deploy"; the number of one without a name
	// Submitter is the user to whom the job belongs; nil: the daemon's user.
	Submitter *access.Submitter `json:"submitter,omitempty"`
	Parent    int64             `json:"parent"` // the job whose process has submitted the job; 0: none, or it is not known
	Priority  int               `json:"priority"`
	Summary   []string          `json:"summary"`
	Received  Time              `json:"received_ts"`
	Started   Time              `json:"start_ts"`
	Ended     Time              `json:"end_ts"`
	Archived  bool              `json:"archived"`
	// RunAs is the user as whom the commands of its submitter run; empty: the daemon's user, or archived.
	RunAs string `json:"run_as,omitempty"`
	// Progress is that of the command of the running opcode; nil: it has said nothing.
	Progress *Progress `json:"progress,omitempty"`
	// Try is that of the opcode that runs, comes next, or has ended the job; nil: it is not tried again.
	Try *Try `json:"try,omitempty"`
	// Due is when a pending job may start; nil: at once.
	Due *Time `json:"due_ts,omitempty"`
	// At is the time before which the job was not to start, by its submission or a later order; nil: it could start at once. Jobs that have
	// started have it, too.
	At *Time `json:"at_ts,omitempty"`
	// Schedule is the due time of a schedule that has submitted the job, or at which a user has run the schedule by hand; nil: no schedule has
	// submitted it.
	Schedule *DueTime `json:"schedule,omitempty"`
	// Tries are the ended tries of its opcodes in their order, except for the last try of each.
	Tries []EndedTry `json:"tries,omitempty"`
}

// DueTime is a due time of a schedule.
type DueTime struct {
	Name string `json:"name"` // of the schedule
	Due  Time   `json:"due_ts"`
}

// EndedTry is a try of an opcode that has failed and was not the last one.
type EndedTry struct {
	Opcode int    `json:"opcode"` // index
	Result string `json:"result"` // in words
	Start  Time   `json:"start_ts"`
	End    Time   `json:"end_ts"`
	// LogTo is the highest serial of the job's log at the end of the try; the log of the next one follows. 0: the log was empty.
	LogTo int64 `json:"log_to"`
	// Usage is what the try has used of its node; nil: it is not known.
	Usage *job.Usage `json:"usage,omitempty"`
}

// Try is a try of an opcode that may be tried again.
type Try struct {
	Number int    `json:"number"`         // from 1
	Most   int    `json:"most"`           // how many tries there are at most
	Last   string `json:"last,omitempty"` // end of the try before, in words
}

// String is the try in words, "try 2 of 6".
func (t Try) String() string { return fmt.Sprintf("try %d of %d", t.Number, t.Most) }

// Progress is what a command says about its progress.
type Progress struct {
	Percent *float64 `json:"percent"` // 0 to 100, with one decimal; nil: not known
	Text    string   `json:"text"`    // at most 100 bytes, printable; empty: none
	Since   Time     `json:"since_ts"`
	Updated Time     `json:"updated_ts"`
	End     Time     `json:"end_ts"` // when the command is expected to end; zero: not known
}

// NewProgress is a Progress with the estimate of its end. A negative percent is not known. Times are in microseconds since 1970.
func NewProgress(percent float64, text string, sinceUS, updatedUS int64) *Progress {
	p := &Progress{Text: text, Since: TimeOf(sinceUS), Updated: TimeOf(updatedUS)}
	if percent >= 0 {
		p.Percent = &percent
	}
	p.End.Time = progress.End(percent, p.Since.Time, p.Updated.Time)
	return p
}

// Share is the percentage for people, such as "40%"; empty if it is not known.
func (p *Progress) Share() string {
	if p.Percent == nil {
		return ""
	}
	return strconv.FormatFloat(*p.Percent, 'f', -1, 64) + "%"
}

// Words are the rest of the time and the text for people: "12m left, copying disk 2". span writes a duration. When the expected end has
// passed, nothing is said of it. The text is last: where there is no room, it is cut.
func (p *Progress) Words(now time.Time, span func(time.Duration) string) string {
	left := p.End.Sub(now)
	switch {
	case p.End.IsZero() || left < time.Second:
		return p.Text
	case p.Text == "":
		return span(left.Truncate(time.Second)) + " left"
	}
	return span(left.Truncate(time.Second)) + " left, " + p.Text
}

// JobEvents answers LockstepEvents: what has changed since the call before on the same connection.
type JobEvents struct {
	// Jobs are new jobs and jobs whose status, priority, hold or progress has changed, each as it was after the change, in order.
	Jobs     []ListedJob `json:"jobs"`
	Archived []int64     `json:"archived"` // jobs that have left the queue
	// Missed: changes may have been lost, or this is the first call. The client lists the jobs.
	Missed bool `json:"missed"`
	// Others are events of the other kinds, in order, if the client has asked for them.
	Others []OtherEvent `json:"others,omitempty"`
}

// OtherEvent is an event of another kind than jobs.
type OtherEvent struct {
	Kind string          `json:"kind"` // not EventJob
	Data json.RawMessage `json:"data"` // a RuleEvent, a LockEvent or a ScheduleEvent
}

// The kinds of events.
const (
	EventJob      = "job"
	EventFilter   = "filter"
	EventLock     = "lock"
	EventSchedule = "schedule"
)

// EventKinds are all kinds of events.
func EventKinds() []string { return []string{EventJob, EventFilter, EventLock, EventSchedule} }

// RuleEvent says that a filter rule was added, replaced or deleted.
type RuleEvent struct {
	UUID   string          `json:"uuid"`
	Change string          `json:"change"` // "added", "replaced" or "deleted"
	Rule   json.RawMessage `json:"rule"`   // null if the rule is deleted
}

// LockEvent is an event of a lock owner: what it holds and waits for now, at most 32 locks of each. An owner with neither
// is gone.
type LockEvent struct {
	Owner   string      `json:"owner"`
	Job     *int64      `json:"job"` // null for an owner that is no job
	Locks   [][2]string `json:"locks"`
	Held    int         `json:"held"` // number of all held locks
	Pending [][2]string `json:"pending"`
	Wanted  int         `json:"wanted"` // number of all wanted locks
}

// OpcodesReloaded is the answer to LockstepReloadOpcodes: how many declared opcodes each node has now.
type OpcodesReloaded struct {
	Declared int `json:"declared"` // number of declared opcodes of the daemon that has answered
	// Nodes are all nodes of a cluster, in the order of their names; nil without a cluster.
	Nodes []NodeOpcodes `json:"nodes,omitempty"`
}

// NodeOpcodes is the result of a reload on one node.
type NodeOpcodes struct {
	Node     string `json:"node"`
	Declared int    `json:"declared"`        // number of declared opcodes; 0 after an error
	Error    string `json:"error,omitempty"` // why the former opcodes stay in force, or are not known; empty: reloaded
}

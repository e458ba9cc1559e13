package answer

import (
	"encoding/json"

	"lockstep/core/job"
)

// QueueStatus answers LockstepStatus: the state of the daemon and its queue.
type QueueStatus struct {
	// BetweenTries is the number of waiting jobs that have no process until their next try.
	BetweenTries int64 `json:"between_tries"`
	// CannotStart says why no job process can be started; empty if job processes can start.
	CannotStart string `json:"cannot_start"`
	// CannotWrite are the files that cannot be written now: those of jobs, and of the daemon.
	CannotWrite []CannotWrite `json:"cannot_write"`
	Cluster     string        `json:"cluster"`
	DataDir     string        `json:"data_dir"` // of the daemon: CannotWrite is about files below it
	Drained     bool          `json:"drained"`
	// ForeignConfig says what another program has changed in config.data, so that all changes of the configuration fail; empty if
	// no program has.
	ForeignConfig string `json:"foreign_config"`
	// Guarded: a guard runs on the node that answers (lockstep-guard).
	Guarded bool             `json:"guarded"`
	Jobs    map[string]int64 `json:"jobs"` // in the queue, by status
	LastID  int64            `json:"last_id"`
	Marked  int64            `json:"marked"` // of the waiting ones, those that Counted counts as queued
	Master  string           `json:"master"`
	// MembersAreRoot: root's daemon runs the commands of all users as root (--run-as daemon).
	MembersAreRoot bool   `json:"members_are_root"`
	Nodes          *Nodes `json:"nodes"` // null for a daemon outside of a cluster
	// NotDue is the number of other pending jobs whose time has not come.
	NotDue      int64    `json:"not_due"`
	PID         int      `json:"pid"`
	Quarantined []string `json:"quarantined"` // below the data directory
	// WithSecrets are queued jobs that would fail after a restart: their secrets
	// are in the daemon's memory only.
	WithSecrets int64        `json:"queued_with_secrets"`
	Retention   Retention    `json:"retention"`
	RunSlots    int          `json:"run_slots"`
	SlotsTaken  int          `json:"run_slots_taken"` // more than RunSlots if their number was lowered
	Running     []RunningJob `json:"running"`
	// Schedules counts the schedules; nil: they are not read yet.
	Schedules *ScheduleSummary `json:"schedules"`
	Started   Time             `json:"started_ts"`
	Version   string           `json:"version"`
}

// Counted is the number of jobs with a status in metrics. A marked job, which waits for locks without a process, is queued.
func (s QueueStatus) Counted(status string) int64 {
	switch status {
	case job.Queued.String():
		return s.Jobs[status] + s.Marked
	case job.Waiting.String():
		return s.Jobs[status] - s.Marked
	default:
		return s.Jobs[status]
	}
}

// CannotWrite is a file that cannot be written now. What needs it waits or fails.
type CannotWrite struct {
	Job   int64  `json:"job"`      // whose file it is; 0: another file of the daemon
	By    string `json:"by"`       // who cannot write it: ByProcess or ByDaemon
	Text  string `json:"text"`     // the latest error
	Since Time   `json:"since_ts"` // the first failure
}

// Who cannot write a file.
const (
	ByProcess = "process" // the process of the job
	ByDaemon  = "daemon"
)

// Retention is how long the daemon keeps ended jobs. Times are in seconds; 0 is for ever.
type Retention struct {
	ArchiveAfter        float64 `json:"archive_after"`
	Archived            int64   `json:"archived"`  // jobs that were archived by their age since the queue's start
	KeepLast            int     `json:"keep_last"` // of each name
	RemoveArchivedAfter float64 `json:"remove_archived_after"`
}

// RunningJob is a job that has or gets a process. It has a run slot, unless it is held between two opcodes.
type RunningJob struct {
	ID       int64    `json:"id"`
	Name     string   `json:"name"` // empty: none
	Priority int      `json:"priority"`
	Started  Time     `json:"start_ts"` // null while its process is being started
	Status   string   `json:"status"`
	Summary  []string `json:"summary"`
	// Progress is that of the command of the running opcode; nil: it has said nothing.
	Progress *Progress `json:"progress,omitempty"`
}

// FilterPreview answers LockstepTestFilter: what the rule would decide about now.
type FilterPreview struct {
	Count      int64   `json:"count"`      // number of unfinished jobs with an action other than ACCEPT by this rule
	Jobs       []int64 `json:"jobs"`       // the lowest ids of them, at most 20
	Unfinished int64   `json:"unfinished"` // number of all unfinished jobs
	// States are the numbers of the counted jobs by status. Jobs that have ended meanwhile are in none.
	States map[string]int64 `json:"states"`
}

// FilterReplaced is the answer to LockstepReplaceFilter: the rule, and the jobs to which it applies.
type FilterReplaced struct {
	Count int64   `json:"count"` // number of unfinished jobs to which the rule applies
	Jobs  []int64 `json:"jobs"`  // the smallest of their ids
	UUID  string  `json:"uuid"`
}

// Opcode is one opcode of the catalogue; LockstepOpcodes is answered with a list of them.
type Opcode struct {
	Name    string        `json:"name"`
	Doc     string        `json:"doc"`
	Defined bool          `json:"defined"` // declared by an operator
	Runs    bool          `json:"runs"`    // the job processes of this daemon have an executor for it
	Params  []OpcodeParam `json:"params"`
}

// OpcodeParam is one parameter of an opcode.
type OpcodeParam struct {
	Name     string          `json:"name"`
	Type     string          `json:"type"`
	Required bool            `json:"required"`
	Default  json.RawMessage `json:"default"`
	Doc      string          `json:"doc"`
	Secret   bool            `json:"secret"`
}

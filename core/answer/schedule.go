package answer

import "time"

// Schedules answers LockstepSchedules: schedules by name.
type Schedules struct {
	Schedules []Schedule `json:"schedules"`
	// ZoneData says which data the daemon uses for the time zone of the schedule that was asked for, with its version if that is known; empty:
	// several were asked for.
	ZoneData string `json:"zone_data"`
	// More says that there are others after the last one of a page.
	More bool `json:"more,omitempty"`
}

// Schedule is a schedule as it is now.
type Schedule struct {
	Name       string  `json:"name"`
	Cron       string  `json:"cron,omitempty"`
	EverySecs  float64 `json:"every,omitempty"` // seconds
	Anchor     Time    `json:"anchor_ts"`       // where the times of Every begin
	Zone       string  `json:"tz,omitempty"`
	Overlap    string  `json:"overlap"`
	CatchUp    string  `json:"catch_up"`
	WithinSecs float64 `json:"catch_up_within"`
	JitterSecs float64 `json:"jitter"`
	// State is "active", "paused", "stopped" or "broken". Why has more about each but the first.
	State string `json:"state"`
	Why   string `json:"why,omitempty"`
	// Failing is why it cannot go on at the moment: its file cannot be written, or the node says nothing of its owner. Empty: it can.
	Failing string `json:"failing,omitempty"`
	Until   Time   `json:"until_ts"` // end of a pause; zero: none is known
	Owner   string `json:"owner"`
	// OwnerKey is the owner by number, or by the name in the users file, as access.Identity.Key has it.
	OwnerKey string `json:"owner_key"`
	// MadeBy is who has defined it last: the owner, or an administrator. Empty: the daemon is of an older version.
	MadeBy string `json:"made_by"`
	Next   Time   `json:"next_ts"` // when its jobs are submitted next; zero: never, as far as is known
	// Running are its jobs that have not ended.
	Running []int64         `json:"running"`
	Last    *ScheduleEntry  `json:"last,omitempty"`     // the newest entry of the history
	LastEnd *ScheduleEnded  `json:"last_end,omitempty"` // the last job that has ended
	Success Time            `json:"last_success_ts"`    // end of the last job that succeeded; zero: none has
	Missed  int64           `json:"missed"`             // due times without jobs, or with late ones, since the schedule was made
	Jobs    []ScheduleJob   `json:"jobs,omitempty"`     // only if one schedule was asked for
	History []ScheduleEntry `json:"history,omitempty"`  // only if one schedule was asked for; the newest last
	// Upcoming are the next due times, of which Next is the first; only if one schedule was asked for.
	Upcoming []ScheduleEntry `json:"upcoming,omitempty"`
}

// ScheduleJob is a job that a schedule submits.
type ScheduleJob struct {
	Name string `json:"name,omitempty"` // empty: that of the schedule
	Ops  []any  `json:"ops"`
}

// ScheduleEntry says what has become of a due time: jobs were submitted, or why not. With both they were submitted late.
type ScheduleEntry struct {
	Due     Time    `json:"due_ts"`
	Jobs    []int64 `json:"jobs,omitempty"`
	Missed  string  `json:"missed,omitempty"`
	Skipped string  `json:"skipped,omitempty"` // because of jobs of former due times
	By      string  `json:"by,omitempty"`      // who has run it by hand; absent: the rule
}

// ScheduleEnded is the end of a job of a schedule.
type ScheduleEnded struct {
	Job    int64  `json:"job"`
	End    Time   `json:"end_ts"`
	Result string `json:"result"`
}

// ScheduleChanged answers LockstepPutSchedule and LockstepOrderSchedule.
type ScheduleChanged struct {
	Changed bool    `json:"changed"`
	Jobs    []int64 `json:"jobs,omitempty"` // of a schedule that was run
}

// ScheduleSummary is what the status says of all schedules. Each is counted once, by its state.
type ScheduleSummary struct {
	Active  int `json:"active"`
	Paused  int `json:"paused"`
	Stopped int `json:"stopped"`
	Broken  int `json:"broken"` // due times that cannot be computed
	// Next is when jobs of a schedule are submitted next; zero: never, as far as is known. NextOf is the schedule.
	Next   Time   `json:"next_ts"`
	NextOf string `json:"next_of"`
	// Trouble are the first schedules that are stopped or broken, or have missed a due time within a day. MoreTrouble counts the others.
	Trouble     []ScheduleTrouble `json:"trouble"`
	MoreTrouble int               `json:"more_trouble"`
}

// Count is the number of schedules.
func (s ScheduleSummary) Count() int { return s.Active + s.Paused + s.Stopped + s.Broken }

// ScheduleTrouble is a schedule that is stopped or broken, or has missed a due time.
type ScheduleTrouble struct {
	Name   string `json:"name"`
	State  string `json:"state"`
	Missed Time   `json:"missed_ts"` // its newest due time without jobs; zero: it is stopped or broken
	Why    string `json:"why"`
}

// What happens to a schedule, in a ScheduleEvent.
const (
	ScheduleAdded     = "added"
	ScheduleRedefined = "changed" // its definition or its owner
	ScheduleRemoved   = "removed"
	SchedulePaused    = "paused"
	ScheduleResumed   = "resumed" // it is active: by an order, at the end of its pause, or because the clock has come near
	ScheduleStopped   = "stopped" // also one whose due times cannot be computed
	ScheduleFired     = "fired"   // jobs were submitted. With a reason they were late
	ScheduleMissed    = "missed"  // due times without jobs
	ScheduleSkipped   = "skipped" // due times without jobs, because of jobs of former ones
)

// ScheduleEvent says what has happened to a schedule. Times are there twice, as in all events.
type ScheduleEvent struct {
	Name    string  `json:"name"`
	Change  string  `json:"change"`
	Due     *Time   `json:"due_ts,omitempty"` // of ScheduleFired; the newest one of ScheduleMissed and ScheduleSkipped
	DueTime string  `json:"due,omitempty"`
	Times   int     `json:"times,omitempty"` // how many due times were missed or skipped for the reason
	Jobs    []int64 `json:"jobs,omitempty"`
	Reason  string  `json:"reason,omitempty"`
	By      string  `json:"by,omitempty"`       // its owner, when it was added or changed; who has run it by hand
	Until   *Time   `json:"until_ts,omitempty"` // of SchedulePaused; absent: until it is resumed
	// UntilTime is Until in RFC 3339.
	UntilTime string `json:"until,omitempty"`
}

// DueAt is the event with a due time.
func (e ScheduleEvent) DueAt(at time.Time) ScheduleEvent {
	e.Due, e.DueTime = &Time{at}, at.UTC().Format(time.RFC3339Nano)
	return e
}

// PausedUntil is the event with the end of a pause.
func (e ScheduleEvent) PausedUntil(at time.Time) ScheduleEvent {
	e.Until, e.UntilTime = &Time{at}, at.UTC().Format(time.RFC3339Nano)
	return e
}

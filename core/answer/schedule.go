package answer

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
	Until Time   `json:"until_ts"` // end of a pause; zero: none is known
	Owner string `json:"owner"`
	Next  Time   `json:"next_ts"` // when its jobs are submitted next; zero: never, as far as is known
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

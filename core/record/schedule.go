package record

// scheduleKey holds the due time of a schedule at which the job was submitted.
const scheduleKey = "schedule"

// Scheduled is a due time of a schedule.
type Scheduled struct {
	Name  string `json:"name"`
	DueUs int64  `json:"due"`          // microseconds since 1970
	By    string `json:"by,omitempty"` // who has run the schedule by hand, at DueUs; empty: its rule
}

// Schedule is the due time at which a schedule has submitted the job; the zero value: none has.
func (r Record) Schedule() Scheduled {
	s, _ := member[Scheduled](r, scheduleKey)
	return s
}

// WithSchedule sets the due time at which a schedule submits the job.
func (r Record) WithSchedule(s Scheduled) Record { return r.with(scheduleKey, s) }

package schedule

import (
	"fmt"
	"slices"
	"time"

	"lockstep/core/answer"
)

// State says whether a schedule submits jobs.
type State string

// The states.
const (
	StateActive  State = "active"  // it does, at its due times
	StatePaused  State = "paused"  // until the end of the pause, or an order
	StateStopped State = "stopped" // see StoppedUntil
	StateBroken  State = "broken"  // its due times cannot be computed
)

// State is the state of the schedule at a time. broken is why its due times cannot be computed; nil: they can.
func (f *File) State(now time.Time, broken error) State {
	switch {
	case broken != nil:
		return StateBroken
	case !f.StoppedUntil(now).IsZero():
		return StateStopped
	case f.Paused:
		return StatePaused
	}
	return StateActive
}

// WhyNot says why the schedule submits no jobs in its state; "" of one that is active or paused.
func (f *File) WhyNot(state State, broken error) string {
	switch state {
	case StateBroken:
		return broken.Error()
	case StateStopped:
		return fmt.Sprintf("its last due time, %s, is more than a day ahead of the clock: lockstep schedule resume %s starts it from now",
			time.UnixMicro(f.LastUs).UTC().Format(time.RFC3339), f.Name)
	}
	return ""
}

// LastMissed is the newest due time in the history whose jobs were not submitted, other than because of former ones; nil: there is none.
func (f *File) LastMissed() *Entry {
	for i := len(f.History) - 1; i >= 0; i-- {
		if e := &f.History[i]; e.isMissed() {
			return e
		}
	}
	return nil
}

func (e Entry) isMissed() bool { return e.Missed != "" && e.Skipped == "" && len(e.Jobs) == 0 }

// Bounds of a summary: how long a missed due time is told, and of how many schedules.
const (
	ToldFor     = 24 * time.Hour
	troubledMax = 5
)

// Tally counts schedules, for the status of the daemon.
type Tally struct {
	Now      time.Time
	summary  answer.ScheduleSummary
	next     time.Time
	troubled []*Standing
}

// Standing is what a tally looks at of a schedule. File is looked at only if the schedule is among the first.
type Standing struct {
	File     *File
	State    State
	Broken   error
	Next     time.Time // when its jobs are submitted next; the zero time: it is not known
	MissedUs int64     // its newest due time that was missed (LastMissed); 0: there is none
}

// Add counts a schedule.
func (t *Tally) Add(s *Standing) {
	switch s.State {
	case StateActive:
		t.summary.Active++
	case StatePaused:
		t.summary.Paused++
	case StateStopped:
		t.summary.Stopped++
	case StateBroken:
		t.summary.Broken++
	}
	if !s.Next.IsZero() && (t.next.IsZero() || s.Next.Before(t.next) || s.Next.Equal(t.next) && s.File.Name < t.summary.NextOf) {
		t.next, t.summary.NextOf = s.Next, s.File.Name
	}
	if s.fires() && s.MissedUs <= t.Now.UnixMicro()-ToldFor.Microseconds() {
		return
	}
	at := len(t.troubled)
	for at > 0 && s.before(t.troubled[at-1]) {
		at--
	}
	if at < troubledMax {
		t.troubled = slices.Insert(t.troubled, at, s)
	}
	if at == troubledMax || len(t.troubled) > troubledMax {
		t.troubled = t.troubled[:troubledMax]
		t.summary.MoreTrouble++
	}
}

// Summary is the sum of what was added.
func (t *Tally) Summary() *answer.ScheduleSummary {
	t.summary.Next, t.summary.Trouble = answer.Time{Time: t.next}, []answer.ScheduleTrouble{}
	for _, s := range t.troubled {
		trouble := answer.ScheduleTrouble{Name: s.File.Name, State: string(s.State), Why: s.File.WhyNot(s.State, s.Broken)}
		if missed := s.File.LastMissed(); s.fires() && missed != nil {
			trouble.Missed, trouble.Why = answer.TimeOf(missed.DueUs), missed.Missed
		}
		t.summary.Trouble = append(t.summary.Trouble, trouble)
	}
	return &t.summary
}

// fires is false of a schedule that is stopped or broken, which is not what its owner wants.
func (s *Standing) fires() bool { return s.State == StateActive || s.State == StatePaused }

// before puts schedules that do not fire first, then those whose missed due time is newer.
func (s *Standing) before(other *Standing) bool {
	switch {
	case s.fires() != other.fires():
		return !s.fires()
	case s.fires() && s.MissedUs != other.MissedUs:
		return s.MissedUs > other.MissedUs
	}
	return s.File.Name < other.File.Name
}

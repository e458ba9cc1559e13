package schedule

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"lockstep/core/calendar"
	"lockstep/core/words"
)

// Step is what a schedule does next.
type Step struct {
	// File is the schedule after the step, without Fire; nil: nothing changes. What it has beside a firing is written together with it.
	File *File
	Fire *Fire     // nil: no job is submitted now
	Wake time.Time // when to look again; the zero time: a change of the schedule comes first
	Due  time.Time // when the jobs are submitted next, as far as is known; the zero time: it is not
}

// Fire is a due time whose jobs are to be submitted.
type Fire struct {
	DueUs  int64
	Missed string // why they are late; empty: they are not
	By     string // who runs the schedule by hand; empty: the rule
}

// StoppedUntil is when the clock will have come to a day before the schedule's last due time; the zero time: the schedule is not stopped. A
// schedule stops whose last due time is more than AheadMax ahead of the clock: the clock that gave that time was wrong, or this one is.
func (f *File) StoppedUntil(now time.Time) time.Time {
	if last := time.UnixMicro(f.LastUs); last.After(now.Add(AheadMax)) {
		return last.Add(-AheadMax)
	}
	return time.Time{}
}

// Jitter is how long after each due time the jobs are submitted, in whole seconds.
func (f *File) Jitter() time.Duration {
	return calendar.Jitter(f.Name, time.Duration(f.JitterUs)*time.Microsecond).Truncate(time.Second)
}

// Next decides what the schedule does at a time. why says why due times are late, if any are. With owed it also makes up for due times at
// which the queue has refused the jobs.
func (f *File) Next(now time.Time, rule calendar.Rule, why string, owed bool) Step {
	if until := f.StoppedUntil(now); !until.IsZero() {
		return Step{Wake: until}
	}
	next, changed := f.afterPause(now)
	if next.Paused {
		if next.UntilUs == 0 {
			return Step{}
		}
		until := time.UnixMicro(next.UntilUs)
		step := Step{Wake: until}
		if due, any := rule.Next(time.UnixMicro(max(next.LastUs, next.UntilUs))); any {
			step.Due = due.Add(f.Jitter())
		}
		return step
	}
	fire, missed := next.come(now, rule, why)
	if fire == nil && owed {
		var settled bool
		fire, settled = next.payOwed(now)
		changed = changed || settled
	}
	step := Step{Fire: fire}
	if changed || missed {
		step.File = next
	}
	if due, any := rule.Next(time.UnixMicro(next.LastUs)); any {
		step.Due = due.Add(f.Jitter())
		step.Wake = step.Due
	}
	return step
}

// afterPause is a copy of the schedule, whose pause has ended if its end has come. Due times during the pause are passed over.
func (f *File) afterPause(now time.Time) (next *File, changed bool) {
	next = f.clone()
	if !f.Paused || f.UntilUs == 0 || now.UnixMicro() < f.UntilUs {
		return next, false
	}
	next.LastUs = max(f.LastUs, f.UntilUs)
	next.Paused, next.UntilUs = false, 0
	return next, true
}

// lookedMax bounds the due times of a step, which are computed one by one.
const lookedMax = 1000

// come decides about the due times that have come and are not decided: it notes those that are missed, and returns the one that fires.
func (f *File) come(now time.Time, rule calendar.Rule, why string) (fire *Fire, changed bool) {
	jitter := f.Jitter()
	upTo := now.Add(-jitter)
	oldest := upTo.Add(-time.Duration(f.WithinUs) * time.Microsecond)
	last := time.UnixMicro(f.LastUs)
	if first, any := rule.Next(last); any && !first.After(oldest) {
		// Not one by one: there may be very many.
		f.miss(first, fmt.Sprintf("%s; neither this time nor those until %s are made up for, which are older than %s", why,
			oldest.UTC().Format(time.RFC3339), words.FormatDuration(time.Duration(f.WithinUs)*time.Microsecond)))
		f.LastUs, last, changed = oldest.UnixMicro(), oldest, true
	}
	var came []time.Time
	looked := 0
	for due, any := rule.Next(last); any && !due.After(upTo); due, any = rule.Next(due) {
		if looked++; looked > lookedMax && len(came) == HistoryMax {
			return nil, true // the others at the next step
		}
		if len(came) == HistoryMax {
			f.miss(came[0], why)
			f.LastUs, came, changed = came[0].UnixMicro(), came[1:], true
		}
		came = append(came, due)
	}
	if len(came) == 0 {
		return nil, changed
	}
	chosen := came[len(came)-1]
	late := upTo.Sub(chosen) > Late
	if f.CatchUp == All {
		chosen, late = came[0], upTo.Sub(came[0]) > Late
	}
	for _, due := range came {
		if due.Before(chosen) || late && f.CatchUp == None {
			f.miss(due, why)
			f.LastUs, changed = due.UnixMicro(), true
		}
	}
	if late && f.CatchUp == None {
		return nil, changed
	}
	fire = &Fire{DueUs: chosen.UnixMicro()}
	if late {
		fire.Missed = why
	}
	return fire, changed
}

// payOwed returns the oldest due time that is owed, and gives up those that are too old.
func (f *File) payOwed(now time.Time) (fire *Fire, changed bool) {
	oldest := now.UnixMicro() - f.WithinUs
	for i, e := range f.History {
		switch {
		case !e.Owed:
		case e.DueUs < oldest:
			f.History[i].Owed, changed = false, true
		default:
			return &Fire{DueUs: e.DueUs, Missed: e.Missed}, changed
		}
	}
	return nil, changed
}

// HasOwed reports whether a due time is to be made up for.
func (f *File) HasOwed() bool {
	return slices.ContainsFunc(f.History, func(e Entry) bool { return e.Owed })
}

func (f *File) settleOwed() {
	for i := range f.History {
		f.History[i].Owed = false
	}
}

func (f *File) miss(due time.Time, why string) {
	f.Missed++
	f.note(Entry{DueUs: due.UnixMicro(), Missed: why})
}

// note adds an entry to the history, or replaces that of a due time which is made up for. It decides the due time.
func (f *File) note(e Entry) {
	e.Missed, e.Skipped = shortened(e.Missed), shortened(e.Skipped)
	if e.By == "" {
		at := slices.IndexFunc(f.History, func(known Entry) bool { return known.DueUs == e.DueUs && known.By == "" })
		if at >= 0 {
			f.History[at] = e
			return
		}
		if f.CatchUp == Last {
			f.settleOwed() // a newer due time takes their place
		}
		f.LastUs = max(f.LastUs, e.DueUs)
	}
	f.History = append(f.History, e)
	f.History = f.History[max(0, len(f.History)-HistoryMax):]
}

// reasonMax bounds a reason in the history, in bytes.
const reasonMax = 300

func shortened(text string) string {
	if len(text) > reasonMax {
		return strings.ToValidUTF8(text[:reasonMax], "") + "…"
	}
	return text
}

// Fired is the schedule with a firing whose jobs have no ids yet, for the queue, which adds them (WithJobs). from is the schedule that the
// disk has: a firing that is taken back leads to its state.
func (f *File) Fired(fire Fire, from *File) *File {
	next := f.clone()
	next.Firing = &firing{FromUs: from.LastUs, DueUs: fire.DueUs, Count: int64(len(f.Jobs))}
	if fire.Missed != "" && fire.DueUs > from.LastUs {
		next.Missed++
	}
	next.note(Entry{DueUs: fire.DueUs, Missed: fire.Missed, By: fire.By})
	return next
}

// WithJobs completes the content of Fired with the ids of its jobs, of which first is the lowest.
func WithJobs(content []byte, first int64) ([]byte, error) {
	f, err := Decode(content)
	if err != nil {
		return nil, err
	}
	if f.Firing == nil {
		return nil, fmt.Errorf("schedule %s has no firing", f.Name)
	}
	f.Firing.First = first
	jobs := make([]int64, f.Firing.Count)
	for i := range jobs {
		jobs[i] = first + int64(i)
	}
	at := f.entryOf(f.Firing)
	if at < 0 {
		return nil, fmt.Errorf("schedule %s has no entry for its firing", f.Name)
	}
	f.History[at].Jobs = jobs
	f.Open = append(f.Open, jobs...)
	return f.Encode(), nil
}

// entryOf is the index of the entry of a firing; -1: there is none.
func (f *File) entryOf(last *firing) int {
	for i, e := range slices.Backward(f.History) {
		if e.DueUs == last.DueUs && (len(e.Jobs) == 0 || e.Jobs[0] == last.First) {
			return i
		}
	}
	return -1
}

// TakeBack is the schedule without its last firing, if the queue's serial does not cover the jobs of that: they do not exist. It returns
// the schedule itself if the serial covers them.
func (f *File) TakeBack(serial int64) *File {
	last := f.Firing
	if last == nil || last.First+last.Count-1 <= serial {
		return f
	}
	next := f.clone()
	next.Firing = nil
	next.Open = slices.DeleteFunc(next.Open, func(id int64) bool { return id >= last.First && id < last.First+last.Count })
	if at := next.entryOf(last); at >= 0 {
		switch e := &next.History[at]; {
		case e.By != "":
			next.History = slices.Delete(next.History, at, at+1)
		case e.DueUs <= last.FromUs: // it was owed
			e.Jobs, e.Owed = nil, true
		}
	}
	next.LastUs = last.FromUs
	next.History = slices.DeleteFunc(next.History, func(e Entry) bool {
		undecided := e.By == "" && e.DueUs > last.FromUs
		if undecided && e.Missed != "" {
			next.Missed--
		}
		return undecided
	})
	return next
}

// Refused is the schedule with a due time whose jobs the queue, or a role, has refused. It is owed, if the schedule makes up for missed
// due times. A due time that was owed already stays as it is.
func (f *File) Refused(fire Fire, why string) *File {
	next := f.clone()
	if fire.Missed != "" && fire.DueUs <= f.LastUs {
		return next
	}
	next.Missed++
	next.note(Entry{DueUs: fire.DueUs, Missed: why, Owed: f.CatchUp != None})
	return next
}

// Skipped is the schedule with a due time at which no job was submitted because of former ones.
func (f *File) Skipped(fire Fire, why string) *File {
	next := f.clone()
	next.note(Entry{DueUs: fire.DueUs, Missed: fire.Missed, Skipped: why})
	return next
}

// Pause is the schedule at rest until a time; 0: until it is resumed.
func (f *File) Pause(untilUs int64) *File {
	next := f.clone()
	next.Paused, next.UntilUs = true, untilUs
	return next
}

// Resume is the schedule that goes on from now. It passes over the due times before.
func (f *File) Resume(now time.Time) *File {
	next := f.clone()
	stopped := !f.StoppedUntil(now).IsZero()
	if next.Paused, next.UntilUs = false, 0; f.Paused || stopped {
		next.settleOwed()
		if next.LastUs = max(f.LastUs, now.UnixMicro()); stopped {
			next.LastUs = now.UnixMicro()
		}
	}
	return next
}

// JobEnded is the schedule after the end of one of its jobs, which ended with a result in words; "" of one that succeeded.
func (f *File) JobEnded(end Ended, succeeded bool) *File {
	next := f.clone()
	next.Open = slices.DeleteFunc(next.Open, func(id int64) bool { return id == end.Job })
	if f.LastEnd == nil || f.LastEnd.AtUs <= end.AtUs {
		next.LastEnd = &end
	}
	if succeeded {
		next.SuccessUs = max(f.SuccessUs, end.AtUs)
	}
	return next
}

// Forget is the schedule without an open job of which the queue knows nothing any longer.
func (f *File) Forget(id int64) *File {
	next := f.clone()
	next.Open = slices.DeleteFunc(next.Open, func(open int64) bool { return open == id })
	return next
}

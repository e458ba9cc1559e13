package schedule

import (
	"slices"
	"time"

	"lockstep/core/answer"
)

// News says what has happened to a schedule since the disk had it as before: its definition, and what has become of due times. nil: the
// disk did not have it. Of due times that were missed or skipped for the same reason one event says how many there are.
func (f *File) News(before *File) []answer.ScheduleEvent {
	var news []answer.ScheduleEvent
	history := f.History
	if before == nil {
		news = append(news, answer.ScheduleEvent{Name: f.Name, Change: answer.ScheduleAdded, By: f.By})
	} else {
		history = f.since(before)
		if !sameDefinition(f, before) {
			news = append(news, answer.ScheduleEvent{Name: f.Name, Change: answer.ScheduleRedefined, By: f.By})
		}
	}
	for _, e := range history {
		event := f.eventOf(e)
		if n := len(news); n > 0 && event.Times > 0 && news[n-1].Change == event.Change && news[n-1].Reason == event.Reason {
			event.Times += news[n-1].Times
			news = news[:n-1]
		}
		news = append(news, event)
	}
	return news
}

func sameDefinition(a, b *File) bool {
	return a.Owner == b.Owner && Same(a.Definition, b.Definition)
}

// since are the entries of the history that before does not have like this. Entries are added at the end and dropped at the beginning.
func (f *File) since(before *File) (entries []Entry) {
	var known []Entry
	if len(f.History) > 0 {
		first := f.History[0]
		at := slices.IndexFunc(before.History, func(e Entry) bool { return e.DueUs == first.DueUs && e.By == first.By })
		if at >= 0 {
			known = before.History[at:]
		}
	}
	for i, e := range f.History {
		if i >= len(known) || known[i].Missed != e.Missed || known[i].Skipped != e.Skipped || len(known[i].Jobs) != len(e.Jobs) {
			entries = append(entries, e)
		}
	}
	return entries
}

func (f *File) eventOf(e Entry) answer.ScheduleEvent {
	event := answer.ScheduleEvent{Name: f.Name, Change: answer.ScheduleFired, Jobs: e.Jobs, Reason: e.Missed, By: e.By}
	switch {
	case e.Skipped != "":
		event.Change, event.Reason, event.Times = answer.ScheduleSkipped, e.Skipped, 1
	case e.isMissed():
		event.Change, event.Times = answer.ScheduleMissed, 1
	}
	return event.DueAt(time.UnixMicro(e.DueUs))
}

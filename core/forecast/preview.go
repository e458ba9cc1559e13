package forecast

import (
	"slices"

	"lockstep/core/job"
)

// Preview is what would change if a job got another priority.
type Preview struct {
	Now, Then Estimate // of the job
	// Changed are the other jobs whose likely start would change, the greatest delay first.
	Changed []Change
}

// Change is a likely start in both cases.
type Change struct{ Now, Then Estimate }

// Prefer is the preview of a priority for a job of the world; false if the job is not a pending one of it. now are the estimates of w.
// more is asked while there is work; false ends the estimates early.
func Prefer(w *World, id job.ID, priority int, now []Estimate, more func() bool) (Preview, bool) {
	changed := *w
	changed.First, changed.Waiting, changed.Beyond = slices.Clone(w.First), slices.Clone(w.Waiting), nil
	found := false
	for i := range w.Beyond {
		if w.Beyond[i].ID == id {
			changed.First = append(changed.First, w.Beyond[i])
		}
	}
	for _, list := range [][]Job{changed.First, changed.Waiting} {
		for i := range list {
			if list[i].ID == id {
				list[i].Priority, found = priority, true
			}
		}
	}
	if !found {
		return Preview{}, false
	}
	before := map[job.ID]Estimate{}
	for _, e := range now {
		before[e.ID] = e
	}
	p := Preview{Now: before[id]}
	for _, then := range Estimates(&changed, more) {
		was := before[then.ID]
		switch {
		case then.ID == id:
			p.Then = then
		case was.Start.known() && then.Start.known() && !was.Start.Likely.Equal(then.Start.Likely):
			p.Changed = append(p.Changed, Change{was, then})
		}
	}
	slices.SortStableFunc(p.Changed, func(a, b Change) int { return int(b.delay() - a.delay()) })
	return p, true
}

func (c Change) delay() int64 { return c.Then.Start.Likely.Sub(c.Now.Start.Likely).Milliseconds() }

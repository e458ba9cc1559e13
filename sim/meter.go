package sim

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"lockstep/actors/core/job"
)

// meter measures what becomes of jobs. It finds fault with nothing.
type meter struct {
	jobs  map[int64]*timing
	ended int
	told  func() // of each end
}

// timing is when things happened to a job, since the world began.
//
// From when it is chosen a job has a slot, until its process is gone. It has the
// slot only to wait until its opcode executes, and again from the permission to
// begin the next one.
type timing struct {
	submitted, picked, began, ended time.Duration
	since                           time.Duration // it only waits
	waited                          time.Duration // so far, with a slot
	waits, executed                 bool
}

func newMeter(told func()) *meter { return &meter{jobs: map[int64]*timing{}, told: told} }

func (*meter) Name() string { return "meter" }

func (m *meter) See(w *World, event any) error {
	now := w.clock.elapsed()
	switch e := event.(type) {
	case fileChanged:
		if m.jobs[e.id] == nil && e.job != nil {
			m.jobs[e.id] = &timing{submitted: now}
		}
	case jobPicked:
		t := m.jobs[e.id]
		t.picked, t.since, t.waits = now, now, true
	case opPermitted:
		t := m.jobs[e.process.job]
		t.since, t.waits = now, true
	case opcodeStarted:
		t := m.jobs[e.job]
		if !t.executed {
			t.began, t.executed = now, true
		}
		if t.waits {
			t.waited += now - t.since
			t.waits = false
		}
	case processEnded:
		m.jobs[e.process.job].ended = now
		m.ended++
		m.told()
	}
	return nil
}

// Outcome is what was measured, times in seconds.
type Outcome struct {
	Jobs     int     `json:"jobs"`
	Makespan float64 `json:"makespan"` // from the first submission to the last end
	PerHour  float64 `json:"jobs_per_hour"`
	// Waits are from submission until the locks are held and the job executes.
	Waits
	// SlotSeconds are from being chosen to the end; LockWaitSeconds those of them
	// that pass before something executes.
	SlotSeconds     float64    `json:"slot_seconds"`
	LockWaitSeconds float64    `json:"lock_wait_slot_seconds"`
	LockWaitShare   float64    `json:"lock_wait_share"`
	Kinds           []KindWait `json:"kinds"`
	Starvation      Starvation `json:"starvation"`
	Steps           uint64     `json:"steps"`
}

// Waits is what there is to say of many waits.
type Waits struct {
	Mean    float64 `json:"mean_wait"`
	P95     float64 `json:"p95_wait"`
	Longest float64 `json:"longest_wait"`
}

// KindWait is the waits of the jobs of one kind.
type KindWait struct {
	Kind string `json:"kind"`
	Jobs int    `json:"jobs"`
	Waits
}

// outcome sums up; all jobs must have succeeded.
func (m *meter) outcome(w *World, batches []batch) (Outcome, error) {
	o := Outcome{Jobs: len(m.jobs), Steps: w.count}
	first, last := time.Duration(1<<62), time.Duration(0)
	var all []float64
	kinds := map[string][]float64{}
	for n, s := range w.submissions {
		for k, id := range s.ids {
			j, t := w.job(id), m.jobs[id]
			if j == nil || j.Status() != job.Success || !t.executed {
				return o, fmt.Errorf("job %d has not succeeded", id)
			}
			first, last = min(first, t.submitted), max(last, t.ended)
			wait := (t.began - t.submitted).Seconds()
			all = append(all, wait)
			kind := batches[n].jobs[k].kind
			kinds[kind] = append(kinds[kind], wait)
			o.SlotSeconds += (t.ended - t.picked).Seconds()
			o.LockWaitSeconds += t.waited.Seconds()
		}
	}
	o.Makespan = (last - first).Seconds()
	o.PerHour = float64(o.Jobs) / o.Makespan * time.Hour.Seconds()
	o.LockWaitShare = o.LockWaitSeconds / o.SlotSeconds
	o.Waits = sumUp(all)
	for kind, waits := range kinds {
		o.Kinds = append(o.Kinds, KindWait{kind, len(waits), sumUp(waits)})
	}
	slices.SortFunc(o.Kinds, func(a, b KindWait) int {
		return cmp.Or(b.Jobs-a.Jobs, strings.Compare(a.Kind, b.Kind))
	})
	return o, nil
}

func sumUp(waits []float64) Waits {
	slices.Sort(waits)
	sum := 0.0
	for _, s := range waits {
		sum += s
	}
	n := len(waits)
	return Waits{Mean: sum / float64(n), P95: waits[(n*95+99)/100-1], Longest: waits[n-1]}
}

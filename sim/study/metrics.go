package study

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"lockstep/core/job"
	"lockstep/core/lock"
	"lockstep/sim"
)

// metrics records the times of events of jobs. It is a checker that never fails.
type metrics struct {
	jobs  map[int64]*JobTiming
	ended int
	onEnd func() // called at the end of each job
}

// JobTiming has the times of a job's events, since its world began.
//
// The job waits for a slot from Submitted to Chosen, and has the slot until Ended, when its
// process is gone; but not between the end of an opcode and the permission of the next one.
type JobTiming struct {
	ID                       int64
	Kind                     string // in its mix
	Submitted, Chosen, Ended time.Duration
	Ops                      []OpTiming // opcodes that were permitted; at least one once the job is chosen
}

// OpTiming has the times of an opcode's events. From Permitted to Began the job only waits in its
// slot. From Began to Ended the opcode executes and has its locks.
type OpTiming struct {
	Permitted, Began, Ended time.Duration
	Locks                   []lock.Item // in lock order; not to be changed
}

// Wait is the time from submission until the first opcode has its locks and executes. The job
// must have ended.
func (t *JobTiming) Wait() time.Duration { return t.Ops[0].Began - t.Submitted }

// SlotWait is the time for which the job had a slot and no opcode executed. The job must have
// ended.
func (t *JobTiming) SlotWait() time.Duration {
	sum := time.Duration(0)
	for _, op := range t.Ops {
		sum += op.Began - op.Permitted
	}
	return sum
}

// SlotTime is the time for which the job had a slot: from being chosen to its end, less the times between two opcodes
// for which it had given its slot back. The job must have ended.
func (t *JobTiming) SlotTime() time.Duration {
	had := t.Ended - t.Chosen
	for i := 1; i < len(t.Ops); i++ {
		had -= t.Ops[i].Permitted - t.Ops[i-1].Ended
	}
	return had
}

func (t *JobTiming) lastOp() *OpTiming { return &t.Ops[len(t.Ops)-1] }

func newMetrics(onEnd func()) *metrics { return &metrics{jobs: map[int64]*JobTiming{}, onEnd: onEnd} }

// Name names the checker.
func (*metrics) Name() string { return "metrics" }

// See records the time of each event of a job, and reports each end to onEnd.
func (m *metrics) See(w *sim.World, event any) error {
	e, is := sim.JobEventOf(event)
	if !is {
		return nil
	}
	now, t := w.Elapsed(), m.jobs[e.ID]
	switch e.Kind {
	case sim.JobWritten:
		if t == nil {
			m.jobs[e.ID] = &JobTiming{ID: e.ID, Submitted: now}
		}
	case sim.JobPicked:
		t.Chosen, t.Ops = now, []OpTiming{{Permitted: now}}
	case sim.OpPermitted:
		t.Ops = append(t.Ops, OpTiming{Permitted: now})
	case sim.LocksTaken:
		t.lastOp().Locks = e.Locks
	case sim.OpStarted:
		t.lastOp().Began = now
	case sim.OpEnded:
		t.lastOp().Ended = now
	case sim.ProcessEnded:
		t.Ended = now
		m.ended++
		m.onEnd()
	}
	return nil
}

// Outcome has the measurements of one run, times in seconds.
type Outcome struct {
	Jobs     int     `json:"jobs"`
	Makespan float64 `json:"makespan"` // from the first submission to the last end
	PerHour  float64 `json:"jobs_per_hour"`
	// Waits are the times from submission until the first opcode has its locks and executes.
	Waits
	// SlotSeconds is the sum of the times for which jobs had a slot. LockWaitSeconds is the
	// part in which no opcode executes.
	SlotSeconds     float64    `json:"slot_seconds"`
	LockWaitSeconds float64    `json:"lock_wait_slot_seconds"`
	LockWaitShare   float64    `json:"lock_wait_share"`
	Drains          Drains     `json:"drains"`
	Kinds           []KindWait `json:"kinds"`
	Starvation      Starvation `json:"starvation"`
	Estimates       *Estimates `json:"estimates,omitempty"` // if CompareOptions asks for them
	Steps           uint64     `json:"steps"`
}

// Waits summarizes waits.
type Waits struct {
	Mean    float64 `json:"mean_wait"`
	P95     float64 `json:"p95_wait"`
	P999    float64 `json:"p999_wait"`
	Longest float64 `json:"longest_wait"`
}

// KindWait are the waits of the jobs of one kind.
type KindWait struct {
	Kind string `json:"kind"`
	Jobs int    `json:"jobs"`
	Waits
}

// outcome summarizes a run. A job that has not succeeded is an error.
func (m *metrics) outcome(w *sim.World, batches []batch, ids [][]int64) (Outcome, error) {
	o := Outcome{Jobs: len(m.jobs), Steps: w.Steps()}
	first, last := time.Duration(1<<62), time.Duration(0)
	var all []float64
	kinds := map[string][]float64{}
	for n := range ids {
		for k, id := range ids[n] {
			j, t := w.Job(id), m.jobs[id]
			if j == nil || j.Status() != job.Success {
				return o, fmt.Errorf("job %d has not succeeded", id)
			}
			t.Kind = batches[n].jobs[k].kind
			first, last = min(first, t.Submitted), max(last, t.Ended)
			wait := t.Wait().Seconds()
			all = append(all, wait)
			kinds[t.Kind] = append(kinds[t.Kind], wait)
			o.SlotSeconds += t.SlotTime().Seconds()
			o.LockWaitSeconds += t.SlotWait().Seconds()
		}
	}
	o.Makespan = (last - first).Seconds()
	o.PerHour = float64(o.Jobs) / o.Makespan * time.Hour.Seconds()
	o.LockWaitShare = o.LockWaitSeconds / o.SlotSeconds
	o.Waits = Summarize(all)
	for kind, waits := range kinds {
		o.Kinds = append(o.Kinds, KindWait{kind, len(waits), Summarize(waits)})
	}
	slices.SortFunc(o.Kinds, func(a, b KindWait) int {
		return cmp.Or(b.Jobs-a.Jobs, strings.Compare(a.Kind, b.Kind))
	})
	return o, nil
}

// Summarize sorts at least one wait, in seconds, and summarizes them.
func Summarize(waits []float64) Waits {
	slices.Sort(waits)
	sum := 0.0
	for _, s := range waits {
		sum += s
	}
	n := len(waits)
	return Waits{Mean: sum / float64(n), P95: waits[(n*95+99)/100-1], P999: waits[(n*999+999)/1000-1], Longest: waits[n-1]}
}

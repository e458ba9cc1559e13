package study

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"lockstep/sim"
)

// Plan is the work of a mix as jobs in the order of their times. Jobs that are submitted together
// have the same time. It keeps them in their spelling, so that a million jobs need a few hundred
// megabytes.
type Plan struct {
	at   []time.Duration
	jobs []plannedJob
}

// Opcode is one opcode of a job: its input as a client submits it, and its duration once it has
// its locks.
type Opcode struct {
	Input    json.RawMessage
	Duration time.Duration
}

// NewPlan makes the work of a mix. The options must be valid. The same options give the same
// work, in Compare as well.
func NewPlan(m Mix, o MixOptions) *Plan {
	p := &Plan{at: make([]time.Duration, 0, o.Jobs), jobs: make([]plannedJob, 0, o.Jobs)}
	for _, b := range plan(m, o) {
		for _, j := range b.jobs {
			p.at, p.jobs = append(p.at, b.at), append(p.jobs, j)
		}
	}
	return p
}

// Len is the number of jobs.
func (p *Plan) Len() int { return len(p.jobs) }

// At is the time of job i since the beginning. It never falls with i.
func (p *Plan) At(i int) time.Duration { return p.at[i] }

// Kind is the kind of job i in its mix.
func (p *Plan) Kind(i int) string { return p.jobs[i].kind }

// Job returns the opcodes of job i, encoded at each call.
func (p *Plan) Job(i int) []Opcode {
	ops := make([]Opcode, len(p.jobs[i].ops))
	for k, op := range p.jobs[i].ops {
		ops[k] = Opcode{op.Encode(""), durationOf(op)}
	}
	return ops
}

// durationOf is the duration of a planned run. It panics for any other opcode.
func durationOf(o sim.OpSpec) time.Duration {
	for word := range strings.FieldsSeq(string(o)) {
		if text, found := strings.CutPrefix(word, "run_for="); found {
			if seconds, err := strconv.ParseFloat(text, 64); err == nil {
				return time.Duration(seconds * float64(time.Second))
			}
		}
	}
	panic(fmt.Sprintf("%q is no planned run", o)) // planner.op makes them all
}

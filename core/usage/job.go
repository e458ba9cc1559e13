// Package usage sums up what jobs have used: how long they have waited and run, their CPU time and memory, by name, user or opcode. A Walk
// takes the files of jobs, newest first, and makes pages of them; a Summary takes the jobs of the pages. It is pure.
package usage

import (
	"encoding/json"
	"slices"

	"lockstep/core/job"
	"lockstep/core/query"
	"lockstep/core/rawjson"
	"lockstep/core/record"
	"lockstep/messages"
)

// Job is what a summary needs of one job. Times are microseconds since 1970; 0: not yet, or never.
type Job struct {
	ID     int64  `json:"id"`
	Name   string `json:"name,omitempty"`
	User   string `json:"user,omitempty"` // as lists of jobs show it
	Status string `json:"status"`
	// ReadyUS is when the job could start: when it was submitted, or else the time before which it was not to start.
	ReadyUS int64 `json:"ready_us"`
	Ops     []Op  `json:"ops"`
}

// Op is one opcode of a job.
type Op struct {
	ID      string `json:"op_id"`
	Failed  bool   `json:"failed,omitempty"`
	BeganUS int64  `json:"began_us,omitempty"` // when it had its locks; of several tries the first
	EndedUS int64  `json:"ended_us,omitempty"`
	// Usage is that of all tries: the sum of their CPU times, and the largest of their peaks of memory; nil: it is not known.
	Usage *job.Usage `json:"usage,omitempty"`
}

// jobOf is the part of a job that its file and its record say.
func jobOf(j *job.Job, r record.Record) Job {
	info := &messages.JobInfo{}
	query.AddOrigin(info, j)
	of := Job{ID: int64(j.ID), Name: r.Name(), User: record.User(info.User), Status: j.Status().String(),
		ReadyUS: max(j.Received.Micros(), r.AtUs()), Ops: make([]Op, len(j.Ops))}
	for i := range j.Ops {
		op := &j.Ops[i]
		of.Ops[i] = Op{ID: opID(op.Input), Failed: op.Status == job.Error, BeganUS: op.Exec.Micros(), Usage: job.UsageIn(op.Result)}
		if op.Status.Final() {
			of.Ops[i].EndedUS = op.End.Micros()
		}
	}
	for _, t := range slices.Backward(r.Tries()) { // of an opcode the first one is the last here
		if t.Op >= 0 && t.Op < len(of.Ops) {
			op := &of.Ops[t.Op]
			op.BeganUS = t.BeganUs
			op.Usage = together(op.Usage, job.UsageIn(t.Result))
		}
	}
	return of
}

// opIDMax bounds the OP_ID of an opcode of an unknown kind, in bytes.
const opIDMax = 100

func opID(input json.RawMessage) string {
	text, err := rawjson.ReadText(rawjson.Member(input, "OP_ID"))
	if err != nil {
		return "?"
	}
	return text[:min(len(text), opIDMax)]
}

// together is the usage of two tries.
func together(a, b *job.Usage) *job.Usage {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	both := *a
	if b.MemoryPeakBytes > a.MemoryPeakBytes {
		both = *b
	}
	both.CPUSeconds = a.CPUSeconds + b.CPUSeconds
	return &both
}

package queue

import (
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"lockstep/messages"
)

func TestAdmission(t *testing.T) {
	jobs := func(inputs ...string) *messages.SubmitJobs {
		m := &messages.SubmitJobs{}
		for _, input := range inputs {
			m.Jobs = append(m.Jobs, draftOf(input))
		}
		return m
	}
	limits := Limits{Unfinished: 3, Ops: 1, JobBytes: 4}
	for name, r := range map[string]struct {
		admission admission
		submitted *messages.SubmitJobs
		refusal   string // "": it is accepted
	}{
		"no limits":           {admission{}, jobs("12345", "1"), ""},
		"at the limit":        {admission{limits: limits, unfinished: 1}, jobs("1234", "1"), ""},
		"above the limit":     {admission{limits: limits, unfinished: 2}, jobs("1", "1"), "holds 2 jobs that have not ended, and may hold 3"},
		"too long":            {admission{limits: limits}, jobs("12345"), "A job of 5 bytes is more than the 4"},
		"the second too long": {admission{limits: limits}, jobs("1", "12345"), "Job 2 of 2: A job of 5 bytes"},
		"too many opcodes": {admission{limits: limits}, &messages.SubmitJobs{Jobs: []*messages.JobDraft{{
			Ops: []*messages.OpDraft{{}, {}}}}}, "A job of 2 opcodes is more than the 1"},
		"no opcode":             {admission{}, &messages.SubmitJobs{Jobs: []*messages.JobDraft{{}}}, "at least one opcode"},
		"drained":               {admission{drained: true}, jobs("1"), "Job queue is drained, refusing job"},
		"drained, and ignored":  {admission{drained: true}, &messages.SubmitJobs{IgnoreDrain: true, Jobs: jobs("1").Jobs}, ""},
		"stopping, and ignored": {admission{stopping: actor.NewPID("", "d")}, &messages.SubmitJobs{IgnoreDrain: true}, "The daemon is stopping"},
	} {
		t.Run(name, func(t *testing.T) {
			f := r.admission.refusal(r.submitted)
			if r.refusal == "" {
				require.Nil(t, f)
			} else {
				require.Contains(t, f.Text, r.refusal)
			}
		})
	}
}

// Package drafts makes drafts of jobs for the queue from the opcodes of clients and schedules: it checks them against the catalogue, and
// against the role of who submits them. It is pure.
package drafts

import (
	"encoding/json"
	"fmt"

	"lockstep/core/access"
	"lockstep/core/answer"
	"lockstep/core/opcode"
	"lockstep/messages"
)

// Checks are what opcodes are checked against.
type Checks struct {
	Catalogue *opcode.Catalogue
	Policy    access.Policy
	From      access.Identity // who submits the jobs
}

// Parse parses the opcodes of jobs. It ends at the first opcode with which it has this many mistakes. An opcode with a mistake is nil in
// its draft. The text of a mistake is Ganeti's. refusal is why the opcodes may not be submitted, of the first that may not; nil: all may.
func (c Checks) Parse(jobs [][]json.RawMessage, most int) (drafts []*messages.JobDraft, mistakes []answer.Mistake, refusal error) {
	drafts = make([]*messages.JobDraft, len(jobs))
	for i, ops := range jobs {
		drafts[i] = &messages.JobDraft{Ops: make([]*messages.OpDraft, len(ops))}
		for k, raw := range ops {
			if len(mistakes) >= most {
				return drafts[:i], mistakes, refusal
			}
			op, err := c.Catalogue.Parse(raw)
			if err != nil {
				for _, invalid := range c.Catalogue.Mistakes(raw, err) {
					mistakes = append(mistakes, answer.Mistake{Job: i + 1, Opcode: k + 1, Parameter: invalid.Param, Text: invalid.Text})
				}
				continue
			}
			if err := c.Policy.Submission(c.From, c.Catalogue, op); err != nil && refusal == nil {
				refusal = fmt.Errorf("%w%s", err, Placed(jobs, answer.Mistake{Job: i + 1, Opcode: k + 1}))
			}
			drafts[i].Ops[k] = &messages.OpDraft{Input: op.Input, Secrets: op.Secrets, Priority: int32(op.Priority)}
		}
	}
	return drafts, mistakes, refusal
}

// Placed is the text of a mistake, followed by its opcode and its job, if there are several.
func Placed(jobs [][]json.RawMessage, m answer.Mistake) string {
	text := m.Text
	if several := len(jobs[m.Job-1]); m.Opcode > 0 && several > 1 {
		text += fmt.Sprintf(", in opcode %d of %d", m.Opcode, several)
	}
	if len(jobs) > 1 {
		text += fmt.Sprintf(", in job %d of %d", m.Job, len(jobs))
	}
	return text
}

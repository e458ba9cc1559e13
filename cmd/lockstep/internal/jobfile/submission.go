package jobfile

import (
	"bytes"
	"encoding/json"
	"strconv"

	"lockstep/cmd/lockstep/internal/client"
	"lockstep/core/job"
)

// namesOtherRequest is client.NamesRequest for a step in a file: one that was copied from a job
// would make the daemon answer with that job instead of making a new one.
func namesOtherRequest(step node) bool {
	return step.kind == listNode && len(step.values) > 0 && step.values[0].scalar == any(job.SubmissionSource)
}

// Submission is the jobs of a file, each a list of opcodes, checked as far as that is
// possible without the daemon's catalogue.
type Submission struct {
	Jobs []Job
}

// Job is one job of a file.
type Job struct {
	At   Position
	Name string // by which other jobs of the file can refer to it; "": none
	ops  []node
	// depends are those of the first opcode, if the job says what it comes after.
	depends *node
}

// Parse reads the content of a file with a name: JSON, or YAML. A mistake in
// it is a *PlaceError.
func Parse(name string, data []byte) (Submission, error) {
	root, err := parseFile(name, data)
	if err != nil {
		return Submission{}, err
	}
	return readSubmission(root)
}

// readSubmission finds the jobs in a file: a list of opcodes is one job, a list of jobs
// are many, as is an object with such a list as "jobs". A job among many is a list of
// opcodes, or an object with such a list as "ops".
func readSubmission(root node) (Submission, error) {
	list := root
	if root.kind == objectNode {
		var err error
		if list, err = jobsKey(root); err != nil {
			return Submission{}, err
		}
	} else if root.kind == listNode && len(root.values) > 0 && root.values[0].kind == objectNode && !isJobObject(root.values[0]) {
		job, err := readJob(root)
		return Submission{[]Job{job}}, err
	}
	if list.kind != listNode {
		return Submission{}, errorAt(list.at, "expected a list of opcodes or of jobs, not %s", list.describe())
	}
	if len(list.values) == 0 {
		return Submission{}, errorAt(list.at, "there is no job in the file")
	}
	result := Submission{}
	chain := newJobChain(list.values)
	for _, one := range list.values {
		job, err := chain.next(one)
		if err != nil {
			return Submission{}, err
		}
		result.Jobs = append(result.Jobs, job)
	}
	return result, nil
}

func jobsKey(root node) (node, error) {
	jobs, ok := root.field("jobs")
	if !ok {
		if _, opcode := root.field("OP_ID"); opcode {
			return node{}, errorAt(root.at, "this is an opcode by itself; a job is a list of opcodes")
		}
		return node{}, errorAt(root.at, `the key "jobs" is missing`)
	}
	for i, name := range root.names {
		if name != "jobs" {
			return node{}, errorAt(root.values[i].at, `unknown key %q beside "jobs"`, name)
		}
	}
	return jobs, nil
}

func readJob(from node) (Job, error) {
	if from.kind != listNode {
		return Job{}, errorAt(from.at, "a job is a list of opcodes, this is %s", from.describe())
	}
	if len(from.values) == 0 {
		return Job{}, errorAt(from.at, "a job needs at least one opcode")
	}
	for _, op := range from.values {
		if err := checkOpcode(op); err != nil {
			return Job{}, err
		}
	}
	return Job{At: from.at, ops: from.values}, nil
}

func checkOpcode(op node) error {
	if op.kind != objectNode {
		return errorAt(op.at, "an opcode is an object, this is %s", op.describe())
	}
	id, ok := op.field("OP_ID")
	if !ok {
		return errorAt(op.at, "the opcode has no OP_ID")
	}
	if name, ok := id.scalar.(string); !ok || name == "" {
		return errorAt(id.at, "OP_ID is a name like OP_TEST_DELAY, not %s", id.describe())
	}
	if reason, ok := op.field("reason"); ok && reason.kind != listNode && reason.scalar != nil {
		return errorAt(reason.at, "reason is a list of [source, text, nanoseconds], not %s", reason.describe())
	}
	return nil
}

// ShownJob names a job of the file for people: by its number, from 1, or its name.
func (s Submission) ShownJob(index int) string {
	if name := s.Jobs[index].Name; name != "" {
		return strconv.Quote(name)
	}
	return strconv.Itoa(index + 1)
}

// Encode returns the jobs as they are submitted: with the trails appended to the opcodes'
// reasons (queue.md 3.6).
func (s Submission) Encode(reasons client.Trails) ([][]json.RawMessage, error) {
	jobs := make([][]json.RawMessage, len(s.Jobs))
	for i, job := range s.Jobs {
		for k, op := range job.ops {
			trail := reasons.Other
			if k == 0 {
				trail = reasons.First
			}
			if k == 0 && job.depends != nil {
				op = op.with("depends", *job.depends)
			}
			encoded, err := encodeOpcode(op, trail)
			if err != nil {
				return nil, err
			}
			jobs[i] = append(jobs[i], encoded)
		}
	}
	return jobs, nil
}

func encodeOpcode(op node, trail [][]any) (json.RawMessage, error) {
	reasons := []any{}
	var buffer bytes.Buffer
	buffer.WriteByte('{')
	for i, name := range op.names {
		if name == "reason" {
			for _, step := range op.values[i].values {
				if !namesOtherRequest(step) {
					reasons = append(reasons, step)
				}
			}
			continue
		}
		if err := writeMember(&buffer, name, op.values[i]); err != nil {
			return nil, err
		}
		buffer.WriteByte(',')
	}
	for _, step := range trail {
		reasons = append(reasons, step)
	}
	if err := writeMember(&buffer, "reason", reasons); err != nil {
		return nil, err
	}
	buffer.WriteByte('}')
	return buffer.Bytes(), nil
}

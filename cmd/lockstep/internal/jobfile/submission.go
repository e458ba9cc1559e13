package jobfile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"lockstep/cmd/internal/doctree"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/core/instant"
	"lockstep/core/job"
	"lockstep/core/words"
)

// namesOtherRequest reports whether a reason step names a submission. Such a step was copied
// from a job; with it the daemon would answer with that job and create none.
func namesOtherRequest(step doctree.Node) bool {
	return step.Kind == doctree.List && len(step.Values) > 0 && step.Values[0].Scalar == any(job.SubmissionSource)
}

// Submission is the jobs of a file. All checks that need no daemon are done.
type Submission struct {
	Jobs    []Job
	secrets secrets // no mistake has one
}

// Job is one job of a file.
type Job struct {
	At   doctree.Position
	Name string         // of the job; other jobs of the file may refer to it. "": none
	ops  []doctree.Node // at least one
	// depends replaces the parameter of the first opcode; nil: the job has no "after".
	depends *doctree.Node
	// named are the entries of depends whose ids Resolve sets.
	named []namedEntry
	// Start is when the job may start, after ReadTimes; nil: at once.
	Start *instant.Instant
	// at and delay are the keys that ReadTimes reads; nil: the job does not have them.
	at, delay *doctree.Node
}

// ReadTimes reads when the jobs may start, in the zone of now. The error is Mistakes.
func (s Submission) ReadTimes(now time.Time) error {
	var m Mistakes
	for i := range s.Jobs {
		s.Jobs[i].readTime(now, &m)
	}
	return s.secrets.redact(m.err())
}

func (j *Job) readTime(now time.Time, m *Mistakes) {
	var start instant.Instant
	var err error
	key := j.at
	switch {
	case j.at != nil && j.delay != nil:
		m.addf(j.delay.At, `the job has "at" and "delay"; it can have one of them`)
		return
	case j.at != nil:
		start, err = instant.Parse(fmt.Sprint(j.at.Scalar), now, now.Location())
	case j.delay != nil:
		key = j.delay
		var d time.Duration
		if d, err = words.ParseDuration(fmt.Sprint(key.Scalar)); err == nil {
			start, err = instant.After(d, now)
		}
	default:
		return
	}
	if err != nil {
		m.addf(key.At, "%v", err)
		return
	}
	j.Start = &start
}

// HasSecrets reports whether a job of the file has a secret.
func (s Submission) HasSecrets() bool { return len(s.secrets) > 0 }

// namedEntry is an entry of "after" with the name of a job that is not in the file.
type namedEntry struct {
	index int // in depends
	name  string
	at    doctree.Position
}

// Resolve sets the ids of the jobs that "after" names and that are not in the file. resolve returns the id of a name; it is
// called once for each name. Resolve precedes Encode. A mistake is a *doctree.Error.
func (s Submission) Resolve(resolve func(name string) (int64, error)) error {
	ids := map[string]int64{}
	for _, job := range s.Jobs {
		for _, entry := range job.named {
			id, known := ids[entry.name]
			if !known {
				var err error
				if id, err = resolve(entry.name); err != nil {
					return s.secrets.redact(doctree.Errorf(entry.at, "no earlier job of the file has the name %q, and %v", entry.name, err))
				}
				ids[entry.name] = id
			}
			number := json.Number(strconv.FormatInt(id, 10))
			for i, other := range job.depends.Values {
				if i != entry.index && len(other.Values) > 0 && other.Values[0].Scalar == any(number) {
					return s.secrets.redact(
						doctree.Errorf(entry.at, "%q is job %d, which the job comes after already; remove one of the two", entry.name, id))
				}
			}
			job.depends.Values[entry.index].Values[0].Scalar = number
		}
	}
	return nil
}

// Parse reads the content of the file called name. directory is the absolute path in which commands of the short form run, unless
// they have a "cwd". The error is Mistakes: all mistakes of the file.
func Parse(name, directory string, data []byte) (Submission, error) {
	r := newReader(directory)
	root, ok := r.file(name, data)
	if !ok {
		return Submission{}, r.err()
	}
	unreadable := slices.Clone(r.Mistakes)
	hidden := secretsIn(root)
	result := Submission{r.submission(root), hidden}
	r.Mistakes = append(unreadable, slices.DeleteFunc(r.Mistakes[len(unreadable):], func(later *doctree.Error) bool {
		return slices.ContainsFunc(unreadable, func(m *doctree.Error) bool { return m.At == later.At }) // a consequence
	})...)
	return result, hidden.redact(r.err())
}

// KeepOutput sets the parameter keep_output of the opcodes that run a command and do not have it. A job without such an opcode has no
// output to keep: its place is in the *doctree.Error. Not to keep it is right for any job.
func (s Submission) KeepOutput(keep bool, runsCommand func(name string) bool) error {
	for i, job := range s.Jobs {
		runs := false
		for k, op := range job.ops {
			id, _ := op.Field("OP_ID")
			if name, _ := id.Scalar.(string); !runsCommand(name) {
				continue
			}
			runs = true
			if _, given := op.Field("keep_output"); !given {
				job.ops[k] = op.With("keep_output", doctree.Node{Kind: doctree.Scalar, Scalar: keep})
			}
		}
		if keep && !runs {
			return doctree.Errorf(job.At, "job %s runs no command, so it has no output to keep", s.ShownJob(i))
		}
	}
	return nil
}

// submission finds the jobs in a file. A list of opcodes is one job, and so is an object with "run", "steps" or "ops". Several jobs
// are a list, or an object with the list as "jobs"; each is a list of opcodes, or an object.
func (r *reader) submission(root doctree.Node) []Job {
	list := root
	_, several := root.Field("jobs")
	switch {
	case root.Kind == doctree.Object && !several && r.isJobObject(root):
		list = doctree.Node{Kind: doctree.List, At: root.At, Values: []doctree.Node{root}}
	case root.Kind == doctree.Object:
		var ok bool
		if list, ok = r.jobsKey(root); !ok {
			return nil
		}
	case root.Kind == doctree.List && r.isOpcodeList(root.Values):
		return []Job{{At: root.At, ops: r.steps(root, false)}}
	}
	if list.Kind != doctree.List {
		r.wrong(list, "want a list of opcodes or a list of jobs, found %s", list.Describe())
		return nil
	}
	if len(list.Values) == 0 {
		r.addf(list.At, "there is no job in the file")
	}
	r.expect(list.Values)
	var jobs []Job
	for _, one := range list.Values {
		jobs = append(jobs, r.next(one))
	}
	return jobs
}

// isOpcodeList reports whether a list of opcodes, not of jobs, begins with these values.
func (r *reader) isOpcodeList(values []doctree.Node) bool {
	return len(values) > 0 && values[0].Kind == doctree.Object && !slices.ContainsFunc(values, r.isJobObject)
}

func (r *reader) jobsKey(root doctree.Node) (doctree.Node, bool) {
	jobs, ok := root.Field("jobs")
	_, opcode := root.Field("OP_ID")
	switch {
	case !ok && opcode:
		r.addf(root.At, "this is an opcode; a job is a list of opcodes")
	case !ok:
		r.addf(root.At, `the key "jobs" is missing, or "run", the command of a single job`)
	}
	for _, key := range root.Keys {
		if key.Name != "jobs" && ok {
			r.addf(key.At, `unknown key %q beside "jobs"`, key.Name)
		}
	}
	return jobs, ok
}

// steps reads the opcodes of a job. short: commands in the short form may be among them.
func (r *reader) steps(from doctree.Node, short bool) []doctree.Node {
	if from.Kind != doctree.List {
		r.wrong(from, "a job is a list of opcodes, this is %s", from.Describe())
		return nil
	}
	if len(from.Values) == 0 {
		r.addf(from.At, "a job needs at least one opcode")
	}
	ops := make([]doctree.Node, len(from.Values))
	for i, op := range from.Values {
		switch {
		case short && isCommand(op):
			ops[i] = r.checkBuiltin(r.command(op))
		case op.Kind != doctree.Invalid && r.add(checkOpcode(op, short)):
			if priority, given := op.Field("priority"); short && given {
				op = op.With("priority", r.priority(priority))
			}
			ops[i] = r.checkBuiltin(op)
		}
	}
	return ops
}

func checkOpcode(op doctree.Node, short bool) error {
	if op.Kind != doctree.Object {
		return doctree.Errorf(op.At, "an opcode is an object, this is %s", op.Describe())
	}
	id, ok := op.Field("OP_ID")
	switch {
	case !ok && short:
		return doctree.Errorf(op.At, "the step has no run, and no OP_ID")
	case !ok:
		return doctree.Errorf(op.At, "the opcode has no OP_ID")
	}
	if name, ok := id.Scalar.(string); !ok || name == "" {
		return doctree.Errorf(id.At, "OP_ID is a name like OP_TEST_DELAY, not %s", id.Describe())
	}
	if reason, ok := op.Field("reason"); ok && reason.Kind != doctree.List && reason.Scalar != nil {
		return doctree.Errorf(reason.At, "reason is a list of [source, text, nanoseconds], not %s", reason.Describe())
	}
	return nil
}

// Beside is what a job has beside its opcodes.
type Beside struct {
	Name string     // "": none
	At   *time.Time // it starts no earlier; nil: at once
}

// Beside is what the jobs have beside their opcodes.
func (s Submission) Beside() []Beside {
	all := make([]Beside, len(s.Jobs))
	for i, job := range s.Jobs {
		all[i].Name = job.Name
		if job.Start != nil {
			all[i].At = &job.Start.At
		}
	}
	return all
}

// ShownJob is the displayed name of a job: its quoted name, or its number from 1.
func (s Submission) ShownJob(index int) string {
	if name := s.Jobs[index].Name; name != "" {
		return strconv.Quote(name)
	}
	return strconv.Itoa(index + 1)
}

// Encode returns the jobs as they are submitted. The trails are appended to the reasons of the
// opcodes (queue.md 3.6).
func (s Submission) Encode(reasons client.Trails) ([][]json.RawMessage, error) {
	jobs := make([][]json.RawMessage, len(s.Jobs))
	for i, job := range s.Jobs {
		for k, op := range job.ops {
			trail := reasons.Other
			if k == 0 {
				trail = reasons.First
			}
			if k == 0 && job.depends != nil {
				op = op.With("depends", *job.depends)
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

func encodeOpcode(op doctree.Node, trail [][]any) (json.RawMessage, error) {
	reasons := []any{}
	var buffer bytes.Buffer
	buffer.WriteByte('{')
	for i, key := range op.Keys {
		if key.Name == "reason" {
			for _, step := range op.Values[i].Values {
				if !namesOtherRequest(step) {
					reasons = append(reasons, step)
				}
			}
			continue
		}
		if err := doctree.WriteMember(&buffer, key.Name, op.Values[i]); err != nil {
			return nil, err
		}
		buffer.WriteByte(',')
	}
	for _, step := range trail {
		reasons = append(reasons, step)
	}
	if err := doctree.WriteMember(&buffer, "reason", reasons); err != nil {
		return nil, err
	}
	buffer.WriteByte('}')
	return buffer.Bytes(), nil
}

package jobfile

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"lockstep/cmd/internal/doctree"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/core/answer"
	"lockstep/core/record"
)

// reader reads the jobs of a file in order, resolves their "after" keys, and collects the mistakes.
type reader struct {
	Mistakes
	directory   string // absolute; commands run there, and their "cwd" is relative to it
	jobKeys     []string
	commandKeys []string
	params      map[string][]answer.OpcodeParam // of the opcodes of the built-in catalogue that the file has

	names map[string]int  // name to index, from 0, of the jobs that are read
	all   map[string]bool // the names of all jobs of the file
	read  int             // number of jobs that are read
}

func newReader(directory string) *reader {
	return &reader{directory: directory, jobKeys: names(JobFields()), commandKeys: names(CommandFields()),
		params: map[string][]answer.OpcodeParam{}}
}

// expect collects the names of all jobs: an error can then distinguish a reference to a later job
// from a reference to an unknown job.
func (r *reader) expect(jobs []doctree.Node) {
	r.names, r.all = map[string]int{}, map[string]bool{}
	for _, job := range jobs {
		if name, ok := job.Field("name"); ok {
			if text, ok := name.Scalar.(string); ok {
				r.all[text] = true
			}
		}
	}
}

// wrong adds a mistake about the kind of a value, unless the value is Invalid, whose mistake is reported already.
func (r *reader) wrong(n doctree.Node, format string, args ...any) {
	if n.Kind != doctree.Invalid {
		r.addf(n.At, format, args...)
	}
}

// isJobObject reports whether n is a job that is written as an object, not an opcode. One key of a job is enough: others may be mistyped.
func (r *reader) isJobObject(n doctree.Node) bool {
	_, isOpcode := n.Field("OP_ID")
	return n.Kind == doctree.Object && !isOpcode && slices.ContainsFunc(n.Keys, func(key doctree.Key) bool {
		return slices.Contains(r.jobKeys, key.Name) || slices.Contains(r.commandKeys, key.Name)
	})
}

func (r *reader) next(from doctree.Node) Job {
	job := r.job(from)
	if job.Name != "" {
		r.names[job.Name] = r.read
	}
	r.read++
	return job
}

// content returns the key that has the steps of a job: run, steps or ops. Without one it is "".
func (r *reader) content(job doctree.Node) string {
	found := ""
	for _, key := range job.Keys {
		if !slices.Contains([]string{"run", "steps", "ops"}, key.Name) {
			continue
		}
		if found != "" {
			r.addf(key.At, "the job has %q and %q; it can have one of run, steps and ops", found, key.Name)
		}
		found = cmp.Or(found, key.Name)
	}
	return found
}

func (r *reader) job(from doctree.Node) Job {
	if _, isOpcode := from.Field("OP_ID"); from.Kind != doctree.Object || isOpcode {
		return Job{At: from.At, ops: r.steps(from, false)}
	}
	job := Job{At: from.At}
	content := r.content(from)
	steps, _ := from.Field(content)
	switch content {
	case "run":
		job.ops = []doctree.Node{r.checkBuiltin(r.command(from, "name", "after", "at", "delay", "steps", "ops"))}
	case "":
		if !r.unknownKeys(from, true) {
			r.addf(from.At, `the job has no "run", its command, and no "steps" or "ops"`)
		}
	default:
		r.unknownKeys(from, false)
		job.ops = r.steps(steps, content == "steps")
	}
	r.readKeys(from, content, &job)
	return job
}

// unknownKeys adds a mistake for each key that is of no job. commands: keys of a command are known too. It reports whether there was one.
func (r *reader) unknownKeys(from doctree.Node, commands bool) (found bool) {
	for _, key := range from.Keys {
		isOfCommand := slices.Contains(r.commandKeys, key.Name)
		switch {
		case slices.Contains(r.jobKeys, key.Name), commands && isOfCommand:
			continue
		case isOfCommand:
			r.addf(key.At, "%q belongs to a step, not to a job of several steps", key.Name)
		default:
			r.addf(key.At, "unknown key %q of a job%s", key.Name,
				didYouMean(key.Name, slices.Concat(r.jobKeys, r.commandKeys), "; it has "+strings.Join(r.jobKeys, ", ")))
		}
		found = true
	}
	return found
}

// readKeys reads name, after, at, delay and priority.
func (r *reader) readKeys(from doctree.Node, content string, job *Job) {
	for i, key := range from.Keys {
		value := from.Values[i]
		var err error
		switch key.Name {
		case "name":
			job.Name, err = r.newName(value)
		case "after":
			first := doctree.Node{}
			if len(job.ops) > 0 {
				first = job.ops[0]
			}
			job.depends, job.named, err = r.depends(first, value)
		case "at":
			value = r.text(value, "at")
			job.at = &value
		case "delay":
			value = r.text(value, "delay")
			job.delay = &value
		case "priority":
			if content == "run" {
				continue
			}
			value = r.priority(value)
			for k, op := range job.ops {
				if _, own := op.Field("priority"); !own {
					job.ops[k] = op.With("priority", value)
				}
			}
		}
		if value.Kind != doctree.Invalid {
			r.add(err)
		}
	}
}

func (r *reader) newName(value doctree.Node) (string, error) {
	name, ok := value.Scalar.(string)
	if !ok || name == "" {
		return "", doctree.Errorf(value.At, "the name of a job is a string, not %s", value.Describe())
	}
	if strings.Trim(name, "0123456789-") == "" {
		return "", doctree.Errorf(value.At, "the name %q could be taken for the id of a job; add a letter", name)
	}
	if err := record.CheckName(name); err != nil {
		return "", doctree.Errorf(value.At, "%v", err)
	}
	if before, twice := r.names[name]; twice {
		return "", doctree.Errorf(value.At, "job %[2]d of the file has the name %[1]q already", name, before+1)
	}
	return name, nil
}

// depends returns the parameter "depends" of the first opcode: its own entries, then the jobs of "after". The ids of named
// entries are set later.
func (r *reader) depends(first, after doctree.Node) (depends *doctree.Node, named []namedEntry, err error) {
	list := doctree.Node{Kind: doctree.List, At: after.At}
	if own, ok := first.Field("depends"); ok && own.Describe() != "null" {
		switch {
		case own.Kind == doctree.Invalid:
			return nil, nil, nil
		case own.Kind != doctree.List:
			return nil, nil, doctree.Errorf(own.At, "depends is a list of [id, [status, ...]], not %s", own.Describe())
		}
		list.Values = slices.Clone(own.Values)
	}
	references := []doctree.Node{after}
	if after.Kind == doctree.List {
		references = after.Values
	}
	met := map[string]bool{}
	for _, reference := range references {
		id, statuses, err := r.reference(reference)
		if err == nil && met[id] {
			err = doctree.Errorf(reference.At, "the job comes after the same job twice; remove one of the two")
		}
		if reference.Kind == doctree.Invalid || !r.add(err) {
			continue
		}
		met[id] = true
		if name, isName := strings.CutPrefix(id, namePrefix); isName {
			named = append(named, namedEntry{len(list.Values), name, reference.At})
		}
		list.Values = append(list.Values, doctree.Node{Kind: doctree.List, At: reference.At,
			Values: []doctree.Node{{Scalar: json.Number(id)}, statuses}})
	}
	return &list, named, nil
}

// namePrefix precedes the name of a job that is not in the file, in the place of its id.
const namePrefix = "name:"

// reference reads one entry of "after": a name, an id, either with :STATUS,..., or an object with "job" and "status".
// It returns the statuses and the id as it is submitted; the id of a job of this file is relative.
func (r *reader) reference(from doctree.Node) (id string, statuses doctree.Node, err error) {
	job := from
	statuses = doctree.Node{Kind: doctree.List, Values: []doctree.Node{{Scalar: client.StatusSuccess}}}
	if from.Kind == doctree.Object {
		named, ok := from.Field("job")
		if !ok {
			return "", statuses, doctree.Errorf(from.At, `the key "job" is missing`)
		}
		job = named
		for i, key := range from.Keys {
			switch key.Name {
			case "job":
			case "status":
				statuses, err = readStatuses(from.Values[i])
			default:
				err = doctree.Errorf(from.Values[i].At, `unknown key %q; there are "job" and "status"`, key.Name)
			}
			if err != nil {
				return "", statuses, err
			}
		}
	}
	if text, list, given := strings.Cut(fmt.Sprint(job.Scalar), ":"); given && from.Kind == doctree.Scalar {
		job.Scalar, statuses.Values = any(text), nil
		if number, err := strconv.ParseInt(text, 10, 64); err == nil {
			job.Scalar = number
		}
		for status := range strings.SplitSeq(list, ",") {
			statuses.Values = append(statuses.Values, doctree.Node{At: from.At, Scalar: status})
		}
		statuses, err = readStatuses(statuses)
	}
	if err == nil {
		id, err = r.id(job)
	}
	return id, statuses, err
}

func readStatuses(from doctree.Node) (doctree.Node, error) {
	list := from
	if from.Kind != doctree.List {
		list = doctree.Node{Kind: doctree.List, At: from.At, Values: []doctree.Node{from}}
	}
	for _, one := range list.Values {
		if text, ok := one.Scalar.(string); !ok || !client.Final(text) {
			return list, doctree.Errorf(one.At, "a job ends with success, error or canceled, not with %s", quoted(one))
		}
	}
	if len(list.Values) == 0 {
		return list, doctree.Errorf(from.At, "name at least one of success, error and canceled")
	}
	return list, nil
}

// id returns the id of the job that a name or number refers to, or namePrefix and the name of a job that is not in the file.
func (r *reader) id(job doctree.Node) (string, error) {
	name, isName := job.Scalar.(string)
	if job.Kind != doctree.Scalar || !isName {
		number, err := strconv.ParseInt(fmt.Sprint(job.Scalar), 10, 64)
		if job.Kind != doctree.Scalar || err != nil || number < 1 {
			return "", doctree.Errorf(job.At,
				"want the name of an earlier job of this file, or the id or name of an existing job, found %s", quoted(job))
		}
		return strconv.FormatInt(number, 10), nil
	}
	before, known := r.names[name]
	switch {
	case known:
		return strconv.Itoa(before - r.read), nil
	case r.all[name]:
		return "", doctree.Errorf(job.At,
			"the job %q is not before this job in the file; a job can only come after earlier jobs: move it up", name)
	}
	if err := record.CheckName(name); err != nil {
		return "", doctree.Errorf(job.At, "no job of this file has the name %q, and none can: %v; write an id without quotes", name, err)
	}
	return namePrefix + name, nil
}

// quoted shows a scalar; of another value it names the kind.
func quoted(n doctree.Node) string {
	if n.Kind != doctree.Scalar || n.Scalar == nil {
		return n.Describe()
	}
	return cli.JSONText(n.Scalar)
}

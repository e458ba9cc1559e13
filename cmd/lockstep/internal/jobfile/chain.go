package jobfile

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"lockstep/cmd/internal/doctree"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/core/record"
)

// jobChain reads the jobs of a file in order and resolves their "after" keys.
type jobChain struct {
	names map[string]int  // name to index, from 0, of the jobs that are read
	all   map[string]bool // the names of all jobs of the file
	read  int             // number of jobs that are read
}

// newJobChain collects all names: an error can then distinguish a reference to a later job
// from a reference to an unknown job.
func newJobChain(jobs []doctree.Node) *jobChain {
	c := &jobChain{names: map[string]int{}, all: map[string]bool{}}
	for _, job := range jobs {
		if name, ok := job.Field("name"); ok {
			if text, ok := name.Scalar.(string); ok {
				c.all[text] = true
			}
		}
	}
	return c
}

// isJobObject reports whether n is a job that is written as an object, not an opcode.
func isJobObject(n doctree.Node) bool {
	_, ops := n.Field("ops")
	_, opcode := n.Field("OP_ID")
	return n.Kind == doctree.Object && ops && !opcode
}

func (c *jobChain) next(from doctree.Node) (Job, error) {
	job, err := c.job(from)
	if err == nil && job.Name != "" {
		c.names[job.Name] = c.read
	}
	c.read++
	return job, err
}

func (c *jobChain) job(from doctree.Node) (Job, error) {
	if from.Kind != doctree.Object {
		return readJob(from)
	}
	ops, ok := from.Field("ops")
	if !ok {
		if _, opcode := from.Field("OP_ID"); opcode {
			return readJob(from) // reports the mistake
		}
		return Job{}, doctree.Errorf(from.At, `the job has no "ops", the list of its opcodes`)
	}
	job, err := readJob(ops)
	if err != nil {
		return Job{}, err
	}
	job.At = from.At
	for i, key := range from.Keys {
		value := from.Values[i]
		switch key.Name {
		case "ops":
		case "name":
			job.Name, err = c.newName(value)
		case "after":
			job.depends, job.named, err = c.depends(job.ops[0], value)
		default:
			err = doctree.Errorf(value.At, `unknown key %q of a job; it has "name", "after" and "ops"`, key.Name)
		}
		if err != nil {
			return Job{}, err
		}
	}
	return job, nil
}

func (c *jobChain) newName(value doctree.Node) (string, error) {
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
	if before, twice := c.names[name]; twice {
		return "", doctree.Errorf(value.At, "job %[2]d of the file has the name %[1]q already", name, before+1)
	}
	return name, nil
}

// depends returns the parameter "depends" of the first opcode: its own entries, then the jobs of "after". The ids of named
// entries are set later.
func (c *jobChain) depends(first, after doctree.Node) (depends *doctree.Node, named []namedEntry, err error) {
	list := doctree.Node{Kind: doctree.List, At: after.At}
	if own, ok := first.Field("depends"); ok && own.Describe() != "null" {
		if own.Kind != doctree.List {
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
		id, statuses, err := c.reference(reference)
		if err != nil {
			return nil, nil, err
		}
		if met[id] {
			return nil, nil, doctree.Errorf(reference.At, "the job comes after the same job twice; remove one of the two")
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

// reference reads one entry of "after": a name, an id, or an object with "job" and "status".
// It returns the statuses and the id as it is submitted; the id of a job of this file is relative.
func (c *jobChain) reference(from doctree.Node) (id string, statuses doctree.Node, err error) {
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
	id, err = c.id(job)
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
func (c *jobChain) id(job doctree.Node) (string, error) {
	name, isName := job.Scalar.(string)
	if job.Kind != doctree.Scalar || !isName {
		number, err := strconv.ParseInt(fmt.Sprint(job.Scalar), 10, 64)
		if job.Kind != doctree.Scalar || err != nil || number < 1 {
			return "", doctree.Errorf(job.At,
				"want the name of an earlier job of this file, or the id or name of an existing job, found %s", quoted(job))
		}
		return strconv.FormatInt(number, 10), nil
	}
	before, known := c.names[name]
	switch {
	case known:
		return strconv.Itoa(before - c.read), nil
	case c.all[name]:
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

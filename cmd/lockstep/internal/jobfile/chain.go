package jobfile

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
)

// jobChain reads the jobs of a file one after the other, and finds the jobs before that
// each comes after.
type jobChain struct {
	names map[string]int // of jobs that were read, counted from 0
	later map[string]bool
	read  int
}

// newJobChain reads names only: an error can then tell a reference to a later job from a
// reference to no job.
func newJobChain(jobs []node) *jobChain {
	c := &jobChain{names: map[string]int{}, later: map[string]bool{}}
	for _, job := range jobs {
		if name, ok := job.field("name"); ok {
			if text, ok := name.scalar.(string); ok {
				c.later[text] = true
			}
		}
	}
	return c
}

// isJobObject tells a job that is written as an object from an opcode.
func isJobObject(n node) bool {
	_, ops := n.field("ops")
	_, opcode := n.field("OP_ID")
	return n.kind == objectNode && ops && !opcode
}

func (c *jobChain) next(from node) (Job, error) {
	job, err := c.job(from)
	if err == nil && job.Name != "" {
		c.names[job.Name] = c.read
	}
	c.read++
	return job, err
}

func (c *jobChain) job(from node) (Job, error) {
	if from.kind != objectNode {
		return readJob(from)
	}
	ops, ok := from.field("ops")
	if !ok {
		if _, opcode := from.field("OP_ID"); opcode {
			return readJob(from) // which says what is wrong
		}
		return Job{}, errorAt(from.at, `the job has no "ops", the list of its opcodes`)
	}
	job, err := readJob(ops)
	if err != nil {
		return Job{}, err
	}
	job.At = from.at
	for i, key := range from.names {
		value := from.values[i]
		switch key {
		case "ops":
		case "name":
			job.Name, err = c.newName(value)
		case "after":
			job.depends, err = c.depends(job.ops[0], value)
		default:
			err = errorAt(value.at, `unknown key %q of a job; it has "name", "after" and "ops"`, key)
		}
		if err != nil {
			return Job{}, err
		}
	}
	return job, nil
}

func (c *jobChain) newName(value node) (string, error) {
	name, ok := value.scalar.(string)
	if !ok || name == "" {
		return "", errorAt(value.at, "the name of a job is a text, not %s", value.describe())
	}
	if strings.Trim(name, "0123456789-") == "" {
		return "", errorAt(value.at, "the name %q could be taken for the id of a job; add a letter", name)
	}
	if before, twice := c.names[name]; twice {
		return "", errorAt(value.at, "the name %q is that of job %d of the file, too", name, before+1)
	}
	return name, nil
}

// depends is the value of the parameter "depends" for the first opcode: what that has
// itself, and what the job comes after.
func (c *jobChain) depends(first, after node) (*node, error) {
	list := node{kind: listNode, at: after.at}
	if own, ok := first.field("depends"); ok && own.describe() != "null" {
		if own.kind != listNode {
			return nil, errorAt(own.at, "depends is a list of [id, [status, ...]], not %s", own.describe())
		}
		list.values = slices.Clone(own.values)
	}
	references := []node{after}
	if after.kind == listNode {
		references = after.values
	}
	met := map[string]bool{}
	for _, reference := range references {
		id, statuses, err := c.reference(reference)
		if err != nil {
			return nil, err
		}
		if met[id] {
			return nil, errorAt(reference.at, "the job comes twice after the same one")
		}
		met[id] = true
		list.values = append(list.values, node{kind: listNode, at: reference.at,
			values: []node{{scalar: json.Number(id)}, statuses}})
	}
	return &list, nil
}

// reference reads one entry of "after": a name, an id, or an object with "job" and "status".
// It returns the id as it is submitted, which for a job of this file is relative, and the
// statuses.
func (c *jobChain) reference(from node) (id string, statuses node, err error) {
	job := from
	statuses = node{kind: listNode, values: []node{{scalar: client.StatusSuccess}}}
	if from.kind == objectNode {
		named, ok := from.field("job")
		if !ok {
			return "", statuses, errorAt(from.at, `the key "job" is missing`)
		}
		job = named
		for i, key := range from.names {
			switch key {
			case "job":
			case "status":
				statuses, err = readStatuses(from.values[i])
			default:
				err = errorAt(from.values[i].at, `unknown key %q; there are "job" and "status"`, key)
			}
			if err != nil {
				return "", statuses, err
			}
		}
	}
	id, err = c.id(job)
	return id, statuses, err
}

func readStatuses(from node) (node, error) {
	list := from
	if from.kind != listNode {
		list = node{kind: listNode, at: from.at, values: []node{from}}
	}
	for _, one := range list.values {
		if text, ok := one.scalar.(string); !ok || !client.Final(text) {
			return list, errorAt(one.at, "a job ends with success, error or canceled, not with %s", one.quoted())
		}
	}
	if len(list.values) == 0 {
		return list, errorAt(from.at, "name at least one of success, error and canceled")
	}
	return list, nil
}

// id finds the job that a name or number stands for.
func (c *jobChain) id(job node) (string, error) {
	name, isName := job.scalar.(string)
	if job.kind != scalarNode || !isName {
		number, err := strconv.ParseInt(fmt.Sprint(job.scalar), 10, 64)
		if job.kind != scalarNode || err != nil || number < 1 {
			return "", errorAt(job.at, "a job comes after the name of one of this file, or the id of one that exists, not after %s", job.quoted())
		}
		return strconv.FormatInt(number, 10), nil
	}
	before, known := c.names[name]
	switch {
	case known:
		return strconv.Itoa(before - c.read), nil
	case c.later[name]:
		return "", errorAt(job.at, "the job %q does not stand before this one in the file; a job can only come after earlier ones", name)
	}
	return "", errorAt(job.at, "there is no job of the name %q in this file", name)
}

// quoted shows a scalar, and says of anything else what it is.
func (n node) quoted() string {
	if n.kind != scalarNode || n.scalar == nil {
		return n.describe()
	}
	return cli.JSONText(n.scalar)
}

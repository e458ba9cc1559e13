// Package opcode is the catalogue of opcodes (queue.md 1.5, 3.3 and 8). From a submitted opcode it makes the form that
// job files contain, without secrets, or says what is wrong with it. For a stored opcode it returns the line that
// describes it, and the command of an opcode that an operator has defined (Expand). Its locks are those that core/demand
// tells (Declare, RequiredLocks).
//
// It is pure. JSON values keep the client's spelling, also of numbers. Only white space around tokens is removed. The
// caller may change returned slices. Input slices are never changed.
package opcode

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"

	"lockstep/core/demand"
)

// The facts about opcodes. Both files have the same form. "types" names type expressions (see typeNames.parse).
// "opcodes" maps OP_ID to the parameter that the summary shows, if any, and to the opcode's own parameters in the order
// of job files. A parameter is [name, type] if it is required, else [name, type, default]; the default null marks an
// optional parameter that is not in the job file while unset. "docs" maps own parameters to what they are for.
var (
	//go:embed ganeti.json
	ganetiFacts []byte
	//go:embed lockstep.json
	lockstepFacts []byte
)

// Param is one parameter of an opcode.
type Param struct {
	Name    string
	Type    Type
	Default json.RawMessage // nil if required; "null" if optional without a default
	Secret  bool            // the value is never written to the disk (queue.md 3.3)

	Doc string // the operator's description

	// storedUnset: an unset optional parameter is null in the job file. Otherwise it is not in the file.
	storedUnset bool
}

// Required reports whether a submitted opcode must have the parameter. A required parameter may be null only if its
// type allows null.
func (p *Param) Required() bool { return p.Default == nil }

// Opcode describes one kind of opcode: its OP_ID and its parameters. It is immutable.
type Opcode struct {
	Name   string  // OP_ID
	Params []Param // in the order of the job file: the opcode's own parameters, then the common ones (queue.md 8.1)
	Doc    string  // the operator's description

	summary string         // name of the parameter that the summary shows, "" for none
	index   map[string]int // parameter name to position in Params

	// requiredLocks computes the locks of an opcode that names them in its parameters. It is nil for opcodes of the
	// lock table. Parse calls it without the resources of the cluster, and returns its errors.
	requiredLocks demand.Source

	compiled *compiledDefinition // the command of an opcode that an operator has defined, nil for other opcodes

	user       string     // of the Definition
	submitters Submitters // of the Definition

	lockstep bool // it is in the file of lockstep's own facts
}

// Defined reports whether the opcode comes from a Definition. Then Expand returns its command.
func (op *Opcode) Defined() bool { return op.compiled != nil }

// RunsCommand reports whether an opcode with this OP_ID executes a command: one that an operator has defined does.
func RunsCommand(name string) bool {
	_, known := Builtin().Lookup(name)
	return !known || name == demand.RunCommand
}

// Runs reports whether lockstep's job process has an executor for the opcode: one of lockstep's own, or declared in opcodes.d.
func (op *Opcode) Runs() bool {
	switch op.Name {
	case "OP_CLUSTER_QUERY", "OP_CLUSTER_REDIST_CONF", "OP_CLUSTER_SET_PARAMS", "OP_QUERY", "OP_QUERY_FIELDS", "OP_RUN_COMMAND",
		"OP_TEST_DELAY", "OP_TEST_JQUEUE", "OP_TEST_OS_PARAMS":
		return true
	}
	return op.Defined()
}

// Catalogue is the set of opcodes that a daemon knows. It is immutable, so any number of goroutines may use it.
type Catalogue struct {
	opcodes map[string]*Opcode
	names   []string // sorted
}

var builtin = sync.OnceValue(func() *Catalogue {
	c, err := load(ganetiFacts, lockstepFacts)
	if err != nil {
		panic("built-in opcode catalogue: " + err.Error())
	}
	return c
})

// Builtin is the catalogue of every opcode of Ganeti 3.0 and of lockstep's own OP_RUN_COMMAND. The first call builds it,
// which takes about two milliseconds.
func Builtin() *Catalogue { return builtin() }

// Lookup finds an opcode by its OP_ID; nil and false: the catalogue does not have it.
func (c *Catalogue) Lookup(name string) (*Opcode, bool) {
	op, ok := c.opcodes[name]
	return op, ok
}

// Names are the OP_IDs of all opcodes, sorted.
func (c *Catalogue) Names() []string { return slices.Clone(c.names) }

// SecretNames returns the names of all parameters that are secret in some opcode, sorted.
func (c *Catalogue) SecretNames() []string {
	var names []string
	for _, op := range c.opcodes {
		for i := range op.Params {
			if op.Params[i].Secret {
				names = append(names, op.Params[i].Name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// opcodeFacts is an opcode in the form of the embedded files.
type opcodeFacts struct {
	Summary string              `json:"summary"`
	Docs    map[string]string   `json:"docs"` // what a parameter is for, by its name
	Params  [][]json.RawMessage `json:"params"`
}

// load builds a catalogue from files of facts: Ganeti's opcodes first, lockstep's in the further files. The named types of a file are
// valid only in that file. The files are part of the program, so an error is about a mistake of its authors, such as an opcode that is in
// two files.
func load(files ...[]byte) (*Catalogue, error) {
	c := &Catalogue{opcodes: map[string]*Opcode{}}
	for i, file := range files {
		var facts struct {
			Types   map[string]string      `json:"types"`
			Opcodes map[string]opcodeFacts `json:"opcodes"`
		}
		if err := json.Unmarshal(file, &facts); err != nil {
			return nil, err
		}
		types := newVocabulary(facts.Types)
		for _, name := range slices.Sorted(maps.Keys(facts.Opcodes)) {
			if _, duplicate := c.opcodes[name]; duplicate {
				return nil, fmt.Errorf("%s is declared twice", name)
			}
			op, err := newOpcode(name, facts.Opcodes[name], types)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			if name == demand.RunCommand {
				op.requiredLocks = demand.OfCommand
			}
			op.lockstep = i > 0
			c.opcodes[name] = op
		}
	}
	c.names = slices.Sorted(maps.Keys(c.opcodes))
	return c, nil
}

func newOpcode(name string, facts opcodeFacts, types *typeNames) (*Opcode, error) {
	op := &Opcode{Name: name, summary: facts.Summary, index: map[string]int{}}
	for _, fact := range facts.Params {
		p, err := newParam(fact, types)
		if err != nil {
			return nil, err
		}
		p.Doc = facts.Docs[p.Name]
		op.Params = append(op.Params, p)
	}
	op.Params = append(op.Params, commonParams()...)
	for i := range op.Params {
		p := &op.Params[i]
		if _, duplicate := op.index[p.Name]; duplicate || p.Name == idKey {
			return nil, fmt.Errorf("parameter %s is declared twice", p.Name)
		}
		if p.Default != nil && string(p.Default) != "null" {
			if bad := p.Type.check(p.Default); bad != nil {
				return nil, fmt.Errorf("default of parameter %s: %s", p.Name, bad.text())
			}
		}
		op.index[p.Name] = i
	}
	if _, known := op.index[op.summary]; op.summary != "" && !known {
		return nil, fmt.Errorf("the summary shows %s, which is no parameter", op.summary)
	}
	return op, nil
}

// newParam reads [name, type] or [name, type, default].
func newParam(fact []json.RawMessage, types *typeNames) (Param, error) {
	if len(fact) != 2 && len(fact) != 3 {
		return Param{}, fmt.Errorf("a parameter has %d elements, want [name, type] or [name, type, default]", len(fact))
	}
	var name, expr string
	if err := json.Unmarshal(fact[0], &name); err != nil {
		return Param{}, err
	}
	if err := json.Unmarshal(fact[1], &expr); err != nil {
		return Param{}, err
	}
	t, err := types.parse(expr)
	if err != nil {
		return Param{}, fmt.Errorf("parameter %s: %w", name, err)
	}
	p := Param{Name: name, Type: t, Secret: name == nestedSecret || name == "secret_env"}
	if len(fact) == 3 {
		p.Default = fact[2]
	}
	return p, nil
}

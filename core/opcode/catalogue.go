// Package opcode is the catalogue of opcodes (queue.md 1.5, 3.3 and 8). It is given a submitted opcode and returns the
// form that job files hold, with secrets taken out, or what is wrong with it. For a stored opcode it returns the line
// that describes it, the locks that it is expected to ask for (Declare), the locks that it must hold (RequiredLocks),
// and the command that an operator's definition makes of it (Expand).
//
// It is pure. JSON values are kept as the client spelled them, numbers above all; only white space around tokens is
// dropped. The returned slices are the caller's, input slices are never changed.
package opcode

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"

	"lockstep/core/lock"
)

// The facts about opcodes. Both files have the same form: "types" names type expressions (see parseType), "opcodes" maps
// OP_ID to the parameter that the summary shows, if any, and to the opcode's own parameters in the order in which job
// files hold them. A parameter is [name, type] if it is required, else [name, type, default]; the default null stands
// for an optional parameter that stays out of the job file while unset.
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
	Default json.RawMessage // nil if required; "null" if optional without a value of its own
	Secret  bool            // real values never reach the disk (queue.md 3.3)

	Doc string // what an operator wrote about it

	// storedUnset makes an unset optional parameter appear as null in the job file instead of not at all.
	storedUnset bool
}

// Required tells whether a submitted opcode must have the parameter. A required one may be null only if its type says so.
func (p *Param) Required() bool { return p.Default == nil }

// Opcode is one kind of opcode. It is immutable.
type Opcode struct {
	Name   string  // OP_ID
	Params []Param // in the order of the job file: the opcode's own ones, then the common ones (queue.md 8.1)
	Doc    string  // what an operator wrote about it

	summary string         // name of the parameter that the summary shows, "" for none
	index   map[string]int // parameter name to position in Params

	// requiredLocks is the locks of an opcode that names them in its parameters, nil for those of the lock table. Parse
	// refuses what it refuses, without knowing the cluster.
	requiredLocks func(*opcodeParams) (lock.RequiredLocks, *Invalid)

	compiled *compiledDefinition // what an opcode of an operator's definition runs, nil for other opcodes
}

// Defined tells whether the opcode comes from a Definition, so that Expand says what it runs.
func (op *Opcode) Defined() bool { return op.compiled != nil }

// Catalogue is a set of opcodes. It is immutable, so any number of goroutines may use it.
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

// Lookup finds an opcode by its OP_ID.
func (c *Catalogue) Lookup(name string) (*Opcode, bool) {
	op, ok := c.opcodes[name]
	return op, ok
}

// Names are the OP_IDs of all opcodes, sorted.
func (c *Catalogue) Names() []string { return slices.Clone(c.names) }

// opcodeFacts is an opcode as the embedded files spell it.
type opcodeFacts struct {
	Summary string              `json:"summary"`
	Params  [][]json.RawMessage `json:"params"`
}

// load builds a catalogue from files of facts. Types named in one file are known in that file alone.
func load(files ...[]byte) (*Catalogue, error) {
	c := &Catalogue{opcodes: map[string]*Opcode{}}
	for _, file := range files {
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
			if name == "OP_RUN_COMMAND" {
				op.requiredLocks = commandLocks
			}
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

package opcode

import (
	"encoding/json"
	"strings"

	"lockstep/core/config"
	"lockstep/core/demand"
	"lockstep/core/lock"
	"lockstep/core/rawjson"
)

// namedLocks is how an opcode names its locks, nil if it does not.
func (c *Catalogue) namedLocks(name string) demand.Source {
	if op := c.opcodes[name]; op != nil {
		return op.requiredLocks
	}
	return nil
}

// Declare predicts the locks that an opcode, given by its input, will ask for (demand.Declare).
func (c *Catalogue) Declare(input json.RawMessage, resources *config.Resources) lock.Declaration {
	p := demand.Read(input, resources)
	return demand.Declare(p, c.namedLocks(p.Opcode))
}

// RequiredLocks is the locks that an opcode, given by its stored input, must hold while lockstep executes it
// (demand.Required). The error is a *Failure.
func (c *Catalogue) RequiredLocks(input json.RawMessage, resources *config.Resources) (lock.RequiredLocks, error) {
	p := demand.Read(input, resources)
	n, bad := demand.Required(p, c.namedLocks(p.Opcode))
	if bad != nil {
		return lock.RequiredLocks{}, failureOf(bad)
	}
	return n, nil
}

// CheckShortLockNames refuses short names of free locks that may mean other locks (demand.CheckShortNames). The
// input is that of a Draft. The error is an *Invalid.
func (c *Catalogue) CheckShortLockNames(input json.RawMessage, resources *config.Resources, ganetiMode bool) error {
	p := demand.Read(input, resources)
	if bad := demand.CheckShortNames(p, ganetiMode); bad != nil {
		return &Invalid{Opcode: p.Opcode, Param: bad.Param, Text: bad.Text}
	}
	return nil
}

func failureOf(bad *demand.Refusal) *Failure {
	return &Failure{Class: prereqError, Text: bad.Text, Code: bad.Code}
}

// lockTemplate names the locks of an opcode that an operator has defined.
type lockTemplate struct {
	name      template
	mode      lock.Mode
	listParam string // the list parameter, each element of which is one lock; "" for none
}

// requiredLocks is the locks of a defined opcode.
func (p *compiledDefinition) requiredLocks(g *demand.Params) (lock.RequiredLocks, *demand.Refusal) {
	var wanted []demand.Wanted
	for i := range p.locks {
		var bad *demand.Refusal
		if wanted, bad = p.locks[i].appendTo(wanted, g); bad != nil {
			return lock.RequiredLocks{}, bad
		}
	}
	return g.Resolve(wanted)
}

// appendTo adds the locks of the template: none if the template has an unset parameter.
func (t *lockTemplate) appendTo(wanted []demand.Wanted, g *demand.Params) ([]demand.Wanted, *demand.Refusal) {
	for param := range t.name.params {
		if param != t.listParam {
			if bad := checkLockParam(param, g.Value(param)); bad != nil {
				return nil, bad
			}
		}
	}
	list := g.Value(t.listParam)
	if t.listParam == "" || len(list) > 0 && list[0] != '[' { // a type may allow both a list and a single value
		if name, complete := t.name.expand(g.Value); complete {
			wanted = append(wanted, demand.Wanted{Name: name, Mode: t.mode})
		}
		return wanted, checkLockParam(t.listParam, list)
	}
	for element := range rawjson.Elements(list) {
		if bad := checkLockParam(t.listParam, element); bad != nil {
			return nil, bad
		}
		name, complete := t.name.expand(func(param string) json.RawMessage {
			if param == t.listParam {
				return element
			}
			return g.Value(param)
		})
		if complete {
			wanted = append(wanted, demand.Wanted{Name: name, Mode: t.mode})
		}
	}
	return wanted, nil
}

// checkLockParam refuses a value that would make the lock a group, which only the text of a definition may name, or a
// lock without a name.
func checkLockParam(param string, v json.RawMessage) *demand.Refusal {
	if v == nil {
		return nil
	}
	switch text := textOf(v); {
	case text == "":
		return demand.Refuse(param, "it is empty, but a lock is named after it")
	case strings.Contains(text, "[lockset]"):
		return demand.Refuse(param, "a lock is named after it, and [lockset] would be all of them: name those that are needed")
	}
	return nil
}

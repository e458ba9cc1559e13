package opcode

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"lockstep/core/demand"
	"lockstep/core/rawjson"
)

// Command is the command of an opcode. Its JSON is the parameters of OP_RUN_COMMAND.
type Command struct {
	Argv      []string          `json:"argv"`
	Env       map[string]string `json:"env,omitempty"`
	SecretEnv map[string]string `json:"secret_env,omitempty"` // must never be stored or shown
	Cwd       *string           `json:"cwd,omitempty"`
	Stdin     *string           `json:"stdin,omitempty"`
	Timeout   *float64          `json:"timeout,omitempty"` // seconds
}

// compiledDefinition is a Definition that has been checked.
type compiledDefinition struct {
	secrets []string // names of parameters
	command []template
	env     []variable // in order of their names
	cwd     template   // nil for none; the same holds for the next two
	stdin   template
	timeout template
	locks   []lockTemplate
}

type variable struct {
	name   string
	value  template
	secret bool // contains a secret parameter
}

// Expand is the command of a defined opcode, from its stored input and the secrets that Parse removed from it. The
// error is a *Failure: the definition or the secrets are lost, or the input is invalid for a definition that has
// changed.
func (c *Catalogue) Expand(input, secrets json.RawMessage) (Command, error) {
	p := demand.Read(input, nil)
	op, known := c.opcodes[p.Opcode]
	if !known || !op.Defined() {
		return Command{}, &Failure{Class: "OpCodeUnknown", Text: "Unknown opcode"}
	}
	if missing := restoreSecrets(p, op.compiled.secrets, secrets); missing != "" {
		return Command{}, &Failure{Class: prereqError, Code: wrongInput, Text: "the value of " + missing + " is gone: it is kept in " +
			"memory only, and the daemon has restarted since the job was submitted. Submit it again"}
	}
	command, bad := op.compiled.expand(p)
	if bad != nil {
		return Command{}, &Failure{Class: prereqError, Text: bad.Text, Code: wrongInput}
	}
	return command, nil
}

// restoreSecrets replaces redacted values by the secrets. It returns the name of the first missing secret.
func restoreSecrets(g *demand.Params, params []string, secrets json.RawMessage) (missing string) {
	secret := demand.Read(secrets, nil)
	for _, param := range params {
		if !bytes.Contains(g.Value(param), []byte(redactedToken)) { // unset, or without secret values
			continue
		}
		value := secret.Value(param)
		if value == nil {
			return param
		}
		g.Replace(param, value)
	}
	return ""
}

// expand fills in the templates. It leaves out what has an unset parameter. An Invalid says which value a command cannot have.
func (p *compiledDefinition) expand(g *demand.Params) (Command, *Invalid) {
	var c Command
	for _, t := range p.command {
		if v := g.Value(t.soleParam()); t.soleParam() != "" && len(v) > 0 && v[0] == '[' {
			for element := range rawjson.Elements(v) {
				c.Argv = append(c.Argv, textOf(element))
			}
		} else if text, complete := t.expand(g.Value); complete {
			c.Argv = append(c.Argv, text)
		}
	}
	if len(c.Argv) == 0 || c.Argv[0] == "" {
		return Command{}, p.command[0].valueError("it would be the name of the program, which is empty")
	}
	for _, v := range p.env {
		text, complete := v.value.expand(g.Value)
		switch {
		case !complete:
		case v.secret:
			c.SecretEnv = withEntry(c.SecretEnv, v.name, text)
		default:
			c.Env = withEntry(c.Env, v.name, text)
		}
	}
	if text, complete := p.stdin.expand(g.Value); complete && p.stdin != nil {
		c.Stdin = &text
	}
	if text, complete := p.cwd.expand(g.Value); complete && p.cwd != nil {
		if !strings.HasPrefix(text, "/") {
			return Command{}, p.cwd.valueError("the working directory would be " + rawjson.Quoted(text) + ", want an absolute path")
		}
		c.Cwd = &text
	}
	if text, complete := p.timeout.expand(g.Value); complete && p.timeout != nil {
		if !isSeconds(json.RawMessage(text)) {
			return Command{}, p.timeout.valueError("the time-out would be " + rawjson.Quoted(text) + ", want " + seconds.description)
		}
		timeout, _ := strconv.ParseFloat(text, 64)
		c.Timeout = &timeout
	}
	return c, p.checkNUL(g)
}

// valueError is the error for a value that is not valid in the template.
func (t template) valueError(text string) *Invalid {
	for param := range t.params {
		return paramError(param, text)
	}
	return &Invalid{Text: text}
}

func withEntry(m map[string]string, key, value string) map[string]string {
	if m == nil {
		m = map[string]string{}
	}
	m[key] = value
	return m
}

// checkNUL checks that a part of a command line, an environment or a path contains no NUL, which would end it.
func (p *compiledDefinition) checkNUL(g *demand.Params) *Invalid {
	templates := append([]template{p.cwd}, p.command...)
	for _, v := range p.env {
		templates = append(templates, v.value)
	}
	for _, t := range templates {
		for param := range t.params {
			v := g.Value(param)
			bad := strings.IndexByte(textOf(v), 0) >= 0
			for element := range rawjson.Elements(v) {
				bad = bad || strings.IndexByte(textOf(element), 0) >= 0
			}
			if bad {
				return paramError(param, "it contains NUL, which cannot be part of a command")
			}
		}
	}
	return nil
}

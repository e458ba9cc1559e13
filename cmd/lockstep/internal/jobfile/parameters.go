package jobfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"lockstep/cmd/internal/doctree"
	"lockstep/core/answer"
	"lockstep/core/opcode"
	"lockstep/core/retry"
	"lockstep/core/words"
)

// builtinParams are the parameters of an opcode of the built-in catalogue, nil if it has no such opcode.
func builtinParams(name string) []answer.OpcodeParam {
	op, known := opcode.Builtin().Lookup(name)
	if !known {
		return nil
	}
	params := make([]answer.OpcodeParam, len(op.Params))
	for i := range op.Params {
		p := &op.Params[i]
		params[i] = answer.OpcodeParam{Name: p.Name, Type: fmt.Sprint(p.Type), Required: p.Required(), Doc: p.Doc, Secret: p.Secret}
	}
	return params
}

// opcodeID is the name of an opcode whose form is checked.
func opcodeID(op doctree.Node) (name string, at doctree.Position) {
	id, _ := op.Field("OP_ID")
	name, _ = id.Scalar.(string)
	return name, id.At
}

// checkBuiltin checks an opcode as the daemon does, if it is in the built-in catalogue. It returns the opcode with its durations in
// seconds.
func (r *reader) checkBuiltin(op doctree.Node) doctree.Node {
	name, at := opcodeID(op)
	known, ok := opcode.Builtin().Lookup(name)
	if !ok {
		return op
	}
	params, met := r.params[name]
	if !met {
		params = builtinParams(name)
		r.params[name] = params
	}
	before := len(r.Mistakes)
	op = r.parameters(op, params, known.Check)
	if len(r.Mistakes) > before || isInvalid(op) {
		return op
	}
	encoded, err := json.Marshal(op)
	if err == nil {
		_, err = opcode.Builtin().Parse(encoded)
	}
	if err != nil {
		r.addf(parameterPlace(op, err, at), "%v", err)
	}
	return op
}

// parameterPlace is the place of the parameter that an error names, or the place at.
func parameterPlace(op doctree.Node, err error, at doctree.Position) doctree.Position {
	var bad *opcode.Invalid
	if errors.As(err, &bad) {
		if value, given := op.Field(bad.Param); given {
			return value.At
		}
	}
	return at
}

// parameters compares the parameters of an opcode with those that it can have. accepts checks the value of one, nil if only the daemon
// can. It returns the opcode with its durations in seconds.
func (m *Mistakes) parameters(
	op doctree.Node, params []answer.OpcodeParam, accepts func(param string, value json.RawMessage) error,
) doctree.Node {
	id, at := opcodeID(op)
	var names []string
	for _, p := range params {
		names = append(names, p.Name)
		if _, given := op.Field(p.Name); p.Required && !given {
			m.addf(at, "%s needs the parameter %s, %s", id, p.Name, p.Type)
		}
	}
	for i, key := range op.Keys {
		k := slices.Index(names, key.Name)
		switch {
		case key.Name == "OP_ID" || isInvalid(op.Values[i]):
		case k < 0:
			m.addf(key.At, "%s has no parameter %q%s", id, key.Name,
				didYouMean(key.Name, names, fmt.Sprintf(`; "lockstep opcode show %s" lists them`, id)))
		default:
			value, err := parameter(params[k], op.Values[i], accepts)
			if err != nil {
				m.addf(value.At, "%v", err)
			} else if value.Scalar != op.Values[i].Scalar || value.Kind == doctree.Object {
				op = op.With(key.Name, value)
			}
		}
	}
	return op
}

// parameter checks one value. A text that is a duration becomes seconds where a number is wanted.
func parameter(p answer.OpcodeParam, value doctree.Node, accepts func(string, json.RawMessage) error) (doctree.Node, error) {
	check := func(n doctree.Node) error {
		encoded, err := json.Marshal(n)
		if err == nil && accepts != nil {
			err = accepts(p.Name, encoded)
		}
		return err
	}
	if value.Kind == doctree.Object && p.Type == retry.Wanted {
		value.Values = slices.Clone(value.Values)
		for i, member := range value.Values {
			value.Values[i] = member.Seconds()
		}
	}
	err := check(value)
	text, isText := value.Scalar.(string)
	if value.Kind != doctree.Scalar || !isText || !takesSeconds(p.Type) || accepts != nil && err == nil {
		return value, err
	}
	duration, mistake := words.ParseDuration(text)
	switch {
	case mistake == nil:
		value.Scalar = json.Number(strconv.FormatFloat(duration.Seconds(), 'f', -1, 64))
		return value, check(value)
	case err != nil && !p.Secret: // an error must not have the value of a secret
		err = fmt.Errorf("%s: %w", p.Name, mistake)
	}
	return value, err
}

// takesSeconds reports whether a duration can be the value of a parameter, by the daemon's text for its type.
func takesSeconds(words string) bool {
	return strings.HasPrefix(strings.TrimPrefix(words, "null or "), "a number")
}

// CheckDeclared checks the opcodes that are not in the built-in catalogue. declared returns the parameters of one, and an error that no
// job may have it; params nil: the daemon decides. It is called once for each OP_ID. A mistake is in Mistakes.
func (s Submission) CheckDeclared(declared func(name string) (params []answer.OpcodeParam, err error)) error {
	type opcodeAnswer struct {
		params []answer.OpcodeParam
		err    error
	}
	known := map[string]opcodeAnswer{}
	var m Mistakes
	for _, job := range s.Jobs {
		for i, op := range job.ops {
			name, at := opcodeID(op)
			found, asked := known[name]
			if !asked {
				found.params, found.err = declared(name)
				known[name] = found
			}
			_, builtin := opcode.Builtin().Lookup(name)
			switch {
			case found.err != nil:
				m.addf(at, "%v", found.err)
			case found.params != nil && !builtin:
				job.ops[i] = m.parameters(op, found.params, nil)
			}
		}
	}
	return s.secrets.redact(m.err())
}

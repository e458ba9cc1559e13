package opcodefiles

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"lockstep/cmd/internal/doctree"
	"lockstep/core/opcode"
	"lockstep/core/words"
)

// definitionReader reads definitions and records the line of each field.
type definitionReader struct {
	definitions []*parsedDefinition
	mistakes    mistakes
}

type parsedDefinition struct {
	definition opcode.Definition
	path       string
	lines      map[string]int // by field, with the names of opcode.DefinitionError; "" is the definition itself
	invalid    bool           // the file has a mistake that is in the list already
}

// line is the line of a field; for an unknown field, of the closest field around it.
func (d *parsedDefinition) line(field string) int {
	for field != "" {
		if line, known := d.lines[field]; known {
			return line
		}
		field = field[:max(0, strings.LastIndexAny(field, ".["))]
	}
	return d.lines[""]
}

func (r *definitionReader) file(path string) {
	data, err := os.ReadFile(path)
	if err != nil {
		var cause *os.PathError
		if errors.As(err, &cause) {
			err = cause.Err
		}
		r.mistakes = append(r.mistakes, mistake{path, 0, err.Error()})
		return
	}
	documents, invalid := doctree.ParseYAML(data)
	for _, document := range documents {
		d := &parsedDefinition{path: path, lines: map[string]int{}, invalid: len(invalid) > 0}
		r.definitions = append(r.definitions, d)
		reader := fieldReader{parsedDefinition: d, mistakes: &r.mistakes}
		reader.definition(document)
	}
	for _, err := range invalid {
		var placed *doctree.Error
		if errors.As(err, &placed) {
			r.mistakes = append(r.mistakes, mistake{path, placed.At.Line, placed.Text})
		}
	}
	if len(documents)+len(invalid) == 0 {
		r.mistakes = append(r.mistakes, mistake{path, 0, "there is no opcode in it"})
	}
}

// fieldReader reads one definition, field by field.
type fieldReader struct {
	*parsedDefinition
	mistakes *mistakes
}

func (r *fieldReader) addMistake(at doctree.Position, field, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if field != "" {
		text = field + ": " + text
	}
	*r.mistakes = append(*r.mistakes, mistake{r.path, at.Line, text})
	r.invalid = true
}

// fields maps the keys of an object to the functions that read their values.
type fields map[string]func(n doctree.Node, field string)

func (r *fieldReader) definition(n doctree.Node) {
	d := &r.parsedDefinition.definition
	r.lines[""] = n.At.Line
	r.object(n, "", fields{
		"name":    r.text(&d.Name),
		"doc":     r.text(&d.Doc),
		"summary": r.text(&d.Summary),
		"params": r.list(func(n doctree.Node, field string) {
			d.Params = append(d.Params, opcode.ParamDefinition{})
			r.param(n, field, &d.Params[len(d.Params)-1])
		}),
		"command": r.list(func(n doctree.Node, field string) {
			d.Command = append(d.Command, "")
			r.text(&d.Command[len(d.Command)-1])(n, field)
		}),
		"env": func(n doctree.Node, field string) {
			d.Env = map[string]string{}
			r.eachMember(n, field, func(key string) string { return field + "." + key }, func(key doctree.Key, value doctree.Node, field string) {
				var text string
				r.text(&text)(value, field)
				d.Env[key.Name] = text
			})
		},
		"cwd":         r.text(&d.Cwd),
		"stdin":       r.text(&d.Stdin),
		"keep_output": r.flag(&d.KeepOutput),
		"retry":       r.retry(&d.Retry),
		"limits":      r.limits(&d.Limits),
		"user":        r.text(&d.User),
		"submit":      r.submitters(&d.Submitters),
		"timeout": func(n doctree.Node, field string) {
			r.text(&d.Timeout)(n, field)
			if took, err := words.ParseDuration(d.Timeout); err == nil {
				d.Timeout = strconv.FormatFloat(took.Seconds(), 'f', -1, 64)
			}
		},
		"locks": func(n doctree.Node, field string) {
			position := func(string) string { return field + "[" + strconv.Itoa(len(d.Locks)) + "]" }
			r.eachMember(n, field, position, func(key doctree.Key, value doctree.Node, field string) {
				d.Locks = append(d.Locks, opcode.LockDefinition{Lock: key.Name})
				r.text(&d.Locks[len(d.Locks)-1].Mode)(value, field)
			})
		},
	})
}

// retry reads a policy, whose durations may have units.
func (r *fieldReader) retry(to *json.RawMessage) func(doctree.Node, string) {
	return func(n doctree.Node, field string) {
		for i := range n.Keys {
			n.Values[i] = n.Values[i].Seconds()
		}
		r.limits(to)(n, field)
	}
}

// limits reads an object, whose members package opcode checks.
func (r *fieldReader) limits(to *json.RawMessage) func(doctree.Node, string) {
	return func(n doctree.Node, field string) {
		for _, key := range n.Keys {
			r.lines[field+"."+key.Name] = key.At.Line
		}
		var err error
		if *to, err = json.Marshal(n); err != nil {
			r.addMistake(n.At, field, "%v", err)
		}
	}
}

// submitters reads true, false, or a list of users and groups.
func (r *fieldReader) submitters(to *opcode.Submitters) func(doctree.Node, string) {
	return func(n doctree.Node, field string) {
		if n.Kind != doctree.List {
			if _, ok := n.Scalar.(bool); !ok && n.Kind != doctree.Invalid {
				r.addMistake(n.At, field, "want true, or a list of names of users and of group:NAME, found %s", describeNode(n))
				return
			}
			r.flag(&to.All)(n, field)
			return
		}
		var elements []string
		r.list(func(n doctree.Node, field string) {
			elements = append(elements, "")
			r.text(&elements[len(elements)-1])(n, field)
		})(n, field)
		var err error
		if *to, err = opcode.ParseSubmitters(elements); err != nil && !r.invalid {
			r.addMistake(n.At, field, "%v", err)
		}
	}
}

func (r *fieldReader) param(n doctree.Node, field string, p *opcode.ParamDefinition) {
	r.object(n, field, fields{
		"name":     r.text(&p.Name),
		"type":     r.text(&p.Type),
		"doc":      r.text(&p.Doc),
		"required": r.flag(&p.Required),
		"secret":   r.flag(&p.Secret),
		"default": func(n doctree.Node, field string) {
			var err error
			if p.Default, err = json.Marshal(n); err != nil {
				r.addMistake(n.At, field, "%v", err)
			}
		},
	})
}

// object reads an object; a key that is not in known is a mistake.
func (r *fieldReader) object(n doctree.Node, field string, known fields) {
	inner := func(key string) string {
		if field == "" {
			return key
		}
		return field + "." + key
	}
	r.eachMember(n, field, inner, func(key doctree.Key, value doctree.Node, field string) {
		read, ok := known[key.Name]
		if !ok {
			names := slices.Sorted(maps.Keys(known))
			r.addMistake(key.At, field, "there is no such field, but %s", strings.Join(names, ", "))
			return
		}
		read(value, field)
	})
}

// eachMember reads the members of an object. inner names the field of a key.
func (r *fieldReader) eachMember(
	n doctree.Node, field string,
	inner func(key string) string, read func(key doctree.Key, value doctree.Node, field string),
) {
	if !r.want(n, doctree.Object, field, `"key: value" lines`) {
		return
	}
	for i, key := range n.Keys {
		name := inner(key.Name)
		r.lines[name] = key.At.Line
		read(key, n.Values[i], name)
	}
}

// want reports whether n is of a kind. It adds a mistake if n is valid and of another kind.
func (r *fieldReader) want(n doctree.Node, kind doctree.Kind, field, what string) bool {
	if n.Kind == kind {
		return true
	}
	if n.Kind != doctree.Invalid {
		r.addMistake(n.At, field, "want %s, found %s", what, describeNode(n))
	}
	return false
}

func (r *fieldReader) list(read func(n doctree.Node, field string)) func(doctree.Node, string) {
	return func(n doctree.Node, field string) {
		if !r.want(n, doctree.List, field, "a list") {
			return
		}
		for i, element := range n.Values {
			inner := field + "[" + strconv.Itoa(i) + "]"
			r.lines[inner] = element.At.Line
			read(element, inner)
		}
	}
}

// text reads a scalar as it is spelled: each text of a definition is a template, numbers included.
func (r *fieldReader) text(to *string) func(doctree.Node, string) {
	return func(n doctree.Node, field string) {
		switch {
		case !r.want(n, doctree.Scalar, field, "a text"):
		case n.Scalar == nil:
			r.addMistake(n.At, field, "want a text, found nothing")
		default:
			*to = n.Text
		}
	}
}

func (r *fieldReader) flag(to *bool) func(doctree.Node, string) {
	return func(n doctree.Node, field string) {
		value, ok := n.Scalar.(bool)
		if !r.want(n, doctree.Scalar, field, "true or false") {
			return
		}
		if !ok {
			r.addMistake(n.At, field, "want true or false, found %s", describeNode(n))
		}
		*to = value
	}
}

// describeNode names a value in the terms of YAML.
func describeNode(n doctree.Node) string {
	switch {
	case n.Kind == doctree.Object:
		return `"key: value" lines (text with a colon in it needs quotes)`
	case n.Kind == doctree.List:
		return "a list"
	case n.Scalar == nil:
		return "nothing"
	}
	return strconv.Quote(n.Text)
}

package opcodefiles

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"lockstep/core/opcode"
)

// definitionReader reads definitions and remembers where everything was.
type definitionReader struct {
	definitions []*parsedDefinition
	mistakes    mistakes
}

type parsedDefinition struct {
	definition opcode.Definition
	path       string
	lines      map[string]int // by field, as opcode.DefinitionError names it; "" is the definition itself
	invalid    bool           // something in it could not be read
}

// line is where a field is, or the field that it belongs to.
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
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	for before := len(r.definitions); ; {
		var document yaml.Node
		err := decoder.Decode(&document)
		switch {
		case errors.Is(err, io.EOF):
			if len(r.definitions) == before {
				r.mistakes = append(r.mistakes, mistake{path, 0, "there is no opcode in it"})
			}
			return
		case err != nil:
			line, text := yamlError(err)
			r.mistakes = append(r.mistakes, mistake{path, line, text})
			return
		}
		d := &parsedDefinition{path: path, lines: map[string]int{}}
		r.definitions = append(r.definitions, d)
		reader := fieldReader{parsedDefinition: d, mistakes: &r.mistakes}
		reader.definition(document.Content[0])
	}
}

// yamlError takes the line out of an error of the YAML reader: "yaml: line 3: ...".
func yamlError(err error) (line int, text string) {
	text = strings.TrimPrefix(err.Error(), "yaml: ")
	if _, scanErr := fmt.Sscanf(text, "line %d:", &line); scanErr != nil {
		return 0, text
	}
	_, text, _ = strings.Cut(text, ": ")
	return line, text
}

// fieldReader reads one definition, field by field.
type fieldReader struct {
	*parsedDefinition
	mistakes *mistakes
}

func (r *fieldReader) addMistake(n *yaml.Node, field, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if field != "" {
		text = field + ": " + text
	}
	*r.mistakes = append(*r.mistakes, mistake{r.path, n.Line, text})
	r.invalid = true
}

// fields maps the keys of an object to what reads their values.
type fields map[string]func(n *yaml.Node, field string)

func (r *fieldReader) definition(n *yaml.Node) {
	d := &r.parsedDefinition.definition
	r.lines[""] = n.Line
	r.object(n, "", fields{
		"name":    r.text(&d.Name),
		"doc":     r.text(&d.Doc),
		"summary": r.text(&d.Summary),
		"params": r.list(func(n *yaml.Node, field string) {
			d.Params = append(d.Params, opcode.ParamDefinition{})
			r.param(n, field, &d.Params[len(d.Params)-1])
		}),
		"command": r.list(func(n *yaml.Node, field string) {
			d.Command = append(d.Command, "")
			r.text(&d.Command[len(d.Command)-1])(n, field)
		}),
		"env": func(n *yaml.Node, field string) {
			d.Env = map[string]string{}
			r.eachMember(n, field, func(key string) string { return field + "." + key }, func(key *yaml.Node, value *yaml.Node, field string) {
				var text string
				r.text(&text)(value, field)
				d.Env[key.Value] = text
			})
		},
		"cwd":     r.text(&d.Cwd),
		"stdin":   r.text(&d.Stdin),
		"timeout": r.text(&d.Timeout),
		"locks": func(n *yaml.Node, field string) {
			position := func(string) string { return field + "[" + strconv.Itoa(len(d.Locks)) + "]" }
			r.eachMember(n, field, position, func(key *yaml.Node, value *yaml.Node, field string) {
				d.Locks = append(d.Locks, opcode.LockDefinition{Lock: key.Value})
				r.text(&d.Locks[len(d.Locks)-1].Mode)(value, field)
			})
		},
	})
}

func (r *fieldReader) param(n *yaml.Node, field string, p *opcode.ParamDefinition) {
	r.object(n, field, fields{
		"name":     r.text(&p.Name),
		"type":     r.text(&p.Type),
		"doc":      r.text(&p.Doc),
		"required": r.flag(&p.Required),
		"secret":   r.flag(&p.Secret),
		"default": func(n *yaml.Node, field string) {
			value, ok := r.value(n, field)
			if !ok {
				return
			}
			var err error
			if p.Default, err = json.Marshal(value); err != nil {
				r.addMistake(n, field, "%v", err)
			}
		},
	})
}

// object reads an object that has only these fields.
func (r *fieldReader) object(n *yaml.Node, field string, known fields) {
	inner := func(key string) string {
		if field == "" {
			return key
		}
		return field + "." + key
	}
	r.eachMember(n, field, inner, func(key, value *yaml.Node, field string) {
		read, ok := known[key.Value]
		if !ok {
			names := make([]string, 0, len(known))
			for name := range known {
				names = append(names, name)
			}
			slices.Sort(names)
			r.addMistake(key, field, "there is no such field, but %s", strings.Join(names, ", "))
			return
		}
		read(value, field)
	})
}

// eachMember reads the members of an object, each once.
func (r *fieldReader) eachMember(n *yaml.Node, field string, inner func(key string) string, read func(key, value *yaml.Node, field string)) {
	if n.Kind != yaml.MappingNode {
		r.addMistake(n, field, "want \"key: value\" lines, found %s", describeNode(n))
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		name := inner(key.Value)
		switch {
		case key.Kind != yaml.ScalarNode || key.ShortTag() == "!!merge":
			r.addMistake(key, field, "want a plain word in front of the colon")
			continue
		case seen[key.Value]:
			r.addMistake(key, name, "%q is there twice", key.Value)
			continue
		}
		seen[key.Value] = true
		r.lines[name] = key.Line
		read(key, value, name)
	}
}

func (r *fieldReader) list(read func(n *yaml.Node, field string)) func(*yaml.Node, string) {
	return func(n *yaml.Node, field string) {
		if n.Kind != yaml.SequenceNode {
			r.addMistake(n, field, "want a list, found %s", describeNode(n))
			return
		}
		for i, element := range n.Content {
			inner := field + "[" + strconv.Itoa(i) + "]"
			r.lines[inner] = element.Line
			read(element, inner)
		}
	}
}

// text reads what is no list and no object as it is spelled: all texts of a definition are templates, which numbers and
// the like are as well.
func (r *fieldReader) text(to *string) func(*yaml.Node, string) {
	return func(n *yaml.Node, field string) {
		if n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null" {
			r.addMistake(n, field, "want a text, found %s", describeNode(n))
			return
		}
		*to = n.Value
	}
}

func (r *fieldReader) flag(to *bool) func(*yaml.Node, string) {
	return func(n *yaml.Node, field string) {
		if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!bool" || n.Decode(to) != nil {
			r.addMistake(n, field, "want true or false, found %s", describeNode(n))
		}
	}
}

// value reads a value as JSON has it.
func (r *fieldReader) value(n *yaml.Node, field string) (value any, ok bool) {
	switch n.Kind {
	case yaml.SequenceNode:
		all := make([]any, len(n.Content))
		for i, element := range n.Content {
			if all[i], ok = r.value(element, field); !ok {
				return nil, false
			}
		}
		return all, true
	case yaml.MappingNode:
		all := map[string]any{}
		good := true
		r.eachMember(n, field, func(string) string { return field }, func(key, element *yaml.Node, field string) {
			all[key.Value], ok = r.value(element, field)
			good = good && ok
		})
		return all, good
	case yaml.ScalarNode:
		return r.scalar(n, field)
	}
	r.addMistake(n, field, "want a value, found %s", describeNode(n))
	return nil, false
}

// scalar reads numbers as they are spelled, where JSON would spell them alike.
func (r *fieldReader) scalar(n *yaml.Node, field string) (value any, ok bool) {
	switch n.ShortTag() {
	case "!!str", "!!timestamp": // JSON has no times: what looks like one is its text
		return n.Value, true
	case "!!null":
		return nil, true
	case "!!int", "!!float":
		if json.Valid([]byte(n.Value)) {
			return json.Number(n.Value), true
		}
	}
	err := n.Decode(&value)
	if number, isFloat := value.(float64); err != nil || isFloat && (math.IsInf(number, 0) || math.IsNaN(number)) {
		r.addMistake(n, field, "%q is no value that JSON has", n.Value)
		return nil, false
	}
	return value, true
}

// describeNode says what a node is, in words.
func describeNode(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return `"key: value" lines (text with a colon in it needs quotes)`
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Kind == yaml.AliasNode:
		return "an alias: write it out"
	case n.ShortTag() == "!!null":
		return "nothing"
	}
	return strconv.Quote(n.Value)
}

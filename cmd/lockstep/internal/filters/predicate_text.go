package filters

import (
	"slices"
	"strconv"
	"strings"

	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/cli"
)

// predicateText shows one predicate of a filter rule, [name, expression], in words, or an invalid
// one as JSON.
func predicateText(predicate any, watermark int64) string {
	pair, ok := predicate.([]any)
	if !ok || len(pair) != 2 {
		return cli.JSONText(predicate)
	}
	reader := expressionReader{watermark: watermark}
	switch pair[0] {
	case "jobid":
		reader.fields = map[string]string{"id": "job"}
		return reader.text(pair[1], loosest)
	case "opcode":
		reader.fields = map[string]string{"OP_ID": "opcode"}
		return reader.text(pair[1], loosest)
	case "reason":
		return reader.text(pair[1], loosest)
	case "lock":
		reader.fields = map[string]string{"name": "lock", "mode": "mode of the lock"}
		return reader.text(pair[1], loosest)
	case "user":
		reader.fields = map[string]string{"name": "user", "uid": "uid"}
		return reader.text(pair[1], loosest)
	case "name":
		return reader.text(pair[1], loosest)
	}
	return cli.JSONText(predicate)
}

// The precedence of operators, from loosest to tightest.
const (
	loosest = iota
	looser  // or
	tighter // and
)

// expressionReader turns expressions (queue.md 2.1) into text.
type expressionReader struct {
	watermark int64
	fields    map[string]string // displayed names of fields, where they differ
}

// text shows an expression in words, inside an operator with the precedence within. What is invalid is shown as JSON.
func (r expressionReader) text(expression any, within int) string {
	if expression == nil {
		return "any"
	}
	list, ok := expression.([]any)
	if !ok || len(list) == 0 {
		return cli.JSONText(expression)
	}
	operator, _ := list[0].(string)
	switch {
	case operator == "&":
		return r.joined(list[1:], " and ", tighter, within)
	case operator == "|":
		return r.joined(list[1:], " or ", looser, within)
	case operator == "!" && len(list) == 2:
		return "not (" + r.text(list[1], loosest) + ")"
	case operator == "?" && len(list) == 2:
		return r.field(list[1])
	case len(list) != 3:
		return cli.JSONText(expression)
	}
	words := map[string]string{"=": "is", "==": "is", "!=": "is not", "=~": "matches", "=[]": "contains",
		"<": "<", ">": ">", "<=": "<=", ">=": ">="}
	word, known := words[operator]
	if !known {
		return cli.JSONText(expression)
	}
	return r.field(list[1]) + " " + word + " " + r.value(list[1], list[2])
}

func (r expressionReader) joined(parts []any, word string, tightness, within int) string {
	if choice, ok := r.choice(parts, tightness); ok {
		return choice
	}
	var words []string
	for _, part := range parts {
		words = append(words, r.text(part, tightness))
	}
	text := strings.Join(words, word)
	switch {
	case len(parts) == 0 && tightness == looser:
		return "none"
	case len(parts) == 0:
		return "any"
	case len(parts) > 1 && within > tightness:
		return "(" + text + ")"
	}
	return text
}

// choice shortens comparisons of one field with several values: "job is 3, 4 or 5". It reports false if the parts are something else.
func (r expressionReader) choice(parts []any, tightness int) (string, bool) {
	if tightness != looser || len(parts) < 2 {
		return "", false
	}
	var field any
	var values []string
	for i, part := range parts {
		leaf, ok := part.([]any)
		if !ok || len(leaf) != 3 || !slices.Contains([]any{"=", "=="}, leaf[0]) {
			return "", false
		}
		if _, isName := leaf[1].(string); !isName || i > 0 && leaf[1] != field {
			return "", false
		}
		field = leaf[1]
		values = append(values, r.value(field, leaf[2]))
	}
	return r.field(field) + " is " + term.Enumerate(values, "or"), true
}

func (r expressionReader) field(field any) string {
	name, ok := field.(string)
	if !ok {
		return cli.JSONText(field)
	}
	if word, ok := r.fields[name]; ok {
		return word
	}
	return term.Visible(name)
}

func (r expressionReader) value(field, value any) string {
	if field == "id" && value == "watermark" && r.fields["id"] != "" {
		return strconv.FormatInt(r.watermark, 10)
	}
	if field == "OP_ID" {
		return cli.PlainText(value)
	}
	return cli.JSONText(value)
}

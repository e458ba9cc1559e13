package filters

import (
	"fmt"
	"slices"
	"strings"

	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/opcodes"
)

// mentionsOpcodes reports whether conditions of a rule are about opcodes or their parameters.
func mentionsOpcodes(predicates []any) bool {
	return slices.ContainsFunc(predicates, func(predicate any) bool {
		pair, ok := predicate.([]any)
		return ok && len(pair) == 2 && pair[0] == "opcode"
	})
}

// predicateWarnings warns about conditions that no job can meet: opcodes that are not in the
// catalogue, and parameters that no opcode has.
func predicateWarnings(predicates []any, opcodes []opcodes.Opcode) []string {
	known := opcodeNames{fields: []string{"OP_ID"}, texts: map[string]bool{}}
	for _, o := range opcodes {
		known.opcodes = append(known.opcodes, o.Name)
		for _, p := range o.Params {
			known.texts[p.Name] = known.texts[p.Name] || !strings.HasPrefix(strings.TrimPrefix(p.Type, "null or "), "a list")
			if !slices.Contains(known.fields, p.Name) {
				known.fields = append(known.fields, p.Name)
			}
		}
	}
	var warnings []string
	for _, predicate := range predicates {
		if pair, ok := predicate.([]any); ok && len(pair) == 2 && pair[0] == "opcode" {
			known.check(pair[1], func(text string) {
				if !slices.Contains(warnings, text) {
					warnings = append(warnings, text)
				}
			})
		}
	}
	return warnings
}

// opcodeNames are the names of opcodes and of their parameters.
type opcodeNames struct {
	opcodes, fields []string
	texts           map[string]bool // parameters that may be other than a list; false: a list in all opcodes
}

// check walks an expression, and warns about names that no opcode has and comparisons that never hold.
func (n opcodeNames) check(expression any, warn func(string)) {
	list, ok := expression.([]any)
	if !ok || len(list) == 0 {
		return
	}
	switch operator, _ := list[0].(string); operator {
	case "&", "|", "!":
		for _, part := range list[1:] {
			n.check(part, warn)
		}
		return
	}
	if len(list) < 2 {
		return
	}
	field, ok := list[1].(string)
	if !ok {
		return
	}
	if !slices.Contains(n.fields, field) {
		warn(fmt.Sprintf("no opcode has a parameter %q, so no job matches%s", field, didYouMean(field, n.fields)))
	}
	if isText, known := n.texts[field]; list[0] == "=~" && known && !isText && len(list) == 3 {
		element, _ := cli.EncodeJSON(list[2])
		warn(fmt.Sprintf(`%s is a list, which =~ never matches; ["=[]", %q, %s] tests whether the list has that element`, field, field, element))
	}
	if field != "OP_ID" || len(list) != 3 || list[0] != "==" && list[0] != "=" {
		return
	}
	if value, ok := list[2].(string); ok && !slices.Contains(n.opcodes, value) {
		warn(fmt.Sprintf("there is no opcode %s, so no job matches%s", term.Visible(value), didYouMean(value, n.opcodes)))
	}
}

func didYouMean(typed string, names []string) string {
	similar := cli.SimilarNames(typed, names)
	if len(similar) == 0 {
		return ""
	}
	return "; did you mean " + strings.Join(similar, " or ") + "?"
}

package opcode

import (
	"encoding/json"
	"strings"

	"lockstep/core/rawjson"
)

// template is a text with parameters in it: "${name}" stands for the value of the parameter, "$${" for the two
// characters "${". No shell interprets the result, so values need no quoting.
type template []piece

// piece is a literal text or the name of a parameter.
type piece struct{ text, param string }

// parseTemplate reads a template. problem says what is wrong with it, "" if it is valid.
func parseTemplate(s string, isParam func(string) bool) (t template, problem string) {
	var text strings.Builder
	for s != "" {
		start := strings.Index(s, "${")
		if start < 0 {
			break
		}
		if start > 0 && s[start-1] == '$' {
			text.WriteString(s[:start-1] + "${")
			s = s[start+2:]
			continue
		}
		text.WriteString(s[:start])
		name, rest, closed := strings.Cut(s[start+2:], "}")
		switch {
		case !closed:
			return nil, "${ without }: write $${ for the characters themselves"
		case !isParam(name):
			return nil, "${" + name + "} stands for no parameter of this opcode: declare it in params, or write $${ for the characters themselves"
		}
		if text.Len() > 0 {
			t = append(t, piece{text: text.String()})
			text.Reset()
		}
		t = append(t, piece{param: name})
		s = rest
	}
	if text.WriteString(s); text.Len() > 0 {
		t = append(t, piece{text: text.String()})
	}
	return t, ""
}

// soleParam is the parameter of which the template consists, "" for any other template.
func (t template) soleParam() string {
	if len(t) == 1 {
		return t[0].param
	}
	return ""
}

// params yields the parameters in the template, each as often as it occurs.
func (t template) params(yield func(string) bool) {
	for _, p := range t {
		if p.param != "" && !yield(p.param) {
			return
		}
	}
}

// expand replaces parameters by values. If a parameter is unset there is no text: the argument, variable or lock is
// omitted.
func (t template) expand(value func(param string) json.RawMessage) (text string, complete bool) {
	var b strings.Builder
	for _, p := range t {
		b.WriteString(p.text)
		if p.param == "" {
			continue
		}
		v := value(p.param)
		if v == nil {
			return "", false
		}
		b.WriteString(textOf(v))
	}
	return b.String(), true
}

// textOf is a value as part of a text: the content of a string, and the JSON of any other value.
func textOf(v json.RawMessage) string {
	if rawjson.IsString(v) {
		return string(rawjson.Unquote(v))
	}
	return string(rawjson.AppendCompact(nil, v))
}

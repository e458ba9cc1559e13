package opcode

import (
	"encoding/json"
	"strconv"
	"strings"

	"lockstep/core/rawjson"
)

// Type is a set of JSON values that a parameter accepts (queue.md 8). The names are those of Ganeti's checks.
type Type interface {
	// String describes the values of the type, as "null or an integer greater than 0".
	String() string
	// check returns nil if v, a valid JSON value, belongs to the type.
	check(v json.RawMessage) *mismatch
}

// mismatch says which value was found in place of the wanted one.
type mismatch struct {
	ganeti string // Ganeti's text for the mismatch, "" if unknown
	place  string // within the value of the parameter, as `[1].mode`; "" for the value itself
	depth  int    // number of steps in place
	want   string
	found  string
}

func (m *mismatch) text() string {
	text := "want " + m.want + ", found " + m.found
	if m.place != "" {
		text = "at " + m.place + " " + text
	}
	if m.ganeti != "" {
		text = m.ganeti + ": " + text
	}
	return text
}

// in makes the mismatch of a part that of the whole: step, the way from the whole to the part, goes before its place. nil stays nil.
func (m *mismatch) in(step string) *mismatch {
	if m == nil {
		return nil
	}
	if m.place != "" && m.place[0] != '[' {
		step += "."
	}
	m.place = step + m.place
	m.depth++
	return m
}

func (m *mismatch) inElement(i int) *mismatch {
	if m == nil {
		return nil
	}
	return m.in("[" + strconv.Itoa(i) + "]")
}

// mismatchOf is the mismatch of the complete value v.
func mismatchOf(t Type, v json.RawMessage) *mismatch {
	return &mismatch{want: t.String(), found: kindOf(v)}
}

// shownMax bounds how much of a value an error text repeats, in bytes.
const shownMax = 60

// kindOf describes a value. It repeats numbers but not strings, which may contain secrets.
func kindOf(v json.RawMessage) string {
	switch c := v[0]; {
	case c == '{':
		return "an object"
	case c == '[':
		return "a list"
	case string(v) == `""`:
		return "an empty string"
	case c == '"':
		return "a string"
	default:
		return shown(v)
	}
}

// shown is the JSON of v if it is short, and a description otherwise.
func shown(v json.RawMessage) string {
	switch {
	case len(v) <= shownMax && v[0] != '{' && v[0] != '[':
		return string(v)
	case rawjson.IsString(v):
		return "a long string"
	case v[0] == '{' || v[0] == '[':
		return kindOf(v)
	}
	return "a long number"
}

// oneOf is a choice of strings.
type oneOf []string

func (t oneOf) String() string {
	if len(t) == 1 {
		return strconv.Quote(t[0])
	}
	return `one of "` + strings.Join(t, `", "`) + `"`
}

func (t oneOf) check(v json.RawMessage) *mismatch {
	text := rawjson.Unquote(v)
	for _, allowed := range t {
		if rawjson.IsString(v) && string(text) == allowed {
			return nil
		}
	}
	return &mismatch{want: t.String(), found: shown(v)}
}

// lessThan is the type of the integers below a limit.
type lessThan int64

func (t lessThan) String() string { return "an integer less than " + strconv.FormatInt(int64(t), 10) }

func (t lessThan) check(v json.RawMessage) *mismatch {
	if n, ok := parseInteger(v); !ok || n >= int64(t) {
		return mismatchOf(t, v)
	}
	return nil
}

// list is every list of elements of one type. Ganeti's sets are lists in JSON and may contain repetitions.
type list struct{ element Type }

func (t list) String() string {
	if t.element.String() == anything.description {
		return "a list"
	}
	return "a list, each element " + t.element.String()
}

func (t list) check(v json.RawMessage) *mismatch {
	if v[0] != '[' {
		return mismatchOf(t, v)
	}
	i := 0
	for element := range rawjson.Elements(v) {
		if bad := t.element.check(element); bad != nil {
			return bad.inElement(i)
		}
		i++
	}
	return nil
}

// tuple is the type of lists that have exactly these elements, in this order.
type tuple []Type

func (t tuple) String() string {
	words := make([]string, len(t))
	for i, element := range t {
		words[i] = element.String()
	}
	return "a list of " + strconv.Itoa(len(t)) + " elements: " + strings.Join(words, "; ")
}

func (t tuple) check(v json.RawMessage) *mismatch {
	if v[0] != '[' {
		return mismatchOf(t, v)
	}
	var found []json.RawMessage
	for element := range rawjson.Elements(v) {
		found = append(found, element)
	}
	if len(found) != len(t) {
		return &mismatch{want: t.String(), found: "a list of " + strconv.Itoa(len(found))}
	}
	for i, element := range t {
		if bad := element.check(found[i]); bad != nil {
			return bad.inElement(i)
		}
	}
	return nil
}

// dictionary is every object whose keys and values are of these types.
type dictionary struct{ key, value Type }

func (t dictionary) String() string {
	var words []string
	if t.key.String() != anything.description {
		words = append(words, "each key "+t.key.String())
	}
	if t.value.String() != anything.description {
		words = append(words, "each value "+t.value.String())
	}
	if len(words) == 0 {
		return "an object"
	}
	return "an object, " + strings.Join(words, " and ")
}

func (t dictionary) check(v json.RawMessage) *mismatch {
	if v[0] != '{' {
		return mismatchOf(t, v)
	}
	for key, value := range rawjson.Members(v) {
		if bad := t.key.check(key); bad != nil {
			return bad.in("(a key)")
		}
		if bad := t.value.check(value); bad != nil {
			return bad.in(shown(key))
		}
	}
	return nil
}

// private is the inner type for secret values. Its mismatches do not describe the value.
type private struct{ inner Type }

func (t private) String() string { return t.inner.String() }

func (t private) check(v json.RawMessage) *mismatch {
	if t.inner.check(v) == nil {
		return nil
	}
	return &mismatch{want: t.String(), found: "something else"}
}

// union is every value that belongs to at least one of the types.
type union []Type

func (t union) String() string {
	words := make([]string, len(t))
	for i, alternative := range t {
		words[i] = alternative.String()
	}
	return strings.Join(words, " or ")
}

// check returns the alternatives' mismatch that lies deepest within the value, because that alternative was probably
// intended. If all alternatives refuse the value itself, the mismatch names all of them.
func (t union) check(v json.RawMessage) *mismatch {
	var deepest *mismatch
	for _, alternative := range t {
		bad := alternative.check(v)
		if bad == nil {
			return nil
		}
		if deepest == nil || bad.depth > deepest.depth {
			deepest = bad
		}
	}
	if deepest.depth > 0 {
		return deepest
	}
	return &mismatch{ganeti: deepest.ganeti, want: t.String(), found: deepest.found}
}

// intersection is every value that belongs to all the types.
type intersection []Type

func (t intersection) String() string {
	words := make([]string, len(t))
	for i, part := range t {
		words[i] = part.String()
	}
	return strings.Join(words, " and ")
}

func (t intersection) check(v json.RawMessage) *mismatch {
	for _, part := range t {
		if bad := part.check(v); bad != nil {
			return bad
		}
	}
	return nil
}

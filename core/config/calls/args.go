package calls

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"lockstep/core/config/model"
	"lockstep/core/lock"
	"lockstep/core/rawjson"
)

// arguments decodes the arguments of a call. It keeps the first error; values read after an error are meaningless.
type arguments struct {
	values []json.RawMessage
	err    error
	client lock.Owner
}

func (a *arguments) fail(err error) {
	if a.err == nil {
		a.err = err
	}
}

// tuples are the names of argument lists in errors, by length.
var tuples = []string{"()", "1 tuple", "Pair", "Triple", "4 tuple"}

// count makes the call fail unless it has this number of arguments, with the text of Ganeti's decoder.
func (a *arguments) count(want int) {
	if len(a.values) != want {
		a.fail(errors.New("Unable to read " + tuples[want]))
		a.values = make([]json.RawMessage, want)
	}
}

// raw returns an argument without surrounding white space; null after an error.
func (a *arguments) raw(i int) []byte {
	if a.err != nil || len(a.values[i]) == 0 {
		return null
	}
	return []byte(strings.Trim(string(a.values[i]), " \t\r\n"))
}

// read decodes the argument with index i. After an error, of this or an earlier argument, it returns the zero value, and a.err has the
// first error.
func read[V any](a *arguments, i int, decode func([]byte) (V, error)) V {
	var v V
	if a.err == nil {
		var err error
		if v, err = decode(a.raw(i)); err != nil {
			a.fail(err)
		}
	}
	return v
}

// readOpt decodes argument i. The result is unset if the argument is null or an earlier argument was wrong.
func readOpt[V any](a *arguments, i int, decode func([]byte) (V, error)) model.Opt[V] {
	if a.err != nil || string(a.raw(i)) == "null" {
		return model.Opt[V]{}
	}
	return model.Some(read(a, i, decode))
}

func (a *arguments) text(i int) string { return read(a, i, model.DecodeText) }
func (a *arguments) flag(i int) bool   { return read(a, i, decodeFlag) }

func decodeFlag(raw []byte) (bool, error) {
	if s := string(raw); s == "true" || s == "false" {
		return s == "true", nil
	}
	return false, errors.New("Unable to read Bool")
}

// owner decodes argument i as a client identity (locks.md 2.2). This identity becomes the client of the call.
func (a *arguments) owner(i int) lock.Owner {
	o := read(a, i, func(raw []byte) (lock.Owner, error) {
		var o lock.Owner
		if o.UnmarshalJSON(raw) != nil {
			return o, errors.New("malformed client id: " + show(raw))
		}
		return o, nil
	})
	a.client = o
	return o
}

// address decodes an IPv4 address.
func (a *arguments) address(i int) uint32 {
	return read(a, i, func(raw []byte) (uint32, error) {
		s, err := model.DecodeText(raw)
		if err != nil {
			return 0, err
		}
		return model.ParseIPv4(s)
	})
}

func decodeTexts(raw []byte) ([]string, error) {
	if raw[0] != '[' {
		return nil, errors.New("Unable to read List")
	}
	all := []string{}
	var bad error
	err := rawjson.ReadList(raw, func(value []byte) {
		s, err := model.DecodeText(value)
		bad = errors.Join(bad, err)
		all = append(all, s)
	})
	return all, errors.Join(err, bad)
}

// word returns a decoder of a string that must be one of words. typeName is the name of the enumeration in errors.
func word(typeName string, words ...string) func(raw []byte) (string, error) {
	return func(raw []byte) (string, error) {
		s, err := model.DecodeText(raw)
		if err != nil {
			return "", err
		}
		for _, w := range words {
			if w == s {
				return s, nil
			}
		}
		return "", fmt.Errorf("Invalid string value for type %s: %s", typeName, model.AppendText(nil, s))
	}
}

// show formats a JSON value for errors about arguments, as clients know it.
func show(raw []byte) string {
	switch raw[0] {
	case '"':
		s, err := model.DecodeText(raw)
		if err != nil {
			return "JSString"
		}
		return fmt.Sprintf("JSString (JSONString {fromJSString = %s})", model.AppendText(nil, s))
	case '[', '{':
		return showNested(raw)
	case 'n':
		return "JSNull"
	case 't':
		return "JSBool True"
	case 'f':
		return "JSBool False"
	}
	if _, err := model.DecodeInt(raw); err == nil {
		return fmt.Sprintf("JSRational False (%s %% 1)", raw)
	}
	return fmt.Sprintf("JSRational False (%s)", raw)
}

func showNested(raw []byte) string {
	var parts []string
	if raw[0] == '[' {
		_ = rawjson.ReadList(raw, func(value []byte) { parts = append(parts, show(value)) }) // Parse is given valid JSON
		return "JSArray [" + strings.Join(parts, ",") + "]"
	}
	_ = rawjson.ReadObject(raw, func(key, value []byte) {
		parts = append(parts, fmt.Sprintf("(%s,%s)", model.AppendText(nil, string(key)), show(value)))
	})
	return "JSObject (JSONObject {fromJSObject = [" + strings.Join(parts, ",") + "]})"
}

// Package doctree reads JSON and YAML text into trees of JSON values. Each node knows its
// position in the text, so that the reader of a tree can name the place of a mistake. The
// package opens no file and keeps nothing.
package doctree

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// Position is a place in a text. Line and Column count from 1, columns in characters. Column
// 0: only the line is known. Line 0: the mistake concerns the whole text.
type Position struct{ Line, Column int }

// Error is a mistake at a position.
type Error struct {
	At   Position
	Text string
}

// Errorf returns an *Error with a formatted text about a place.
func Errorf(at Position, format string, args ...any) error {
	return &Error{at, fmt.Sprintf(format, args...)}
}

// Error is "LINE:COLUMN: TEXT", as far as the position is known.
func (e *Error) Error() string {
	switch {
	case e.At.Line == 0:
		return e.Text
	case e.At.Column == 0:
		return fmt.Sprintf("%d: %s", e.At.Line, e.Text)
	}
	return fmt.Sprintf("%d:%d: %s", e.At.Line, e.At.Column, e.Text)
}

// Kind is the kind of a JSON value.
type Kind int

// Invalid is a value of YAML that has no JSON form. ParseYAML has reported it.
const (
	Scalar Kind = iota
	List
	Object
	Invalid
)

// Node is a JSON value.
type Node struct {
	Kind   Kind
	At     Position // of an alias of YAML: the place of the alias
	Scalar any      // string, json.Number, float64, an integer, bool or nil
	Text   string   // a scalar of YAML as it is spelled
	Keys   []Key    // of an object, unique
	Values []Node   // elements of a list; values of Keys, with the same index
}

// Key is a key of an object, without its value, and the place of the key in the text. A key that With has added has no place.
type Key struct {
	Name string
	At   Position
}

// Describe names the kind of the value for errors: "a list", "a number".
func (n Node) Describe() string {
	switch n.Kind {
	case List:
		return "a list"
	case Object:
		return "an object"
	case Scalar, Invalid:
	}
	switch n.Scalar.(type) {
	case nil:
		return "null"
	case string:
		return "a string"
	case bool:
		return "a boolean"
	}
	return "a number"
}

// Field returns the value of a key of an object; false if there is none.
func (n Node) Field(name string) (Node, bool) {
	if i := n.index(name); i >= 0 {
		return n.Values[i], true
	}
	return Node{}, false
}

func (n Node) index(name string) int {
	return slices.IndexFunc(n.Keys, func(key Key) bool { return key.Name == name })
}

// With returns the object with another value for a key, which it adds if the key is missing.
func (n Node) With(name string, value Node) Node {
	n.Keys, n.Values = slices.Clone(n.Keys), slices.Clone(n.Values)
	if i := n.index(name); i >= 0 {
		n.Values[i] = value
		return n
	}
	n.Keys = append(n.Keys, Key{Name: name})
	n.Values = append(n.Values, value)
	return n
}

// addKey adds the key of the value that comes next. The error is about a key that is no string or is there already.
func (n *Node) addKey(key Node) error {
	name, ok := key.Scalar.(string)
	if key.Kind != Scalar || !ok {
		return Errorf(key.At, "a key must be a string, this is %s", key.Describe())
	}
	if n.index(name) >= 0 {
		return Errorf(key.At, "the key %q is given twice", name)
	}
	n.Keys = append(n.Keys, Key{name, key.At})
	return nil
}

// MarshalJSON keeps the order of keys and the digits of numbers.
func (n Node) MarshalJSON() ([]byte, error) {
	switch n.Kind {
	case List:
		if n.Values == nil {
			return []byte("[]"), nil
		}
		return json.Marshal(n.Values)
	case Object:
		var buffer bytes.Buffer
		buffer.WriteByte('{')
		for i, key := range n.Keys {
			if i > 0 {
				buffer.WriteByte(',')
			}
			if err := WriteMember(&buffer, key.Name, n.Values[i]); err != nil {
				return nil, err
			}
		}
		buffer.WriteByte('}')
		return buffer.Bytes(), nil
	case Scalar, Invalid:
	}
	return json.Marshal(n.Scalar)
}

// WriteMember writes `"name":value`.
func WriteMember(buffer *bytes.Buffer, name string, value any) error {
	key, err := json.Marshal(name)
	if err != nil {
		return err
	}
	encoded, err := json.Marshal(value)
	if err != nil {
		return err
	}
	buffer.Write(key)
	buffer.WriteByte(':')
	buffer.Write(encoded)
	return nil
}

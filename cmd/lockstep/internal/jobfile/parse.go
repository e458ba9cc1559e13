// Package jobfile reads files of jobs, JSON or YAML, and makes submissions of them. Parse
// gives the jobs with their places in the file, Encode the opcodes as they are submitted. It
// reads no file and makes no call; an error names the line and column of the mistake.
package jobfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"
)

// Position is where something stands in a file, from 1. Columns count characters.
type Position struct{ Line, Column int }

// PositionError is a mistake in a file, at a place that an editor can jump to.
type PositionError struct {
	at   Position
	text string
}

func (e *PositionError) Error() string {
	return fmt.Sprintf("%d:%d: %s", e.at.Line, e.at.Column, e.text)
}

func errorAt(at Position, format string, args ...any) error {
	return &PositionError{at, fmt.Sprintf(format, args...)}
}

type nodeKind int

const (
	scalarNode nodeKind = iota
	listNode
	objectNode
)

// node is a JSON value that knows where it stood, whether the file was JSON or YAML.
type node struct {
	kind   nodeKind
	at     Position
	scalar any // string, json.Number, float64, integer, bool or nil
	names  []string
	values []node // elements of a list; values to names of an object
}

// describe names what a node is, for messages.
func (n node) describe() string {
	switch n.kind {
	case listNode:
		return "a list"
	case objectNode:
		return "an object"
	}
	switch n.scalar.(type) {
	case nil:
		return "null"
	case string:
		return "a string"
	case bool:
		return "a boolean"
	}
	return "a number"
}

func (n node) field(name string) (node, bool) {
	for i, have := range n.names {
		if have == name {
			return n.values[i], true
		}
	}
	return node{}, false
}

// with is an object with another value for a name, which it need not have.
func (n node) with(name string, value node) node {
	result := n
	result.names, result.values = slices.Clone(n.names), slices.Clone(n.values)
	for i, have := range n.names {
		if have == name {
			result.values[i] = value
			return result
		}
	}
	result.names = append(result.names, name)
	result.values = append(result.values, value)
	return result
}

// MarshalJSON keeps the order of keys and the digits of numbers.
func (n node) MarshalJSON() ([]byte, error) {
	switch n.kind {
	case listNode:
		if n.values == nil {
			return []byte("[]"), nil
		}
		return json.Marshal(n.values)
	case objectNode:
		var buffer bytes.Buffer
		buffer.WriteByte('{')
		for i, name := range n.names {
			if i > 0 {
				buffer.WriteByte(',')
			}
			if err := writeMember(&buffer, name, n.values[i]); err != nil {
				return nil, err
			}
		}
		buffer.WriteByte('}')
		return buffer.Bytes(), nil
	}
	return json.Marshal(n.scalar)
}

func writeMember(buffer *bytes.Buffer, name string, value any) error {
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

// parseFile reads a file as JSON or YAML. Its name decides; where that says nothing,
// what begins like JSON is JSON. Errors name a place, where there is one.
func parseFile(name string, data []byte) (node, error) {
	switch filepath.Ext(name) {
	case ".json":
		return parseJSON(data)
	case ".yaml", ".yml":
		return parseYAML(data)
	}
	if start := bytes.TrimLeft(data, " \t\r\n"); len(start) > 0 && (start[0] == '[' || start[0] == '{') {
		return parseJSON(data)
	}
	return parseYAML(data)
}

// jsonSource is a JSON document and its lines.
type jsonSource struct {
	data    []byte
	lines   []int // offsets at which lines begin
	decoder *json.Decoder

	last       Position // that was asked for, and its offset
	lastOffset int
}

func parseJSON(data []byte) (node, error) {
	source := jsonSource{data: data, lines: []int{0}}
	for i, char := range data {
		if char == '\n' {
			source.lines = append(source.lines, i+1)
		}
	}
	// First as a whole: only this gives exact places of mistakes, and the walk over
	// the tokens below need not look for them.
	var whole json.RawMessage
	if err := json.Unmarshal(data, &whole); err != nil {
		offset := len(data)
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			offset = max(0, int(syntax.Offset)-1)
		}
		return node{}, errorAt(source.position(offset), "%s", strings.TrimPrefix(err.Error(), "json: "))
	}
	source.decoder = json.NewDecoder(bytes.NewReader(data))
	source.decoder.UseNumber()
	return source.next()
}

// position counts on from the place before, where it is in the same line: a whole file can
// be one line.
func (s *jsonSource) position(offset int) Position {
	offset = min(offset, len(s.data))
	line := sort.SearchInts(s.lines, offset+1) // lines that begin at or before offset
	if line != s.last.Line || offset < s.lastOffset {
		s.last, s.lastOffset = Position{line, 1}, s.lines[line-1]
	}
	s.last.Column += utf8.RuneCount(s.data[s.lastOffset:offset])
	s.lastOffset = offset
	return s.last
}

// next reads one value. The decoder stands behind the token before it.
func (s *jsonSource) next() (node, error) {
	offset := int(s.decoder.InputOffset())
	for offset < len(s.data) && strings.IndexByte(" \t\r\n,:", s.data[offset]) >= 0 {
		offset++
	}
	result := node{at: s.position(offset)}
	token, err := s.decoder.Token()
	if err != nil {
		return node{}, err
	}
	switch token {
	case json.Delim('['):
		result.kind = listNode
	case json.Delim('{'):
		result.kind = objectNode
	default:
		result.scalar = token
		return result, nil
	}
	for s.decoder.More() {
		if result.kind == objectNode {
			key, err := s.next()
			if err != nil {
				return node{}, err
			}
			if err := result.addName(key); err != nil {
				return node{}, err
			}
		}
		value, err := s.next()
		if err != nil {
			return node{}, err
		}
		result.values = append(result.values, value)
	}
	_, err = s.decoder.Token() // the closing bracket
	return result, err
}

// addName adds the key of the value that comes next.
func (n *node) addName(key node) error {
	name, ok := key.scalar.(string)
	if key.kind != scalarNode || !ok {
		return errorAt(key.at, "a key must be a string, this is %s", key.describe())
	}
	if _, twice := n.field(name); twice {
		return errorAt(key.at, "the key %q is given twice", name)
	}
	n.names = append(n.names, name)
	return nil
}

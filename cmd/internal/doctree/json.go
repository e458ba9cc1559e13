package doctree

import (
	"bytes"
	"encoding/json"
	"errors"
	"sort"
	"strings"
	"unicode/utf8"
)

// jsonSource is a JSON document and the offsets of its lines.
type jsonSource struct {
	data    []byte
	lines   []int // offset of the first byte of each line
	decoder *json.Decoder

	last       Position // the latest result of position, and its offset
	lastOffset int
}

// ParseJSON reads one JSON document. The error is an *Error.
func ParseJSON(data []byte) (Node, error) {
	source := jsonSource{data: data, lines: []int{0}}
	for i, char := range data {
		if char == '\n' {
			source.lines = append(source.lines, i+1)
		}
	}
	// Unmarshal finds every mistake of syntax and its exact offset; the walk over the tokens
	// below relies on a valid document.
	var whole json.RawMessage
	if err := json.Unmarshal(data, &whole); err != nil {
		offset := len(data)
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			offset = max(0, int(syntax.Offset)-1)
		}
		return Node{}, Errorf(source.position(offset), "%s", strings.TrimPrefix(err.Error(), "json: "))
	}
	source.decoder = json.NewDecoder(bytes.NewReader(data))
	source.decoder.UseNumber()
	return source.next()
}

// position counts characters from the latest position if that is in the same line: a whole
// file may be one line.
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

// next reads one value with all that is in it. The decoder is behind the previous token.
func (s *jsonSource) next() (Node, error) {
	offset := int(s.decoder.InputOffset())
	for offset < len(s.data) && strings.IndexByte(" \t\r\n,:", s.data[offset]) >= 0 {
		offset++
	}
	result := Node{At: s.position(offset)}
	token, err := s.decoder.Token()
	if err != nil {
		return Node{}, err
	}
	switch token {
	case json.Delim('['):
		result.Kind = List
	case json.Delim('{'):
		result.Kind = Object
	default:
		result.Scalar = token
		return result, nil
	}
	for s.decoder.More() {
		if result.Kind == Object {
			key, err := s.next()
			if err != nil {
				return Node{}, err
			}
			if err := result.addKey(key); err != nil {
				return Node{}, err
			}
		}
		value, err := s.next()
		if err != nil {
			return Node{}, err
		}
		result.Values = append(result.Values, value)
	}
	_, err = s.decoder.Token() // the closing bracket
	return result, err
}

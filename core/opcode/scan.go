package opcode

import (
	"bytes"
	"encoding/json"
	"iter"
	"slices"
	"strconv"
	"unicode/utf8"
)

// The functions here walk JSON whose syntax has been checked before. On anything else they may stop early or yield
// nonsense, but they end, and never reach beyond the slice they are given.

// depthMax bounds how deep the value of a parameter may nest: [] is one level deep.
const depthMax = 64

// SizeMax is the greatest length of an opcode, in bytes, both as submitted and as stored. The job file that holds it is
// rewritten at every change of the job.
const SizeMax = 4 << 20

// checkSyntax makes sure that raw is one JSON value in valid UTF-8 of at most SizeMax bytes. Its errors quote nothing.
func checkSyntax(raw []byte) error {
	switch {
	case len(raw) > SizeMax:
		return tooLarge("", len(raw))
	case !utf8.Valid(raw):
		return invalidf("an opcode must be valid UTF-8")
	case !json.Valid(raw):
		return invalidf("an opcode must be valid JSON")
	}
	return nil
}

// members yields the members of the object raw: the key as it is spelled, with its quotes, and the value. Nothing is
// yielded if raw is no object.
func members(raw []byte) iter.Seq2[[]byte, json.RawMessage] {
	return func(yield func([]byte, json.RawMessage) bool) {
		pos, ok := afterBracket(raw, '{')
		for ok && pos < len(raw) && raw[pos] == '"' {
			keyEnd := stringEnd(raw, pos)
			if keyEnd < 0 {
				return
			}
			start := skipSpace(raw, keyEnd)
			if start >= len(raw) || raw[start] != ':' {
				return
			}
			start = skipSpace(raw, start+1)
			end := valueEnd(raw, start)
			if end < 0 || !yield(raw[pos:keyEnd], raw[start:end]) {
				return
			}
			pos, ok = afterComma(raw, end)
		}
	}
}

// elements yields the elements of the list raw. Nothing is yielded if raw is no list.
func elements(raw []byte) iter.Seq[json.RawMessage] {
	return func(yield func(json.RawMessage) bool) {
		pos, ok := afterBracket(raw, '[')
		for ok && pos < len(raw) && raw[pos] != ']' {
			end := valueEnd(raw, pos)
			if end < 0 || !yield(raw[pos:end]) {
				return
			}
			pos, ok = afterComma(raw, end)
		}
	}
}

// afterBracket is the position of the first token behind the given opening bracket, with which raw has to begin.
func afterBracket(raw []byte, bracket byte) (pos int, ok bool) {
	pos = skipSpace(raw, 0)
	if pos >= len(raw) || raw[pos] != bracket {
		return 0, false
	}
	return skipSpace(raw, pos+1), true
}

// afterComma is the position of the next token behind the comma at end; false if there is no comma.
func afterComma(raw []byte, end int) (pos int, ok bool) {
	pos = skipSpace(raw, end)
	if pos >= len(raw) || raw[pos] != ',' {
		return 0, false
	}
	return skipSpace(raw, pos+1), true
}

// valueEnd is the position behind the value that begins at pos, -1 if it does not end.
func valueEnd(raw []byte, pos int) int {
	if pos >= len(raw) {
		return -1
	}
	switch raw[pos] {
	case '"':
		return stringEnd(raw, pos)
	case '{', '[':
		return bracketEnd(raw, pos)
	}
	start := pos
	for pos < len(raw) && !isDelimiter(raw[pos]) {
		pos++
	}
	if pos == start {
		return -1
	}
	return pos
}

// bracketEnd is the position behind the bracket that closes the one at pos, -1 if there is none.
func bracketEnd(raw []byte, pos int) int {
	depth := 0
	for pos < len(raw) {
		switch raw[pos] {
		case '"':
			if pos = stringEnd(raw, pos); pos < 0 {
				return -1
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return pos + 1
			}
		}
		pos++
	}
	return -1
}

// stringEnd is the position behind the closing quote of the string that begins at pos, -1 if there is none.
func stringEnd(raw []byte, pos int) int {
	for pos++; pos < len(raw); pos++ {
		switch raw[pos] {
		case '"':
			return pos + 1
		case '\\':
			pos++
		}
	}
	return -1
}

func skipSpace(raw []byte, pos int) int {
	for pos < len(raw) && isSpace(raw[pos]) {
		pos++
	}
	return pos
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }

func isDelimiter(c byte) bool {
	return c == ',' || c == ':' || c == ']' || c == '}' || c == '[' || c == '{' || c == '"' || isSpace(c)
}

// unquoted is the text that the string token v stands for. It may lie in v. Of what is no string nothing is left.
func unquoted(v []byte) []byte {
	if !isString(v) {
		return nil
	}
	if bytes.IndexByte(v, '\\') < 0 {
		return v[1 : len(v)-1]
	}
	var text string
	if json.Unmarshal(v, &text) != nil {
		return nil
	}
	return []byte(text)
}

// checkNesting makes sure that v is at most depthMax levels deep and that no object in it repeats a key: readers of the
// job file would not agree on which of its values counts. The answer is what is wrong, "" if nothing is. It tells
// nothing of the content.
func checkNesting(v []byte, depth int) string {
	if len(v) == 0 || v[0] != '{' && v[0] != '[' {
		return ""
	}
	if depth++; depth > depthMax {
		return "it is nested too deeply, at most " + strconv.Itoa(depthMax) + " levels are allowed"
	}
	for element := range elements(v) {
		if problem := checkNesting(element, depth); problem != "" {
			return problem
		}
	}
	var keys []string
	for key, value := range members(v) {
		keys = append(keys, string(unquoted(key)))
		if problem := checkNesting(value, depth); problem != "" {
			return problem
		}
	}
	slices.Sort(keys)
	for i := 1; i < len(keys); i++ {
		if keys[i] == keys[i-1] {
			return "an object in it has the same key twice"
		}
	}
	return ""
}

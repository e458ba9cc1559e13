package rawjson

import (
	"bytes"
	"encoding/json"
	"iter"
	"unicode/utf8"
)

// Walker goes through the members of an object, or the elements of a list, whose syntax was checked before.
//
// Invariant: pos is at a token or at the end, not at white space.
type Walker struct {
	raw []byte
	pos int
}

// Walk begins at the first member or element of the object or list at the start of raw.
func Walk(raw []byte) Walker { return Walker{raw, skipSpace(raw, skipSpace(raw, 0)+1)} }

// WalkFrom continues at the member or element at pos, which an earlier Walker returned.
func WalkFrom(raw []byte, pos int) Walker { return Walker{raw, pos} }

// Pos is the offset of the next token in raw.
func (w *Walker) Pos() int { return w.pos }

// More reports whether a member or an element follows.
func (w *Walker) More() bool {
	return w.pos < len(w.raw) && w.raw[w.pos] != '}' && w.raw[w.pos] != ']'
}

// Key moves from a key to its value, and returns the key with its quotes.
func (w *Walker) Key() []byte {
	start := w.pos
	end := stringEnd(w.raw, start)
	if end < 0 {
		w.pos = len(w.raw)
		return nil
	}
	w.pos = afterColon(w.raw, end)
	return w.raw[start:end]
}

// Value moves past a value and the comma after it, and returns the extent of the value in raw. The extent is empty if
// there is no value, which happens only in malformed text; then More is false.
func (w *Walker) Value() (start, end int) {
	start = w.pos
	end = valueEnd(w.raw, start)
	if end <= start {
		w.pos = len(w.raw)
		return 0, 0
	}
	w.pos = afterComma(w.raw, end)
	return start, end
}

// Members yields the members of the object raw: the key with its quotes, and the value. It yields nothing if raw is not
// an object.
func Members(raw []byte) iter.Seq2[[]byte, json.RawMessage] {
	return func(yield func([]byte, json.RawMessage) bool) {
		pos := skipSpace(raw, 0)
		if pos >= len(raw) || raw[pos] != '{' {
			return
		}
		for pos = skipSpace(raw, pos+1); pos < len(raw) && raw[pos] == '"'; {
			keyEnd := stringEnd(raw, pos)
			if keyEnd < 0 {
				return
			}
			start := afterColon(raw, keyEnd)
			end := valueEnd(raw, start)
			if end <= start || !yield(raw[pos:keyEnd], raw[start:end]) {
				return
			}
			pos = afterComma(raw, end)
		}
	}
}

// Elements yields the elements of the list raw. It yields nothing if raw is not a list.
func Elements(raw []byte) iter.Seq[json.RawMessage] {
	return func(yield func(json.RawMessage) bool) {
		pos := skipSpace(raw, 0)
		if pos >= len(raw) || raw[pos] != '[' {
			return
		}
		for pos = skipSpace(raw, pos+1); pos < len(raw) && raw[pos] != ']'; {
			end := valueEnd(raw, pos)
			if end <= pos || !yield(raw[pos:end]) {
				return
			}
			pos = afterComma(raw, end)
		}
	}
}

// Member is the value for key in the object raw; nil if raw is not an object or does not have the key. If the key is
// repeated, the last one counts.
func Member(raw []byte, key string) json.RawMessage {
	var found json.RawMessage
	for name, value := range Members(raw) {
		if string(Unquote(name)) == key {
			found = value
		}
	}
	return found
}

// IsObject reports whether raw begins like an object, after white space.
func IsObject(raw []byte) bool {
	pos := skipSpace(raw, 0)
	return pos < len(raw) && raw[pos] == '{'
}

// skipSpace is the position of the first token at or after pos.
func skipSpace(raw []byte, pos int) int {
	for pos < len(raw) && isSpace(raw[pos]) {
		pos++
	}
	return pos
}

// afterColon is the position of the value of the key that ends at pos.
func afterColon(raw []byte, pos int) int { return skipSpace(raw, skipSpace(raw, pos)+1) }

// afterComma is the position of the token after the value that ends at pos, and after the comma if there is one.
func afterComma(raw []byte, pos int) int {
	pos = skipSpace(raw, pos)
	if pos < len(raw) && raw[pos] == ',' {
		pos = skipSpace(raw, pos+1)
	}
	return pos
}

// valueEnd is the position after the value that begins at pos, -1 if the value does not end.
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
	for pos < len(raw) && raw[pos] > ' ' && raw[pos] != ',' && raw[pos] != '}' && raw[pos] != ']' {
		pos++
	}
	return pos
}

// bracketEnd is the position after the bracket that closes the one at pos, -1 if there is none.
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

// stringEnd is the position after the closing quote of the string that begins at pos, -1 if there is none. Most strings
// are keys and short: a plain loop finds their end faster than bytes.IndexByte.
func stringEnd(raw []byte, pos int) int {
	at := pos + 1
	for short := min(at+32, len(raw)); at < short; at++ {
		if c := raw[at]; c == '"' {
			return at + 1
		} else if c == '\\' {
			at++
		}
	}
	return longStringEnd(raw, at)
}

// longStringEnd is stringEnd for the part of a string that begins at pos, which is not after a backslash; -1 if the string does not end.
// The closing quote is the first with an even number of backslashes before it.
func longStringEnd(raw []byte, pos int) int {
	for pos < len(raw) {
		n := bytes.IndexByte(raw[pos:], '"')
		if n < 0 {
			return -1
		}
		quote := pos + n
		slash := quote
		for slash > pos && raw[slash-1] == '\\' {
			slash--
		}
		if (quote-slash)%2 == 0 {
			return quote + 1
		}
		pos = quote + 1
	}
	return -1
}

// Unquote is the text of a string, given with its quotes; nil if raw is not a string. The result lies in raw if the
// string is valid UTF-8 without escapes. What UTF-8 cannot express becomes U+FFFD.
func Unquote(raw []byte) []byte {
	if !IsString(raw) {
		return nil
	}
	inner := raw[1 : len(raw)-1]
	for i, c := range inner {
		if c == '\\' || c >= utf8.RuneSelf {
			return unquoteFrom(raw, i)
		}
	}
	return inner
}

// unquoteFrom is Unquote for a string that is ASCII without escapes in its first n bytes.
func unquoteFrom(raw []byte, n int) []byte {
	inner := raw[1 : len(raw)-1]
	if bytes.IndexByte(inner[n:], '\\') < 0 && utf8.Valid(inner[n:]) {
		return inner
	}
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return nil
	}
	return []byte(text)
}

// AppendCompact appends raw without the white space between its tokens.
func AppendCompact(dst, raw []byte) []byte {
	for pos := 0; pos < len(raw); {
		if isSpace(raw[pos]) {
			pos++
			continue
		}
		end := pos + 1
		if raw[pos] == '"' {
			if end = stringEnd(raw, pos); end < 0 {
				end = len(raw)
			}
		}
		dst = append(dst, raw[pos:end]...)
		pos = end
	}
	return dst
}

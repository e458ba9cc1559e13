package filter

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// The functions here walk JSON that is known to be well-formed: NewSubject has checked it. They run for every job whenever
// the rules or the queue change, so that they look at each byte once and allocate nothing.

// span is the place of a value within an opcode's input, quotes and brackets included.
type span struct{ start, end uint32 }

func (s span) of(raw []byte) []byte { return raw[s.start:s.end] }

// walker goes through the members of an object or the elements of a list.
type walker struct {
	raw []byte
	pos int // of a token, never of white space
}

// walk begins with the object or list that raw begins with.
func walk(raw []byte) walker {
	w := walker{raw: raw}
	w.skipSpace()
	w.pos++ // the bracket
	w.skipSpace()
	return w
}

// more: a member or element follows.
func (w *walker) more() bool { return w.raw[w.pos] != '}' && w.raw[w.pos] != ']' }

// key passes the name of a member.
func (w *walker) key() []byte {
	start := w.pos
	w.pos = stringEnd(w.raw, w.pos)
	key := text(w.raw[start:w.pos])
	w.skipSpace()
	w.pos++ // the colon
	w.skipSpace()
	return key
}

// value passes a value and the comma behind it.
func (w *walker) value() span {
	start := w.pos
	w.pos = valueEnd(w.raw, w.pos)
	end := w.pos
	w.skipSpace()
	if w.raw[w.pos] == ',' {
		w.pos++
		w.skipSpace()
	}
	return span{uint32(start), uint32(end)}
}

func (w *walker) skipSpace() {
	for w.pos < len(w.raw) && (w.raw[w.pos] == ' ' || w.raw[w.pos] == '\n' || w.raw[w.pos] == '\t' || w.raw[w.pos] == '\r') {
		w.pos++
	}
}

// valueEnd is the position behind the value that begins at pos.
func valueEnd(raw []byte, pos int) int {
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

func bracketEnd(raw []byte, pos int) int {
	depth := 0
	for {
		switch raw[pos] {
		case '"':
			pos = stringEnd(raw, pos)
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		pos++
		if depth == 0 {
			return pos
		}
	}
}

// stringEnd is the position behind the closing quote of the string that begins at pos: the first quote with an even
// number of backslashes in front of it.
func stringEnd(raw []byte, pos int) int {
	for start := pos + 1; ; {
		quote := start + bytes.IndexByte(raw[start:], '"')
		slash := quote
		for raw[slash-1] == '\\' {
			slash--
		}
		if (quote-slash)%2 == 0 {
			return quote + 1
		}
		start = quote + 1
	}
}

// member is the value that the object raw has for a key; the last one, as for all readers, if the key is repeated. It is
// nil if raw is no object or has no such key.
func member(raw []byte, name string) []byte {
	if raw[0] != '{' {
		return nil
	}
	var found []byte
	for w := walk(raw); w.more(); {
		key := w.key()
		if value := w.value(); string(key) == name {
			found = value.of(raw)
		}
	}
	return found
}

// text is what a string stands for; it lies in raw where that is possible. What UTF-8 cannot express becomes U+FFFD.
func text(raw []byte) []byte {
	inner := raw[1 : len(raw)-1]
	if bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
		return inner
	}
	var decoded string
	if err := json.Unmarshal(raw, &decoded); err != nil {
		panic("checked string is invalid: " + err.Error())
	}
	return []byte(decoded)
}

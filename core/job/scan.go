package job

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// depthMax bounds how deep a raw value may nest. The same limit holds when decoding and encoding, so that no job can be
// written that could not be read.
const depthMax = 512

// DecodeError tells what is wrong in a job file, and where.
type DecodeError struct {
	Path   string // place in the job, as "ops[0].log[2]"; "" for the job object itself
	Offset int    // bytes from the start of the data
	Reason string
}

func (e *DecodeError) Error() string {
	place := e.Path
	if place == "" {
		place = "job"
	}
	return place + ": " + e.Reason + " (byte " + strconv.Itoa(e.Offset) + ")"
}

// under puts the place into its parent's, on the error's way outwards. It passes nil on.
func (e *DecodeError) under(parent string) *DecodeError {
	switch {
	case e == nil:
	case e.Path == "":
		e.Path = parent
	case e.Path[0] == '[':
		e.Path = parent + e.Path
	default:
		e.Path = parent + "." + e.Path
	}
	return e
}

// underElement is under for the i-th element of a list.
func (e *DecodeError) underElement(i int) *DecodeError {
	if e == nil {
		return nil
	}
	return e.under("[" + strconv.Itoa(i) + "]")
}

// scanner walks JSON in one pass, from its start to its end.
//
// Invariant: 0 <= pos <= len(data), and between two calls pos is on a token or at the end, never on white space.
type scanner struct {
	data  []byte
	pos   int
	depth int // objects and lists that are open around pos, within the current raw value if there is one
}

func (s *scanner) fail(format string, args ...any) *DecodeError {
	return s.failAt(s.pos, format, args...)
}

func (s *scanner) failAt(offset int, format string, args ...any) *DecodeError {
	return &DecodeError{Offset: offset, Reason: fmt.Sprintf(format, args...)}
}

// found names what is at pos, for the text of an error.
func (s *scanner) found() string {
	switch c := s.peek(); {
	case s.pos >= len(s.data):
		return "the end of the data"
	case c == '{':
		return "an object"
	case c == '[':
		return "a list"
	case c == '"':
		return "a string"
	case c == '-' || isDigit(c):
		return "a number"
	case s.at("null"):
		return "null"
	case s.at("true"), s.at("false"):
		return "a boolean"
	default:
		return strconv.QuoteToASCII(string(s.data[s.pos : s.pos+1]))
	}
}

// peek is the byte at pos, 0 at the end. No token begins with 0.
func (s *scanner) peek() byte {
	if s.pos < len(s.data) {
		return s.data[s.pos]
	}
	return 0
}

// at tells whether text begins at pos.
func (s *scanner) at(text string) bool {
	return len(s.data)-s.pos >= len(text) && string(s.data[s.pos:s.pos+len(text)]) == text
}

func (s *scanner) skipSpace() {
	for s.pos < len(s.data) && isSpace(s.data[s.pos]) {
		s.pos++
	}
}

// end makes sure that only white space follows.
func (s *scanner) end() *DecodeError {
	s.skipSpace()
	if s.pos < len(s.data) {
		return s.fail("trailing data")
	}
	return nil
}

// enter opens the object or list at pos, which must begin with the given bracket, and tells whether a member or element
// follows. After each of them next is to be called; once either has returned false, pos is behind the closing bracket.
func (s *scanner) enter(opening byte) (more bool, err *DecodeError) {
	if s.peek() != opening {
		if opening == '{' {
			return false, s.fail("want an object, found %s", s.found())
		}
		return false, s.fail("want a list, found %s", s.found())
	}
	if s.depth++; s.depth > depthMax {
		return false, s.fail("nested deeper than %d levels", depthMax)
	}
	s.pos++
	s.skipSpace()
	if s.peek() == closing(opening) {
		s.pos++
		s.depth--
		return false, nil
	}
	return true, nil
}

// next goes on after a member or element of what enter opened; see there.
func (s *scanner) next(opening byte) (more bool, err *DecodeError) {
	s.skipSpace()
	switch s.peek() {
	case ',':
		s.pos++
		s.skipSpace()
		return true, nil
	case closing(opening):
		s.pos++
		s.depth--
		return false, nil
	}
	return false, s.fail("want ',' or '%c', found %s", closing(opening), s.found())
}

// closing is the bracket that ends what the given one opened: in ASCII both pairs are two apart.
func closing(opening byte) byte { return opening + 2 }

// colon goes from behind a key to its value.
func (s *scanner) colon() *DecodeError {
	s.skipSpace()
	if s.peek() != ':' {
		return s.fail("want ':', found %s", s.found())
	}
	s.pos++
	s.skipSpace()
	return nil
}

// key reads the name of a member and goes on to its value.
func (s *scanner) key() ([]byte, *DecodeError) {
	if s.peek() != '"' {
		return nil, s.fail("want a key, found %s", s.found())
	}
	key, err := s.text()
	if err != nil {
		return nil, err
	}
	return key, s.colon()
}

// text reads a string. The result lies in data, or in a slice of its own if the string is not plain ASCII. What UTF-8
// cannot express (invalid bytes, lone surrogates) becomes U+FFFD.
func (s *scanner) text() ([]byte, *DecodeError) {
	start := s.pos
	plain, err := s.skipString()
	if err != nil {
		return nil, err
	}
	if plain {
		return s.data[start+1 : s.pos-1], nil
	}
	var decoded string
	if err := json.Unmarshal(s.data[start:s.pos], &decoded); err != nil {
		return nil, s.failAt(start, "invalid string: %v", err)
	}
	return []byte(decoded), nil
}

// skipValue moves past the value at pos, whatever it is, and checks its syntax.
func (s *scanner) skipValue() *DecodeError {
	switch c := s.peek(); {
	case c == '"':
		_, err := s.skipString()
		return err
	case c == '{':
		return s.skipObject()
	case c == '[':
		return s.skipList()
	case c == '-' || isDigit(c):
		return s.skipNumber()
	case s.skipLiteral("null"), s.skipLiteral("true"), s.skipLiteral("false"):
		return nil
	}
	return s.fail("want a value, found %s", s.found())
}

func (s *scanner) skipObject() *DecodeError {
	for more, err := s.enter('{'); more || err != nil; more, err = s.next('{') {
		if err != nil {
			return err
		}
		if s.peek() != '"' {
			return s.fail("want a key, found %s", s.found())
		}
		if _, err := s.skipString(); err != nil {
			return err
		}
		if err := s.colon(); err != nil {
			return err
		}
		if err := s.skipValue(); err != nil {
			return err
		}
	}
	return nil
}

func (s *scanner) skipList() *DecodeError {
	for more, err := s.enter('['); more || err != nil; more, err = s.next('[') {
		if err != nil {
			return err
		}
		if err := s.skipValue(); err != nil {
			return err
		}
	}
	return nil
}

func (s *scanner) skipLiteral(name string) bool {
	if !s.at(name) {
		return false
	}
	s.pos += len(name)
	return true
}

// skipString moves past the string at pos and tells whether the bytes between its quotes are its value as they are:
// ASCII without escapes.
func (s *scanner) skipString() (plain bool, err *DecodeError) {
	start := s.pos
	plain = true
	for i := s.pos + 1; i < len(s.data); {
		switch c := s.data[i]; {
		case isPlain(c):
			i++
		case c == '"':
			s.pos = i + 1
			return plain, nil
		case c == '\\':
			plain = false
			n := escapeLen(s.data[i:])
			if n == 0 {
				return false, s.failAt(i, "invalid escape in string")
			}
			i += n
		case c < ' ':
			return false, s.failAt(i, "control character in string")
		default:
			plain = false
			i++
		}
	}
	return false, s.failAt(start, "string without end")
}

// escapeLen is the length of the escape with which b begins, 2 or 6; 0 if it is none.
func escapeLen(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if len(b) >= 6 && isHex(b[2]) && isHex(b[3]) && isHex(b[4]) && isHex(b[5]) {
			return 6
		}
	}
	return 0
}

// skipNumber moves past the number at pos.
func (s *scanner) skipNumber() *DecodeError {
	if s.peek() == '-' {
		s.pos++
	}
	if s.peek() == '0' {
		s.pos++
	} else if !s.skipDigits() {
		return s.fail("want a digit, found %s", s.found())
	}
	if s.peek() == '.' {
		s.pos++
		if !s.skipDigits() {
			return s.fail("want a digit, found %s", s.found())
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.pos++
		if c := s.peek(); c == '+' || c == '-' {
			s.pos++
		}
		if !s.skipDigits() {
			return s.fail("want a digit, found %s", s.found())
		}
	}
	return nil
}

// skipDigits tells whether there was at least one.
func (s *scanner) skipDigits() bool {
	start := s.pos
	for isDigit(s.peek()) {
		s.pos++
	}
	return s.pos > start
}

// memberRange is the extent raw[start:end] of the value that the object raw has for key, 0, 0 if the key is missing.
// If the key is repeated the last one counts, as for every reader of the file. isObject is false if raw is not a valid
// object.
func memberRange(raw []byte, key string) (start, end int, isObject bool) {
	s := scanner{data: raw}
	s.skipSpace()
	for more, err := s.enter('{'); more || err != nil; more, err = s.next('{') {
		if err != nil {
			return 0, 0, false
		}
		name, err := s.key()
		if err != nil {
			return 0, 0, false
		}
		valueStart := s.pos
		if s.skipValue() != nil {
			return 0, 0, false
		}
		if string(name) == key {
			start, end = valueStart, s.pos
		}
	}
	return start, end, s.end() == nil
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isHex(c byte) bool {
	return isDigit(c) || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

// isPlain tells whether Python writes c, within a string, as it is. That is also what every JSON reader takes as it is.
func isPlain(c byte) bool { return c >= ' ' && c <= '~' && c != '"' && c != '\\' }

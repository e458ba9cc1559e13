package rawjson

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// DepthMax is the greatest number of objects and lists that may be open at one place of a value. Check and Scanner hold
// to it, so that what was written can be read.
const DepthMax = 512

// Scanner reads JSON in one pass from start to end, and checks its syntax.
//
// Invariant: 0 <= pos <= len(data). Between two calls pos is at a token or at the end, not at white space.
type Scanner struct {
	data  []byte
	pos   int
	depth int // the objects and lists that are open around pos; within a value read by Value, those of that value
}

// NewScanner returns a Scanner at the first token of data.
func NewScanner(data []byte) Scanner {
	s := Scanner{data: data}
	s.skipSpace()
	return s
}

// Pos is the offset of the next token.
func (s *Scanner) Pos() int { return s.pos }

// Fail is an Error at the next token.
func (s *Scanner) Fail(format string, args ...any) *Error {
	return s.FailAt(s.pos, format, args...)
}

// FailAt is an Error at an offset.
func (s *Scanner) FailAt(offset int, format string, args ...any) *Error {
	return &Error{Offset: offset, Reason: fmt.Sprintf(format, args...)}
}

// Found describes the next token, for the text of an error.
func (s *Scanner) Found() string {
	switch c := s.Peek(); {
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

// Peek is the first byte of the next token, 0 at the end. No token begins with 0.
func (s *Scanner) Peek() byte {
	if s.pos < len(s.data) {
		return s.data[s.pos]
	}
	return 0
}

// at reports whether text begins at pos.
func (s *Scanner) at(text string) bool {
	return len(s.data)-s.pos >= len(text) && string(s.data[s.pos:s.pos+len(text)]) == text
}

func (s *Scanner) skipSpace() {
	for s.pos < len(s.data) && isSpace(s.data[s.pos]) {
		s.pos++
	}
}

// End returns an error unless only white space follows.
func (s *Scanner) End() *Error {
	s.skipSpace()
	if s.pos < len(s.data) {
		return s.Fail("trailing data")
	}
	return nil
}

// Enter opens the object or list at pos, which must begin with the given bracket. It reports whether a member or an
// element follows. The caller reads that and calls Next, as long as one follows:
//
//	for more, err := s.Enter('['); more || err != nil; more, err = s.Next('[') {
func (s *Scanner) Enter(opening byte) (more bool, err *Error) {
	if s.Peek() != opening {
		if opening == '{' {
			return false, s.Fail("want an object, found %s", s.Found())
		}
		return false, s.Fail("want a list, found %s", s.Found())
	}
	if s.depth++; s.depth > DepthMax {
		return false, s.Fail("nested deeper than %d levels", DepthMax)
	}
	s.pos++
	s.skipSpace()
	if s.Peek() == closing(opening) {
		s.pos++
		s.depth--
		return false, nil
	}
	return true, nil
}

// Next moves past the comma after a member or element, or past the closing bracket. It reports whether another member or
// element follows.
func (s *Scanner) Next(opening byte) (more bool, err *Error) {
	s.skipSpace()
	switch s.Peek() {
	case ',':
		s.pos++
		s.skipSpace()
		return true, nil
	case closing(opening):
		s.pos++
		s.depth--
		return false, nil
	}
	return false, s.Fail("want ',' or '%c', found %s", closing(opening), s.Found())
}

// closing is the bracket that closes the opening one. In ASCII the two of both pairs are two apart.
func closing(opening byte) byte { return opening + 2 }

// colon moves from the end of a key to its value. The error says that there is no colon.
func (s *Scanner) colon() *Error {
	s.skipSpace()
	if s.Peek() != ':' {
		return s.Fail("want ':', found %s", s.Found())
	}
	s.pos++
	s.skipSpace()
	return nil
}

// Key reads the key of a member and moves to the value of the member. The key is decoded, like the result of Text.
func (s *Scanner) Key() ([]byte, *Error) {
	if s.Peek() != '"' {
		return nil, s.Fail("want a key, found %s", s.Found())
	}
	key, err := s.text()
	if err != nil {
		return nil, err
	}
	return key, s.colon()
}

// Text reads a string. The result lies in data if the string is ASCII without escapes, and is a copy otherwise. What
// UTF-8 cannot express, invalid bytes and lone surrogates, becomes U+FFFD.
func (s *Scanner) Text() ([]byte, *Error) {
	if s.Peek() != '"' {
		return nil, s.Fail("want a string, found %s", s.Found())
	}
	return s.text()
}

func (s *Scanner) text() ([]byte, *Error) {
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
		return nil, s.FailAt(start, "invalid string: %v", err)
	}
	return []byte(decoded), nil
}

// SkipValue moves past a value of any type. The error says what is wrong with its syntax.
func (s *Scanner) SkipValue() *Error {
	switch c := s.Peek(); {
	case c == '"':
		_, err := s.skipString()
		return err
	case c == '{':
		return s.skipObject()
	case c == '[':
		return s.skipList()
	case c == '-' || isDigit(c):
		return s.skipNumber()
	case s.Literal("null"), s.Literal("true"), s.Literal("false"):
		return nil
	}
	return s.Fail("want a value, found %s", s.Found())
}

func (s *Scanner) skipObject() *Error {
	for more, err := s.Enter('{'); more || err != nil; more, err = s.Next('{') {
		if err != nil {
			return err
		}
		if s.Peek() != '"' {
			return s.Fail("want a key, found %s", s.Found())
		}
		if _, err := s.skipString(); err != nil {
			return err
		}
		if err := s.colon(); err != nil {
			return err
		}
		if err := s.SkipValue(); err != nil {
			return err
		}
	}
	return nil
}

func (s *Scanner) skipList() *Error {
	for more, err := s.Enter('['); more || err != nil; more, err = s.Next('[') {
		if err != nil {
			return err
		}
		if err := s.SkipValue(); err != nil {
			return err
		}
	}
	return nil
}

// Literal moves past null, true or false, given by name. It reports whether that is the next token.
func (s *Scanner) Literal(name string) bool {
	if !s.at(name) {
		return false
	}
	s.pos += len(name)
	return true
}

// skipString moves past the string at pos. It reports whether the bytes between its quotes are its value: ASCII without
// escapes.
func (s *Scanner) skipString() (plain bool, err *Error) {
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
				return false, s.FailAt(i, "invalid escape in string")
			}
			i += n
		case c < ' ':
			return false, s.FailAt(i, "control character in string")
		default:
			plain = false
			i++
		}
	}
	return false, s.FailAt(start, "string without end")
}

// escapeLen is the length of the escape at the start of b, 2 or 6; 0 for an invalid escape.
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

// skipNumber moves past the number at pos. The error says what is wrong with its syntax.
func (s *Scanner) skipNumber() *Error {
	if s.Peek() == '-' {
		s.pos++
	}
	if s.Peek() == '0' {
		s.pos++
	} else if !s.skipDigits() {
		return s.Fail("want a digit, found %s", s.Found())
	}
	if s.Peek() == '.' {
		s.pos++
		if !s.skipDigits() {
			return s.Fail("want a digit, found %s", s.Found())
		}
	}
	if c := s.Peek(); c == 'e' || c == 'E' {
		s.pos++
		if c := s.Peek(); c == '+' || c == '-' {
			s.pos++
		}
		if !s.skipDigits() {
			return s.Fail("want a digit, found %s", s.Found())
		}
	}
	return nil
}

// skipDigits moves past digits. It reports whether there was at least one.
func (s *Scanner) skipDigits() bool {
	start := s.pos
	for isDigit(s.Peek()) {
		s.pos++
	}
	return s.pos > start
}

// Integer reads a number without fraction and exponent, in the given range.
func (s *Scanner) Integer(least, most int64) (int64, *Error) {
	start := s.pos
	if c := s.Peek(); c != '-' && !isDigit(c) {
		return 0, s.Fail("want an integer, found %s", s.Found())
	}
	if err := s.skipNumber(); err != nil {
		return 0, err
	}
	number := s.data[start:s.pos]
	n, ok := ParseInt(number)
	if !ok || n < least || n > most {
		return 0, s.FailAt(start, "want an integer from %d to %d, found %.40s", least, most, number)
	}
	return n, nil
}

// ParseInt reads an optional minus and decimal digits. It returns false for any other text, and for a number that int64
// cannot hold.
func ParseInt(b []byte) (int64, bool) {
	negative := len(b) > 0 && b[0] == '-'
	if negative {
		b = b[1:]
	}
	if len(b) == 0 {
		return 0, false
	}
	n := int64(0) // the negated number, because the range of int64 reaches one further below 0 than above
	for _, c := range b {
		if !isDigit(c) || n < (math.MinInt64+int64(c-'0'))/10 {
			return 0, false
		}
		n = n*10 - int64(c-'0')
	}
	if negative {
		return n, true
	}
	return -n, n != math.MinInt64
}

// Value reads a value of any type, unchanged. Its depth is counted from its own top, as Check does.
func (s *Scanner) Value() (json.RawMessage, *Error) {
	start, outside := s.pos, s.depth
	s.depth = 0
	if err := s.SkipValue(); err != nil {
		return nil, err
	}
	s.depth = outside
	return s.since(start), nil
}

// since is the text from start to pos. Its capacity is its length, so that an append does not write into data.
func (s *Scanner) since(start int) []byte { return s.data[start:s.pos:s.pos] }

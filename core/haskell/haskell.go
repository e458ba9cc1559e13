// Package haskell writes text as Haskell's show does, which Ganeti's error texts contain.
package haskell

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// controlNames are Haskell's escapes for the characters before the space.
var controlNames = strings.Fields(`NUL SOH STX ETX EOT ENQ ACK a b t n v f r SO SI
	DLE DC1 DC2 DC3 DC4 NAK SYN ETB CAN EM SUB ESC FS GS RS US`)

// Quote writes a string with quotes and Haskell's escapes. Characters outside of ASCII become decimal numbers. \& separates
// a number from a digit that follows, and \SO from an H.
func Quote(s string) string {
	b := []byte{'"'}
	for len(s) > 0 {
		char, n := utf8.DecodeRuneInString(s)
		s = s[n:]
		next := byte(0)
		if len(s) > 0 {
			next = s[0]
		}
		switch {
		case char == '"' || char == '\\':
			b = append(b, '\\', byte(char))
		case char < ' ':
			b = append(append(b, '\\'), controlNames[char]...)
			if controlNames[char] == "SO" && next == 'H' {
				b = append(b, `\&`...)
			}
		case char == 0x7f:
			b = append(b, `\DEL`...)
		case char < 0x7f:
			b = append(b, byte(char))
		default:
			b = strconv.AppendInt(append(b, '\\'), int64(char), 10)
			if next >= '0' && next <= '9' {
				b = append(b, `\&`...)
			}
		}
	}
	return string(append(b, '"'))
}

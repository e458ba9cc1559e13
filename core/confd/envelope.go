package confd

import (
	"encoding/hex"
	"unicode/utf16"
	"unicode/utf8"

	"lockstep/core/rawjson"
)

// magic begins each datagram.
const magic = "plj0"

// envelope is the outer object of a datagram. Its slices are valid until the reader that made it opens the next one.
type envelope struct {
	msg, salt []byte
	signature [digest]byte
}

// Bits of the keys of an envelope.
const (
	hasMsg = 1 << iota
	hasSalt
	hasSignature

	hasAll = hasMsg | hasSalt | hasSignature
)

// envelopeReader reads envelopes. It allocates nothing once its buffer is large enough: packets of strangers must be cheap.
type envelopeReader struct {
	text []byte // decoded strings
}

// open reads an envelope: the magic, one JSON object with exactly three texts, and white space (confd.md 2). valid is false for anything
// else.
func (r *envelopeReader) open(packet []byte) (e envelope, valid bool) {
	if len(packet) < packetMin || len(packet) > DatagramMax {
		return e, false
	}
	if string(packet[:len(magic)]) != magic || packet[len(magic)] != '{' || !utf8.Valid(packet) {
		return e, false
	}
	if cap(r.text) < len(packet) {
		r.text = make([]byte, 0, DatagramMax)
	}
	r.text = r.text[:0]
	rest, found := packet[len(magic)+1:], 0
	for {
		var key, value []byte
		if key, rest, valid = r.string(skipSpace(rest)); !valid {
			return e, false
		}
		if rest, valid = skipByte(skipSpace(rest), ':'); !valid {
			return e, false
		}
		if value, rest, valid = r.string(skipSpace(rest)); !valid {
			return e, false
		}
		bit := e.set(key, value)
		if bit == 0 || found&bit != 0 {
			return e, false
		}
		found |= bit
		rest = skipSpace(rest)
		if next, more := skipByte(rest, ','); more {
			rest = next
			continue
		}
		rest, valid = skipByte(rest, '}')
		return e, valid && found == hasAll && len(skipSpace(rest)) == 0
	}
}

// set stores a value and returns the bit of its key, 0 if the key is unknown or the value is invalid.
func (e *envelope) set(key, value []byte) int {
	switch string(key) {
	case "msg":
		e.msg = value
		return hasMsg
	case "salt":
		e.salt = value
		return hasSalt
	case "hmac":
		if len(value) != 2*digest {
			return 0
		}
		if _, err := hex.Decode(e.signature[:], value); err != nil {
			return 0
		}
		return hasSignature
	}
	return 0
}

func skipSpace(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\n' || b[0] == '\t' || b[0] == '\r') {
		b = b[1:]
	}
	return b
}

func skipByte(b []byte, c byte) (rest []byte, found bool) {
	if len(b) == 0 || b[0] != c {
		return b, false
	}
	return b[1:], true
}

// string reads a JSON string at the start of b. The value lies in b, or in the buffer if it has escapes.
func (r *envelopeReader) string(b []byte) (value, rest []byte, valid bool) {
	if len(b) == 0 || b[0] != '"' {
		return nil, b, false
	}
	b = b[1:]
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			return b[:i], b[i+1:], true
		case c == '\\':
			return r.escaped(b, i)
		case c < ' ':
			return nil, b, false
		}
	}
	return nil, b, false
}

// escaped continues string at the first escape, which is at b[plain]. The value that it returns lies in the buffer of the reader. valid
// is false for an invalid escape, a control character and a string without end.
func (r *envelopeReader) escaped(b []byte, plain int) (value, rest []byte, valid bool) {
	start := len(r.text)
	r.text = append(r.text, b[:plain]...)
	for i := plain; i < len(b); {
		switch c := b[i]; {
		case c == '"':
			return r.text[start:len(r.text):len(r.text)], b[i+1:], true
		case c == '\\':
			char, n := unescape(b[i:])
			if n == 0 {
				return nil, b, false
			}
			r.text = utf8.AppendRune(r.text, char)
			i += n
		case c < ' ':
			return nil, b, false
		default:
			r.text = append(r.text, c)
			i++
		}
	}
	return nil, b, false
}

// shortEscapes are the characters that a letter after a backslash means.
var shortEscapes = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// unescape returns the character of the escape at the start of b, and its length; 0 if it is invalid. Half of a surrogate pair is
// invalid: no UTF-8 text has it, so that no signature is defined.
func unescape(b []byte) (char rune, n int) {
	if len(b) < 2 {
		return 0, 0
	}
	if short := shortEscapes[b[1]]; short != 0 {
		return rune(short), 2
	}
	char, valid := codeUnit(b)
	switch {
	case !valid:
		return 0, 0
	case !utf16.IsSurrogate(char):
		return char, 6
	}
	low, valid := codeUnit(b[6:])
	if char = utf16.DecodeRune(char, low); !valid || char == utf8.RuneError {
		return 0, 0
	}
	return char, 12
}

// codeUnit reads the escape \uXXXX at the start of b and returns its UTF-16 code unit. valid is false if b begins with anything else.
func codeUnit(b []byte) (unit rune, valid bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	var octets [2]byte
	if _, err := hex.Decode(octets[:], b[2:6]); err != nil {
		return 0, false
	}
	return rune(octets[0])<<8 | rune(octets[1]), true
}

// appendReply appends the datagram of a reply. Its text is ASCII, so that every client can read it.
func appendReply(dst []byte, by *signer, msg []byte, salt string) []byte {
	by.mac.Reset()
	_, _ = by.mac.Write([]byte(salt)) // never fails
	_, _ = by.mac.Write(msg)
	dst = append(dst, magic+`{"hmac":"`...)
	dst = hex.AppendEncode(dst, by.mac.Sum(by.sum[:0]))
	dst = append(dst, `","msg":`...)
	dst = rawjson.AppendQuoted(dst, string(msg))
	dst = append(dst, `,"salt":`...)
	dst = rawjson.AppendQuoted(dst, salt)
	return append(dst, '}')
}

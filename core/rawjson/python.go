package rawjson

import (
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

// AppendPython appends raw, which must be valid, as Python's json.dumps writes it: ASCII, a space after each comma and
// colon outside of strings. The order of keys and the spelling of numbers stay. Empty raw gives null. Invalid UTF-8
// becomes U+FFFD.
func AppendPython(dst []byte, raw json.RawMessage) []byte {
	if len(raw) == 0 {
		return append(dst, `null`...)
	}
	r := rewriter{dst: dst, src: raw}
	r.rewrite()
	return r.dst
}

// rewriter copies valid JSON into Python's form. It copies text that has that form already in long runs.
//
// Invariant: 0 <= copied <= pos <= len(src). dst holds the new form of src[:copied]. src[copied:pos] has Python's form
// and is not copied yet.
type rewriter struct {
	dst, src    []byte
	copied, pos int
}

func (r *rewriter) rewrite() {
	for r.pos < len(r.src) {
		switch c := r.src[r.pos]; {
		case c == '"':
			r.rewriteString()
		case c == ',' || c == ':':
			r.pos++
			r.separate()
		case isSpace(c):
			r.replace(1)
		default:
			r.pos++
		}
	}
	r.replace(0)
}

// separate writes one space after the comma or colon before pos. It leaves further white space to rewrite.
func (r *rewriter) separate() {
	// In valid JSON a token follows, so the second index exists if the first byte is a space.
	if r.src[r.pos] == ' ' && !isSpace(r.src[r.pos+1]) {
		r.pos++
		return
	}
	r.replace(0)
	r.dst = append(r.dst, ' ')
}

// replace copies src[copied:pos] and skips the next n bytes, in place of which the caller appends other text.
func (r *rewriter) replace(n int) {
	r.dst = append(r.dst, r.src[r.copied:r.pos]...)
	r.pos += n
	r.copied = r.pos
}

func (r *rewriter) rewriteString() {
	for r.pos++; ; {
		r.pos = plainEnd(r.src, r.pos)
		switch r.src[r.pos] {
		case '"':
			r.pos++
			return
		case '\\':
			r.rewriteEscape()
		default:
			char, n := utf8.DecodeRune(r.src[r.pos:]) // U+FFFD, 1 if invalid
			r.replace(n)
			r.dst = appendRune(r.dst, char)
		}
	}
}

// plainEnd is the position of the first byte at or after pos that is not plain. One such byte must follow.
func plainEnd(src []byte, pos int) int {
	for isPlain(src[pos]) {
		pos++
	}
	return pos
}

// rewriteEscape spells the escape at pos as Python does. The halves of a surrogate pair are two escapes, so a pair stays
// a pair and a lone half survives.
func (r *rewriter) rewriteEscape() {
	switch r.src[r.pos+1] {
	case '/':
		r.replace(2)
		r.dst = append(r.dst, '/')
	case 'u':
		unit, err := strconv.ParseUint(string(r.src[r.pos+2:r.pos+6]), 16, 16)
		if err != nil {
			panic("checked escape is invalid: " + err.Error())
		}
		r.replace(6)
		r.dst = appendUnit(r.dst, uint16(unit))
	default:
		r.pos += 2
	}
}

// Quote is s as a JSON string in ASCII, as Python writes it. Invalid UTF-8 becomes U+FFFD.
func Quote(s string) json.RawMessage {
	return AppendQuoted(make([]byte, 0, len(s)+2), s)
}

// AppendQuoted appends Quote(s).
func AppendQuoted(dst []byte, s string) []byte {
	dst = append(dst, '"')
	copied := 0
	for i := 0; i < len(s); {
		if isPlain(s[i]) {
			i++
			continue
		}
		dst = append(dst, s[copied:i]...)
		char, n := utf8.DecodeRuneInString(s[i:])
		dst = appendRune(dst, char)
		i += n
		copied = i
	}
	dst = append(dst, s[copied:]...)
	return append(dst, '"')
}

// appendRune appends a character as Python writes it within a string.
func appendRune(dst []byte, char rune) []byte {
	if char >= 0x10000 {
		char -= 0x10000
		dst = appendUnit(dst, uint16(0xd800+char>>10))
		char = 0xdc00 + char&0x3ff
	}
	return appendUnit(dst, uint16(char))
}

// appendUnit appends a UTF-16 code unit as Python writes it within a string.
func appendUnit(dst []byte, unit uint16) []byte {
	const hex = "0123456789abcdef"
	switch unit {
	case '"', '\\':
		return append(dst, '\\', byte(unit))
	case '\b':
		return append(dst, `\b`...)
	case '\f':
		return append(dst, `\f`...)
	case '\n':
		return append(dst, `\n`...)
	case '\r':
		return append(dst, `\r`...)
	case '\t':
		return append(dst, `\t`...)
	}
	if unit >= ' ' && unit <= '~' {
		return append(dst, byte(unit))
	}
	return append(dst, '\\', 'u', hex[unit>>12], hex[unit>>8&15], hex[unit>>4&15], hex[unit&15])
}

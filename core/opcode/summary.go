package opcode

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"lockstep/core/rawjson"
)

// summaryRunesMax bounds the command line within a summary.
const summaryRunesMax = 60

// Summary is one line that describes an opcode from its stored input (queue.md 8.2): OP_ID without OP_, and the value
// of the opcode's most telling parameter in parentheses if the built-in catalogue names one. It never fails: an input
// without OP_ID is "INVALID_OP", and a value that cannot be shown is omitted.
func Summary(input json.RawMessage) string { return Builtin().Summary(input) }

// Summary is the function Summary for the opcodes of this catalogue, which may be declared ones. Without a value that describes the
// opcode it is the name without OP_, and without a name INVALID_OP.
func (c *Catalogue) Summary(input json.RawMessage) string {
	var buffer [48]summaryMember // large enough for most opcodes, whose members then stay on the stack
	found := buffer[:0]
	var id json.RawMessage
	for key, value := range rawjson.Members(input) {
		if string(key) == `"OP_ID"` {
			id = value
		}
		found = append(found, summaryMember{key, value})
	}
	if !rawjson.IsString(id) || len(id) == len(`""`) {
		return "INVALID_OP"
	}
	line := make([]byte, 0, 96)
	line = appendLine(line, strings.TrimPrefix(string(rawjson.Unquote(id)), "OP_"))
	op, known := c.opcodes[string(rawjson.Unquote(id))]
	if !known || op.summary == "" {
		return string(line)
	}
	var shown json.RawMessage
	for _, m := range found {
		if rawjson.IsString(m.key) && string(m.key[1:len(m.key)-1]) == op.summary {
			shown = m.value
		}
	}
	before := len(line)
	line, ok := appendSummaryValue(append(line, '('), op, shown)
	if !ok {
		return string(line[:before])
	}
	return string(append(line, ')'))
}

type summaryMember struct{ key, value []byte }

// appendSummaryValue writes the value of the parameter that describes the opcode, which is nil if unset. It reports false if the value
// cannot be part of a summary.
func appendSummaryValue(dst []byte, op *Opcode, v json.RawMessage) ([]byte, bool) {
	if op.Defined() && len(v) > 0 && !rawjson.IsNull(v) && v[0] != '{' { // any value except an object
		if v[0] == '[' {
			return appendCommandLine(dst, v)
		}
		return appendLine(dst, textOf(v)), true
	}
	switch op.Name {
	case "OP_TEST_DELAY":
		seconds, ok := parseFloat(v)
		return appendHaskellFloat(dst, seconds), ok
	case "OP_TEST_ALLOCATOR":
		if v == nil || rawjson.IsNull(v) {
			return append(dst, "None"...), true
		}
	case "OP_TAGS_GET":
		kind := tagKind(v)
		return append(dst, kind...), kind != ""
	case "OP_RUN_COMMAND":
		return appendCommandLine(dst, v)
	}
	return appendLine(dst, string(rawjson.Unquote(v))), rawjson.IsString(v)
}

// tagKind is the word for a kind of object in Ganeti's summary of OP_TAGS_GET, "" for an unknown kind.
func tagKind(v json.RawMessage) string {
	switch string(v) {
	case `"cluster"`:
		return "TagKindCluster"
	case `"instance"`:
		return "TagKindInstance"
	case `"network"`:
		return "TagKindNetwork"
	case `"node"`:
		return "TagKindNode"
	case `"nodegroup"`:
		return "TagKindGroup"
	}
	return ""
}

// appendHaskellFloat writes f as Ganeti 3.0 shows a duration: with at least one digit after the point, and with an
// exponent if 0 < |f| < 0.1 or |f| >= 10^7.
func appendHaskellFloat(dst []byte, f float64) []byte {
	size := f
	if size < 0 {
		size = -size
	}
	if size == 0 || size >= 0.1 && size < 1e7 {
		text := strconv.FormatFloat(f, 'f', -1, 64)
		dst = append(dst, text...)
		if strings.IndexByte(text, '.') < 0 {
			dst = append(dst, ".0"...)
		}
		return dst
	}
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(f, 'e', -1, 64), "e")
	dst = append(dst, mantissa...)
	if strings.IndexByte(mantissa, '.') < 0 {
		dst = append(dst, ".0"...)
	}
	power, _ := strconv.Atoi(exponent) // drops the sign + and leading zeros
	return strconv.AppendInt(append(dst, 'e'), int64(power), 10)
}

// appendCommandLine writes the arguments with spaces between them, cut to summaryRunesMax runes. It reports false if argv has no argument
// or one that is no string.
func appendCommandLine(dst []byte, argv json.RawMessage) ([]byte, bool) {
	line := truncatedLine{dst: dst, fits: len(dst)}
	count := 0
	for arg := range rawjson.Elements(argv) {
		if !rawjson.IsString(arg) {
			return dst, false
		}
		if count++; count > 1 {
			line.add(' ')
		}
		for _, r := range string(rawjson.Unquote(arg)) {
			if line.full {
				break
			}
			line.add(r)
		}
		if line.full {
			break
		}
	}
	return line.dst, count > 0
}

// truncatedLine is a line that is cut and ends in an ellipsis when it is too long.
//
// Invariant: dst[:fits] leaves room for the ellipsis and does not end within an escape.
type truncatedLine struct {
	dst   []byte
	runes int
	fits  int
	full  bool
}

func (c *truncatedLine) add(r rune) {
	if c.full {
		return
	}
	before := len(c.dst)
	c.dst = appendVisible(c.dst, r)
	c.runes += utf8.RuneCount(c.dst[before:])
	switch {
	case c.runes > summaryRunesMax:
		c.dst = append(c.dst[:c.fits], "…"...)
		c.full = true
	case c.runes < summaryRunesMax:
		c.fits = len(c.dst)
	}
}

// appendLine writes s with escapes for all characters that cannot be shown within a line.
func appendLine(dst []byte, s string) []byte {
	for _, r := range s {
		dst = appendVisible(dst, r)
	}
	return dst
}

// appendVisible writes letters, marks, numbers, symbols and spaces unchanged, and other characters as the escape of a
// string literal.
func appendVisible(dst []byte, r rune) []byte {
	if unicode.IsGraphic(r) {
		return utf8.AppendRune(dst, r)
	}
	escape := strconv.QuoteRuneToASCII(r)
	return append(dst, escape[1:len(escape)-1]...)
}

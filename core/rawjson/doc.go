// Package rawjson reads and writes JSON text without building values from it. It has two ways to read:
//
//   - Scanner, Check, ReadObject, ReadList and ReadText check the syntax of untrusted data. Their errors are *Error,
//     which names the place and the reason.
//   - Walker, Members, Elements and Unquote walk text whose syntax was checked before. They check nothing, look at each
//     byte once and allocate nothing. On malformed text they may stop early or yield wrong parts, but they end, and
//     never read outside of the slice.
//
// It writes JSON as Ganeti's Python does: Quote, AppendQuoted, AppendPython. The package is pure.
package rawjson

import (
	"encoding/json"
	"strconv"
	"strings"
)

// IsNull reports whether raw is null, without white space around it.
func IsNull(raw json.RawMessage) bool { return string(raw) == "null" }

// IsString reports whether raw, which must be one valid JSON value, is a string.
func IsString(raw json.RawMessage) bool { return len(raw) >= 2 && raw[0] == '"' }

// shownMax is how many bytes of a client's text an error repeats.
const shownMax = 100

// Clipped is the beginning of raw, at most 100 bytes of it, for an error text; "nothing" for white space.
func Clipped[T ~string | ~[]byte](raw T) string {
	switch text := strings.TrimSpace(string(raw)); {
	case text == "":
		return "nothing"
	case len(text) > shownMax:
		return strings.ToValidUTF8(text[:shownMax], "") + "…"
	default:
		return text
	}
}

// Quoted is text in quotes for an error text, at most 100 bytes of it.
func Quoted(text string) string {
	if len(text) > shownMax {
		return strconv.Quote(text[:shownMax]) + "…"
	}
	return strconv.Quote(text)
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isHex(c byte) bool {
	return isDigit(c) || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

// isPlain reports whether Python writes c within a string unchanged. Every JSON reader reads such a byte unchanged.
func isPlain(c byte) bool { return c >= ' ' && c <= '~' && c != '"' && c != '\\' }

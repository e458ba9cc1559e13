package term

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ValueMax is the maximum number of characters shown of one parameter, result or log line.
const ValueMax = 200

// Output of jobs, summaries and error texts are data. Printed unchanged, they could move the cursor,
// overwrite earlier lines or set the window's title. Visible makes them harmless in tables, blocks
// and messages, Stripped in lines of output on a terminal. Output to a file or pipe is unchanged.

// Visible replaces every character that is not printable by its escape, \n, \x1b or \u202e, so that
// no text is hidden or leaves its line.
func Visible(s string) string {
	clean := func(r rune) bool { return !strconv.IsPrint(r) }
	if utf8.ValidString(s) && strings.IndexFunc(s, clean) < 0 {
		return s
	}
	var b strings.Builder
	for _, char := range s {
		if strconv.IsPrint(char) {
			b.WriteRune(char)
			continue
		}
		quoted := strconv.QuoteRune(char)
		b.WriteString(quoted[1 : len(quoted)-1])
	}
	return b.String()
}

// Stripped removes escape sequences, other control characters except tab and newline, and the marks
// that reverse the direction of text.
func Stripped(s string) string {
	if strings.IndexFunc(s, dangerous) < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		char, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case char == escape || char == csi:
			i += sequenceLength(s[i:])
			continue
		case !dangerous(char):
			b.WriteRune(char)
		}
		i += size
	}
	return b.String()
}

const (
	escape = 0x1b
	csi    = 0x9b // "control sequence introducer" in one character
	bell   = 0x07
)

func dangerous(char rune) bool {
	switch {
	case char == '\t' || char == '\n':
		return false
	case char >= 0x202a && char <= 0x202e, char >= 0x2066 && char <= 0x2069:
		return true
	}
	return unicode.IsControl(char)
}

// sequenceLength is the length in bytes of the control sequence (ECMA-48) at the start of s, which
// begins with escape or csi. For an unfinished sequence it is the length of the introducer, so
// that the text after it stays visible.
func sequenceLength(s string) int {
	introducer := 1
	if s[0] != escape {
		introducer = utf8.RuneLen(csi)
	} else if len(s) < 2 {
		return 1
	} else if s[1] == '[' {
		introducer = 2
	} else if strings.IndexByte("]PX^_", s[1]) >= 0 {
		return stringLength(s)
	}
	// Parameters and intermediates (0x20 to 0x3f), then one final character. After a
	// bare escape 0x30 to 0x3f are final already.
	last := byte(0x3f)
	if introducer == 1 {
		last = 0x2f
	}
	for i := introducer; i < len(s); i++ {
		switch {
		case s[i] >= 0x20 && s[i] <= last:
		case s[i] > last && s[i] < 0x7f:
			return i + 1
		default:
			return introducer
		}
	}
	return introducer
}

// stringLength is sequenceLength for sequences with a text, such as a window title, which end with
// bell or escape backslash.
func stringLength(s string) int {
	const introducer = 2
	for i := introducer; i < len(s); i++ {
		if s[i] == bell {
			return i + 1
		}
		if s[i] == escape && i+1 < len(s) && s[i+1] == '\\' {
			return i + 2
		}
	}
	return introducer
}

// Shortened cuts s to at most limit characters and then adds its length.
func Shortened(s string, limit int) string {
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	cut := []rune(s)[:limit]
	return fmt.Sprintf("%s… (%d bytes in all)", string(cut), len(s))
}

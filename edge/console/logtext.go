package console

import (
	"encoding/base64"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"lockstep/edge/rapi"
)

// pieceMax bounds the characters of one entry that a page shows. The download has all of it.
const pieceMax = 16 << 10

// shownEntry is an entry of a log as pages show it: text with classes for colours, never markup.
type shownEntry struct {
	Serial int64      `json:"n"`
	Stream string     `json:"s"`
	Time   int64      `json:"t"` // milliseconds since 1970
	Parts  []textPart `json:"p"`
	// Binary is the number of bytes of an entry that is not text, and Fragment that of a short text, which may be part of it.
	Binary   int `json:"b,omitempty"`
	Fragment int `json:"f,omitempty"`
	// Run is the number of entries that are shown as this one, if they are not text.
	Run int `json:"-"`
	// Open: the entry ends without a newline, and the next one of its stream goes on in the same line.
	Open bool `json:"o,omitempty"`
}

// textPart is text in one colour.
type textPart struct {
	Class string `json:"c,omitempty"`
	Text  string `json:"x"`
}

// Between bytes that are not text some happen to be text: fragments of at most a few bytes after several entries that are not text belong
// to them. The script of the page does the same.
const (
	binaryRun     = 3 // entries
	fragmentBytes = 8
)

// shownEntries are the entries as pages show them.
func shownEntries(entries []rapi.LogEntry) []shownEntry {
	shown := make([]shownEntry, len(entries))
	for i, e := range entries {
		shown[i] = shownEntry{Serial: e.Serial, Stream: e.Stream, Time: e.Time.UnixMilli()}
		if e.Base64 != "" {
			shown[i].Binary = base64.StdEncoding.DecodedLen(len(e.Base64)) - strings.Count(e.Base64, "=")
			continue
		}
		line, complete := strings.CutSuffix(e.Text, "\n")
		isOutput := e.Stream != rapi.StreamMessage && e.Stream != rapi.StreamMissing
		shown[i].Parts, shown[i].Open = colourParts(line), isOutput && !complete
		if isOutput && len(e.Text) <= fragmentBytes {
			shown[i].Fragment = len(e.Text)
		}
	}
	return shown
}

// folded makes one entry of the entries of a stream that are not text, up to the next text of the stream. It is where they begin.
func folded(entries []shownEntry) []shownEntry {
	var all []shownEntry
	begun := map[string]int{} // streams whose last entries are not text, with the index in all
	for _, e := range entries {
		at, inRun := begun[e.Stream]
		switch {
		case inRun && e.Binary > 0, inRun && e.Fragment > 0 && all[at].Run >= binaryRun:
			all[at].Binary += e.Binary + e.Fragment
			all[at].Run++
			continue
		case e.Binary > 0:
			begun[e.Stream], e.Run = len(all), 1
		default:
			delete(begun, e.Stream)
		}
		all = append(all, e)
	}
	return all
}

// colourParts splits text at sequences that set colours (SGR). Other control characters become visible, so that output cannot move
// the cursor or reorder the text.
func colourParts(text string) []textPart {
	if len(text) > pieceMax {
		cut := pieceMax
		for cut > 0 && !utf8.RuneStart(text[cut]) {
			cut--
		}
		text = text[:cut] + "… (" + strconv.Itoa(len(text)-cut) + " more bytes; the download has them)"
	}
	var parts []textPart
	var state colour
	for text != "" {
		at := strings.IndexByte(text, '\x1b')
		if at < 0 {
			return appendPart(parts, state, text)
		}
		parts = appendPart(parts, state, text[:at])
		text = text[at:]
		end := sequenceEnd(text)
		if strings.HasPrefix(text, "\x1b[") && text[end-1] == 'm' {
			state.apply(text[2 : end-1])
		}
		text = text[end:]
	}
	return parts
}

// sequenceEnd is the length in bytes of an escape sequence at the beginning of text; at least 1.
func sequenceEnd(text string) int {
	if len(text) < 2 {
		return 1
	}
	switch text[1] {
	case '[': // parameters, then one final character
		for i := 2; i < len(text) && i < 64; i++ {
			if text[i] >= 0x40 && text[i] <= 0x7e {
				return i + 1
			}
		}
		return 2
	case ']', 'P', '_', '^': // up to BEL or ESC \
		for i := 2; i < len(text); i++ {
			if text[i] == '\a' {
				return i + 1
			}
			if text[i] == '\x1b' {
				return min(i+2, len(text))
			}
		}
		return len(text)
	}
	return 2
}

func appendPart(parts []textPart, state colour, text string) []textPart {
	if text == "" {
		return parts
	}
	return append(parts, textPart{state.class(), visible(text)})
}

// visible replaces control characters and characters that reorder or hide text by their pictures or by U+FFFD. Every page
// passes it as a whole when it is sent, so that no value of any page can act.
func visible(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t' || r == '\n':
			return r
		case r == '\r':
			return -1
		case r < 0x20:
			return 0x2400 + r
		case r == 0x7f:
			return 0x2421
		case r >= 0x80 && r < 0xa0, unicode.Is(unicode.Cf, r) && r != softHyphen && r != joiner, r == 0x2028, r == 0x2029:
			return utf8.RuneError
		}
		return r
	}, text)
}

// Characters of class Cf that text in some languages needs, and that change nothing around them.
const (
	softHyphen = 0x00ad
	joiner     = 0x200d
)

// colour is what the sequences so far have set.
type colour struct {
	front              int // 0: default, 1 to 16
	bold, faint, under bool
}

func (c *colour) apply(parameters string) {
	codes := strings.FieldsFunc(parameters, func(r rune) bool { return r == ';' || r == ':' })
	if len(codes) == 0 {
		*c = colour{}
	}
	for i := 0; i < len(codes); i++ {
		n, err := strconv.Atoi(codes[i])
		switch {
		case err != nil:
		case n == 0:
			*c = colour{}
		case n == 1:
			c.bold = true
		case n == 2:
			c.faint = true
		case n == 4:
			c.under = true
		case n == 22:
			c.bold, c.faint = false, false
		case n == 24:
			c.under = false
		case n >= 30 && n <= 37:
			c.front = n - 29
		case n >= 90 && n <= 97:
			c.front = n - 81
		case n == 39:
			c.front = 0
		case n == 38 || n == 48: // 5;N or 2;R;G;B: not shown
			if i+1 < len(codes) && codes[i+1] == "5" {
				i += 2
			} else {
				i += 4
			}
		}
	}
}

// class are the names of the colour in the stylesheet.
func (c colour) class() string {
	var names []string
	if c.front > 0 {
		names = append(names, "k"+strconv.Itoa(c.front))
	}
	if c.bold {
		names = append(names, "kb")
	}
	if c.faint {
		names = append(names, "kf")
	}
	if c.under {
		names = append(names, "ku")
	}
	return strings.Join(names, " ")
}

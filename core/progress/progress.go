// Package progress reads what a command says about its progress: lines such as "40 copying disk 2" in the pipe that
// $LOCKSTEP_PROGRESS names. The job process reads the pipe, and nothing of it is written to a disk.
package progress

import (
	"bytes"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// EnvName is the variable in a command's environment with the path of its pipe.
const EnvName = "LOCKSTEP_PROGRESS"

// Pause is the least time between two reports of one job.
const Pause = 500 * time.Millisecond

// TextMax bounds the text of a Line, in bytes.
const TextMax = 100

// Unknown is the Percent of a Line that names no share.
const Unknown = -1

// Line is what a command says.
type Line struct {
	Percent float64 `json:"percent"` // 0 to 100, with one decimal; or Unknown
	Text    string  `json:"text"`    // at most TextMax bytes of valid UTF-8, printable; empty: none
}

// Parse reads a line: a share in percent, with or without a percent sign, and a text; either may be missing. "-" in place of the share says
// that it is not known. If the first word is no number from 0 to 100, the whole line is the text. ok is false for a blank line.
func Parse(line string) (l Line, ok bool) {
	line = strings.TrimSpace(line)
	if line == "" {
		return Line{}, false
	}
	first, rest := line, ""
	if end := strings.IndexFunc(line, unicode.IsSpace); end >= 0 {
		first, rest = line[:end], line[end:]
	}
	switch percent, is := parsePercent(first); {
	case is:
		return Line{percent, Text(rest)}, true
	case first == "-":
		return Line{Unknown, Text(rest)}, true
	}
	return Line{Unknown, Text(line)}, true
}

func parsePercent(word string) (percent float64, ok bool) {
	word = strings.TrimSuffix(word, "%")
	if word == "" || strings.Trim(word, "0123456789.") != "" {
		return 0, false
	}
	percent, err := strconv.ParseFloat(word, 64)
	return tenths(percent), err == nil && percent <= 100
}

func tenths(percent float64) float64 { return math.Round(percent*10) / 10 }

// String is the line that Parse reads as l.
func (l Line) String() string {
	if l.Percent < 0 {
		return strings.TrimSpace("- " + l.Text)
	}
	return strings.TrimSpace(strconv.FormatFloat(l.Percent, 'f', -1, 64) + " " + l.Text)
}

// IsEmpty reports whether the line says nothing. A command writes "-" to take back what it has said.
func (l Line) IsEmpty() bool { return l.Percent < 0 && l.Text == "" }

// Bounded is the line within the bounds of its fields. It is for lines of unknown origin.
func (l Line) Bounded() Line {
	if !(l.Percent >= 0) { // also what is no number
		return Line{Unknown, Text(l.Text)}
	}
	return Line{tenths(min(l.Percent, 100)), Text(l.Text)}
}

// Text makes a text out of any bytes: what is not valid UTF-8 becomes U+FFFD, what is not printable a space, and what is longer than
// TextMax is cut.
func Text(s string) string {
	if len(s) > lineMax {
		s = s[:lineMax]
	}
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\ufffd"))
	s = strings.TrimSpace(s)
	if len(s) > TextMax {
		end := TextMax
		for !utf8.RuneStart(s[end]) {
			end--
		}
		s = strings.TrimSpace(s[:end])
	}
	return s
}

// End estimates when a command ends that has begun at since and was at percent at updated: each further percent takes as long as those
// before on average. The zero time: nothing is known, such as before 1 %.
func End(percent float64, since, updated time.Time) time.Time {
	done := updated.Sub(since)
	if percent < 1 || done < 0 || since.IsZero() {
		return time.Time{}
	}
	rest := done.Seconds() * (100 - min(percent, 100)) / percent
	if rest > horizon.Seconds() {
		return time.Time{}
	}
	return updated.Add(time.Duration(rest * float64(time.Second)))
}

// horizon is how far ahead an end is estimated.
const horizon = 10 * 365 * 24 * time.Hour

// lineMax bounds what is kept of a line, in bytes.
const lineMax = 1024

// Reader takes the bytes of a pipe and keeps the latest line. Lines end with a newline or a carriage return. Its memory is bounded. The
// zero value is ready.
type Reader struct {
	partial []byte // the beginning of a line whose end has not come
}

// Read takes more bytes. It returns the latest line that ends in them; ok is false if no line does that is not blank. Earlier lines cost
// little.
func (r *Reader) Read(p []byte) (l Line, ok bool) {
	end := bytes.LastIndexAny(p, lineEnds)
	for lines := p[:max(end, 0)]; end >= 0 && !ok; {
		start := bytes.LastIndexAny(lines, lineEnds)
		line := lines[start+1:]
		if start < 0 {
			r.keep(line)
			l, ok = Parse(string(r.partial))
			break
		}
		l, ok = Parse(string(line[:min(len(line), lineMax)]))
		lines = lines[:start]
	}
	if end >= 0 {
		r.partial = r.partial[:0]
	}
	r.keep(p[end+1:])
	return l, ok
}

const lineEnds = "\n\r"

// keep adds to the line whose end has not come.
func (r *Reader) keep(p []byte) {
	r.partial = append(r.partial, p[:min(len(p), lineMax-len(r.partial))]...)
}

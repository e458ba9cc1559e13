package config

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"lockstep/cmd/internal/term"
	"lockstep/core/rawjson"
)

// lineMax is the length up to which a list of scalars stays on one line.
const lineMax = 80

// valueText shows a JSON value: a scalar on one line, an object or list with indented values. The result ends with a newline.
func valueText(raw json.RawMessage, now time.Time) string {
	var b strings.Builder
	w := valueWriter{&b, now}
	if isFlat(raw) {
		b.WriteString(w.flat("", raw) + "\n")
	} else {
		w.nested(raw, "")
	}
	return b.String()
}

type valueWriter struct {
	*strings.Builder
	now time.Time
}

// nested writes the members of an object or the elements of a list, one a line, after indent.
func (w valueWriter) nested(raw json.RawMessage, indent string) {
	if raw[0] == '[' {
		for value := range rawjson.Elements(raw) {
			w.element(value, indent)
		}
		return
	}
	for quoted, value := range rawjson.Members(raw) {
		key := string(rawjson.Unquote(quoted))
		if isFlat(value) {
			fmt.Fprintf(w, "%s%s: %s\n", indent, term.Visible(key), w.flat(key, value))
			continue
		}
		fmt.Fprintf(w, "%s%s:\n", indent, term.Visible(key))
		w.nested(value, indent+"  ")
	}
}

// element writes an element of a list. The first line of a nested one begins with a dash.
func (w valueWriter) element(value json.RawMessage, indent string) {
	if isFlat(value) {
		fmt.Fprintf(w, "%s- %s\n", indent, w.flat("", value))
		return
	}
	var inner strings.Builder
	valueWriter{&inner, w.now}.nested(value, indent+"  ")
	w.WriteString(indent + "- " + strings.TrimPrefix(inner.String(), indent+"  "))
}

// isFlat reports whether a value is shown on one line: a scalar, something empty, or a short list of scalars.
func isFlat(raw json.RawMessage) bool {
	if len(raw) <= 2 || raw[0] != '{' && raw[0] != '[' {
		return true
	}
	isNested := func(value json.RawMessage) bool { return value[0] == '{' || value[0] == '[' }
	return raw[0] == '[' && len(raw) <= lineMax && !slices.ContainsFunc(slices.Collect(rawjson.Elements(raw)), isNested)
}

// flat shows a value on one line. The values of ctime and mtime are times.
func (w valueWriter) flat(key string, raw json.RawMessage) string {
	if seconds, err := strconv.ParseFloat(string(raw), 64); err == nil && seconds > 0 && (key == "ctime" || key == "mtime") {
		return clock(seconds, w.now)
	}
	if len(raw) > 2 && raw[0] == '[' {
		var all []string
		for value := range rawjson.Elements(raw) {
			all = append(all, w.flat("", value))
		}
		return "[" + strings.Join(all, ", ") + "]"
	}
	if !rawjson.IsString(raw) {
		return term.Visible(string(raw))
	}
	text := string(rawjson.Unquote(raw))
	if text == "" || json.Valid([]byte(text)) || strings.TrimSpace(text) != text || strings.ContainsAny(text, ",[]") {
		return term.Visible(string(raw)) // with its quotes it cannot be taken for something else
	}
	return term.Visible(text)
}

// clock shows a time in seconds since 1970 as people read it.
func clock(seconds float64, now time.Time) string {
	whole, fraction := math.Modf(seconds)
	return term.FullClock(now, time.Unix(int64(whole), int64(fraction*1e9)))
}

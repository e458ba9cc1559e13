// Package steady replaces the values of a single run in the output of programs, such as times and UUIDs, by words, so
// that the output can be compared with a text file.
package steady

import (
	"fmt"
	"regexp"
	"strings"
)

// Text replaces values in the texts of one run. The same UUID has the same word in all of them.
type Text struct {
	uuids map[string]string
}

// The values of a single run, in the order of their replacement.
var variable = []struct {
	pattern *regexp.Regexp
	word    string
}{
	{regexp.MustCompile(`/tmp/lockstep-\d+/sock`), "SOCKET"},
	{regexp.MustCompile(`uid=\d+(\([^)]*\))?, pid=\d+`), "PEER"},
	{regexp.MustCompile(`\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4}`), "TIME"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?`), "TIME"},
	{regexp.MustCompile(`\b\d{16}\d{3}?\b`), "NANOSECONDS"},
	{regexp.MustCompile(`\b1[78]\d{8}(\.\d+)?\b`), "SECONDS"},
	{regexp.MustCompile(`\d+\.\d+(s\b| s\b| seconds)`), "DURATION"},
	{regexp.MustCompile(`\b\d+\.\d{4}\b`), "SECONDS"},
}

var uuid = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// Steady returns a text without values of a single run, with no blanks at the ends of its lines.
func (t *Text) Steady(text string) string {
	text = uuid.ReplaceAllStringFunc(text, func(u string) string {
		if t.uuids == nil {
			t.uuids = map[string]string{}
		}
		if t.uuids[u] == "" {
			t.uuids[u] = fmt.Sprintf("UUID-%d", len(t.uuids)+1)
		}
		return t.uuids[u]
	})
	for _, v := range variable {
		text = v.pattern.ReplaceAllString(text, v.word)
	}
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.TrimRight(line, " \n"))
	}
	if len(lines) == 0 {
		return ""
	}
	return strings.Join(lines, "\n") + "\n"
}

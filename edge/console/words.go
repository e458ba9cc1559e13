package console

import (
	"encoding/json"
	"fmt"
	"html/template"
	"net/url"
	"strconv"
	"strings"
	"time"

	"lockstep/core/answer"
	"lockstep/core/why"
	"lockstep/core/words"
)

// functions are the functions that the templates can call, by name.
func (x *Console) functions() template.FuncMap {
	return template.FuncMap{
		"asset":    func(name string) string { return "/ui/assets/" + x.names[name] },
		"when":     when,
		"moment":   moment,
		"since":    since,
		"until":    until,
		"bytes":    bytesText,
		"span2":    func(from, to answer.Time) string { return "from " + clockOf(from) + " to " + clockOf(to) },
		"span":     span,
		"status":   status,
		"sentence": capital,
		"further":  furtherTries,
		"rule":     words.When,
		"became":   words.DueTime,
		"state":    state,
		"field":    func(label string, t answer.Time) timeField { return timeField{label, t} },
		"work":     answer.Work,
		"short":    shorten,
		"percent":  func(part, whole int) int { return part * 100 / max(whole, 1) },
		"add":      func(a, b int) int { return a + b },
		"join":     strings.Join,
		"json":     indented,
		"plural": func(n int64, one, many string) string {
			if n == 1 {
				return one
			}
			return many
		},
		"int64":     func(n int) int64 { return int64(n) },
		"actions":   func() []choice { return ruleActions },
		"kinds":     func() []choice { return ruleKinds },
		"operators": func() []choice { return ruleOperators },
	}
}

// when is a time for people: in the server's zone with its offset; the script shows it in the browser's.
func when(t answer.Time) template.HTML {
	if t.IsZero() {
		return `<span class="none">–</span>`
	}
	full := t.Format(time.RFC3339)
	text := t.Format("2006-01-02 15:04:05 -07:00")
	element := `<time datetime="` + full + `" title="` + full + `">` + text + `</time>`
	return template.HTML(element) //nolint:gosec // digits and letters of a time
}

// moment is a time for a cell of a long list: to the minute, of another day also the day.
func moment(t answer.Time) template.HTML {
	if t.IsZero() {
		return `<span class="none">–</span>`
	}
	full := t.Format(time.RFC3339)
	element := `<time datetime="` + full + `" title="` + full + `" data-short>` + t.Format("Jan 2 15:04 -07:00") + `</time>`
	return template.HTML(element) //nolint:gosec // digits and letters of a time
}

// bytesText is a number of bytes, from a thousand on in the largest unit, as the script of the page writes it.
func bytesText(n int) string {
	size, unit := float64(n), ""
	for _, next := range []string{"kB", "MB", "GB", "TB"} {
		if size < 1000 {
			break
		}
		size, unit = size/1000, next
	}
	switch {
	case n == 1:
		return "1 byte"
	case unit == "":
		return strconv.Itoa(n) + " bytes"
	}
	return strconv.FormatFloat(size, 'f', 1, 64) + " " + unit
}

func clockOf(t answer.Time) string { return t.Format("Jan 2 15:04:05 -07:00") }

// since is the HTML of the time that has passed since a moment, which the script in the page keeps up to date; a dash for no time.
func since(t answer.Time) template.HTML {
	if t.IsZero() {
		return `<span class="none">–</span>`
	}
	element := `<span class="num" data-since="` + strconv.FormatInt(t.UnixMilli(), 10) + `">` + span(time.Since(t.Time)) + `</span>`
	return template.HTML(element) //nolint:gosec // digits
}

// until is the HTML of the time up to a moment, which the script in the page keeps up to date; nothing for no time, and after it.
func until(t answer.Time) template.HTML {
	if t.IsZero() {
		return ""
	}
	text := ""
	if left := time.Until(t.Time); left >= time.Second {
		text = span(left) + " left"
	}
	element := `<span class="num" data-until="` + strconv.FormatInt(t.UnixMilli(), 10) + `">` + text + `</span>`
	return template.HTML(element) //nolint:gosec // digits
}

// span is a duration in at most two units.
func span(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + " ms"
	case d < time.Minute:
		return strconv.FormatFloat(d.Truncate(100*time.Millisecond).Seconds(), 'f', 1, 64) + " s"
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d d %d h", int(d.Hours())/24, int(d.Hours())%24)
}

// status is a status as a word with a shape and a colour.
func status(name string) template.HTML {
	known := map[string]bool{
		"queued":    true,
		"waiting":   true,
		"running":   true,
		"success":   true,
		"error":     true,
		"canceled":  true,
		"canceling": true,
	}
	if !known[name] {
		return template.HTML(template.HTMLEscapeString(name)) //nolint:gosec // escaped
	}
	return template.HTML(`<span class="s s-` + name + `">` + name + `</span>`) //nolint:gosec // one of the names above
}

// state is the state of a schedule as a word with a shape and a colour.
func state(name string) template.HTML {
	class := map[string]string{"active": "running", "paused": "queued", "stopped": "error", "broken": "error"}[name]
	if class == "" {
		return template.HTML(template.HTMLEscapeString(name)) //nolint:gosec // escaped
	}
	return template.HTML(`<span class="s s-` + class + `">` + name + `</span>`) //nolint:gosec // one of the names above
}

func shorten(text string, limit int) string {
	runes := []rune(text)
	if len(runes) <= limit {
		return text
	}
	return string(runes[:limit-1]) + "…"
}

// indented is a value as JSON for people, with indents; "" if it cannot be encoded.
func indented(value any) string {
	data, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return ""
	}
	text := strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(data))
	return escaped(text)
}

// escaped writes characters that visible would replace as JSON does, so that JSON in a form keeps its meaning.
func escaped(text string) string {
	var b strings.Builder
	for _, r := range text {
		if r != '\n' && r != '\t' && visible(string(r)) != string(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// part is a part of a sentence: text, a link, or a time.
type part struct {
	Text, Link string
	Time       answer.Time
}

// style is how pages show values in sentences.
var style = why.Style{
	Clean: func(text string) string { return shorten(text, 200) },
	Short: func(text string) string { return shorten(text, 120) },
	Span:  span,
	Ago:   func(now, at time.Time) string { return span(now.Sub(at)) + " ago" },
	Clock: func(_, at time.Time) string { return at.Format("2006-01-02 15:04:05 -07:00") },
}

// sentences are the reasons of a job in words. The head of its page shows whether it runs or has ended.
func sentences(w answer.Why) [][]part {
	all := [][]part{}
	for _, r := range w.Reasons {
		if r.Kind != answer.WhyEnded && (r.Kind != answer.WhyRunning || r.Opcodes > 1) {
			all = append(all, sentenceOf(r))
		}
	}
	return all
}

// sentenceOf is a reason in words, with links to the jobs and rules that it names.
func sentenceOf(r answer.Reason) []part {
	s := style.Sentence(r, time.Now())
	if s == nil {
		return []part{{Text: "Another reason: " + r.Kind + "."}}
	}
	parts := make([]part, len(s))
	for i, p := range s {
		switch {
		case p.Job != 0:
			parts[i] = part{Text: p.Text, Link: "/ui/jobs/" + strconv.FormatInt(p.Job, 10)}
		case p.Rule != "":
			parts[i] = part{Text: shorten(p.Text, 9), Link: "/ui/filters#rule-" + url.PathEscape(p.Rule)}
		default:
			parts[i] = part{Text: p.Text, Time: answer.Time{Time: p.Time}}
		}
	}
	return parts
}

// takeNotice is the text of the last action, which the redirect after it carries.
func takeNotice(q *request) string {
	name := q.URL.Query().Get("done")
	var made, all int
	if n, err := fmt.Sscanf(name, noticeBulk, &made, &all); n != 2 || err != nil || made < 0 {
		return noticeTexts[name]
	}
	text := fmt.Sprintf("Done for %d of %d jobs.", made, all)
	if made < all {
		text += " The others have ended, or do not permit it now."
	}
	return text
}

// Names of notices.
const (
	noticeNotDone = "notdone"
	noticeBulk    = "bulk.%d.%d" // jobs on which the action was done, and all
)

// noticeTexts are the sentences about actions. A URL names one of them, so that a link cannot show another text.
var noticeTexts = map[string]string{
	"canceled":    "The job was canceled.",
	"killing":     "The job is being ended.",
	noticeNotDone: "Nothing was done: the job has ended, or does not permit it now.",
	"held":        "The job is held.",
	"released":    "The job is released.",
	"priority":    "The priority was changed.",
	"archived":    "The job was archived.",
	"submitted":   "The job was submitted.",
	"rule":        "The rule is in force.",
	"ruledelete":  "The rule was deleted.",
	"settings":    "The settings are in force.",
	"drained":     "The queue refuses new jobs.",
	"undrained":   "The queue accepts jobs.",
	"promoted":    "The node is the master.",
	"paused":      "The schedule is paused.",
	"resumed":     "The schedule goes on from now.",
	"removed":     "The schedule was removed. Its jobs stay.",
	"ran":         "The jobs of the schedule were submitted.",
	"rescheduled": "The time of the job was changed.",
}

// plural is a number with its noun, the numbers up to five as words.
func plural(n int, noun string) string {
	words := map[int]string{1: "one", 2: "two", 3: "three", 4: "four", 5: "five"}
	number, is := words[n]
	if !is {
		number = strconv.Itoa(n)
	}
	if n != 1 && !strings.HasPrefix(noun, "of ") {
		noun += "s"
	}
	return number + " " + noun
}

// capital is the text with a capital first letter, to begin a sentence.
func capital(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

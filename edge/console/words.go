package console

import (
	"encoding/json"
	"fmt"
	"html/template"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"lockstep/core/answer"
)

// functions are those of the templates.
func (x *Console) functions() template.FuncMap {
	return template.FuncMap{
		"asset":   func(name string) string { return "/ui/assets/" + x.names[name] },
		"when":    when,
		"since":   since,
		"span":    span,
		"status":  status,
		"summary": summaryText,
		"short":   shorten,
		"percent": func(part, whole int) int { return part * 100 / max(whole, 1) },
		"add":     func(a, b int) int { return a + b },
		"join":    strings.Join,
		"json":    indented,
		"plural": func(n int64, one, many string) string {
			if n == 1 {
				return one
			}
			return many
		},
		"int64":     func(n int) int64 { return int64(n) },
		"actions":   func() []string { return []string{"PAUSE", "REJECT", "RATE_LIMIT", "ACCEPT", "CONTINUE"} },
		"operators": func() []string { return ruleOperators },
	}
}

// when is a time for people: in the server's zone with its offset; the script shows it in the browser's.
func when(t answer.Time) template.HTML {
	if t.IsZero() {
		return `<span class="none">–</span>`
	}
	full := t.Format(time.RFC3339)
	text := t.Format("2006-01-02 15:04:05 -07:00")
	return template.HTML(`<time datetime="` + full + `" title="` + full + `">` + text + `</time>`) //nolint:gosec // digits and letters of a time
}

// since is a duration from a time until now, which the script goes on counting.
func since(t answer.Time) template.HTML {
	if t.IsZero() {
		return `<span class="none">–</span>`
	}
	return template.HTML(`<span class="num" data-since="` + strconv.FormatInt(t.UnixMilli(), 10) + `">` + span(time.Since(t.Time)) + `</span>`) //nolint:gosec // digits
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
	known := map[string]bool{"queued": true, "waiting": true, "running": true, "success": true, "error": true, "canceled": true, "canceling": true}
	if !known[name] {
		return template.HTML(template.HTMLEscapeString(name)) //nolint:gosec // escaped
	}
	return template.HTML(`<span class="s s-` + name + `">` + name + `</span>`) //nolint:gosec // one of the names above
}

// summaryText is the summary of a job's opcodes.
func summaryText(summary []string) string {
	switch len(summary) {
	case 0:
		return ""
	case 1:
		return summary[0]
	}
	return summary[0] + " and " + strconv.Itoa(len(summary)-1) + " more"
}

func shorten(text string, limit int) string {
	runes := []rune(text)
	if len(runes) <= limit {
		return text
	}
	return string(runes[:limit-1]) + "…"
}

// indented is JSON for people.
func indented(value any) string {
	data, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return ""
	}
	text := strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(data))
	return text
}

// part is a part of a sentence: text, or a link.
type part struct{ Text, Link string }

// sentence is a reason in words.
type sentence []part

func say(format string, args ...any) sentence { return sentence{{Text: fmt.Sprintf(format, args...)}} }

func (s sentence) text(format string, args ...any) sentence {
	return append(s, part{Text: fmt.Sprintf(format, args...)})
}

func (s sentence) job(id int64) sentence {
	return append(s, part{"job " + strconv.FormatInt(id, 10), "/ui/jobs/" + strconv.FormatInt(id, 10)})
}

func (s sentence) rule(uuid string) sentence {
	return append(s, part{"filter rule " + shorten(uuid, 9), "/ui/filters#rule-" + url.PathEscape(uuid)})
}

// sentences are the reasons of a job in words.
func sentences(w answer.Why) []sentence {
	all := []sentence{}
	for _, r := range w.Reasons {
		if s := sentenceOf(r); s != nil {
			all = append(all, s)
		}
	}
	return all
}

func sentenceOf(r answer.Reason) sentence {
	switch r.Kind {
	case answer.WhyDependency:
		return dependencySentence(r)
	case answer.WhyHold:
		return say("It is held%s. It begins no opcode until it is released.", by(r.By))
	case answer.WhyFilter:
		s := say("By ").rule(r.UUID)
		if r.Action == "REJECT" {
			return s.text("%s it is rejected.", because(r))
		}
		return s.text("%s it is held back until the rule is changed or deleted.", because(r))
	case answer.WhyFilterLimit:
		return say("By ").rule(r.UUID).text("%s %d such jobs run at a time, and %d are running.", because(r), r.Limit, r.Running)
	case answer.WhyRateLimit:
		return say("Its reason “%s” lets %d such jobs run at a time, and %d are running.", r.Label, r.Limit, r.Running)
	case answer.WhySlots:
		return say("All run slots are taken: %d of %d.", r.Running, r.Slots)
	case answer.WhyOrder:
		return orderSentence(r)
	case answer.WhyLock:
		return lockSentence(r)
	case answer.WhyStarting:
		return say("Its process is being started.")
	case answer.WhyCannotStart:
		return say("Job processes cannot be started: %s", r.Text)
	case answer.WhyStopping:
		return say("The daemon is stopping. Jobs start when it runs again.")
	case answer.WhyRunning:
		if r.Opcodes <= 1 {
			return nil
		}
		return say("It runs opcode %d of %d.", r.Opcode+1, r.Opcodes)
	case answer.WhyEnded:
		return nil
	}
	return say("Another reason: %s.", r.Kind)
}

func by(who string) string {
	if who == "" {
		return ""
	}
	return " by " + shorten(who, 80)
}

func because(r answer.Reason) string {
	if r.RuleReason == "" {
		return ""
	}
	return " (" + shorten(r.RuleReason, 120) + ")"
}

func dependencySentence(r answer.Reason) sentence {
	s := say("It waits for ")
	if r.Opcode > 0 {
		s = say("Its opcode %d waits for ", r.Opcode+1)
	}
	s = s.job(r.Job)
	wanted := strings.Join(r.Statuses, " or ")
	if wanted == "" {
		wanted = "success or error"
	}
	switch {
	case r.Unknown:
		s = s.text(", which is not known on this node,")
	case r.JobStatus != nil && *r.JobStatus != "":
		s = s.text(", which is %s,", *r.JobStatus)
	}
	return s.text(" to end with %s.", wanted)
}

func orderSentence(r answer.Reason) sentence {
	if isHeldBack(r) {
		return heldBackSentence(r)
	}
	switch {
	case r.Pending <= 1:
		return say("It is next.")
	case r.AtLeast:
		return say("At least %d of %d pending jobs go before it.", r.Position-1, r.Pending)
	case r.Position <= 1:
		return say("It is next of %d pending jobs.", r.Pending)
	}
	s := say("It is number %d of %d pending jobs.", r.Position, r.Pending)
	if len(r.Causes) == 0 {
		return s
	}
	s = s.text(" Others of its priority go first, because it would contend with ")
	for i, c := range r.Causes {
		if i > 0 {
			s = s.text(", ")
		}
		if c.Owner != "" {
			s = s.text("%s", c.Owner)
		} else {
			s = s.job(c.Job)
		}
		if c.Lock != "" {
			s = s.text(" for %s", c.Lock)
		}
	}
	return s.text(". That counts less the longer it waits.")
}

// isHeldBack reports whether locks or reservations keep the job from starting, in the order expected.
func isHeldBack(r answer.Reason) bool {
	return len(r.BlockedBy) > 0 || r.ReservedBy != 0 || r.ReservationsBefore > 0
}

// heldBackSentence says which locks and reservations keep the job from starting.
func heldBackSentence(r answer.Reason) sentence {
	var s sentence
	switch {
	case len(r.BlockedBy) > 0 && r.Reserves:
		s = s.text("It has a reservation, and starts when ").blockers(r, false)
		if len(r.BlockedBy) == 1 && r.OtherBlockers == 0 {
			s = s.text(" has left its locks")
		} else {
			s = s.text(" have left its locks")
		}
	case len(r.BlockedBy) > 0:
		s = s.text("It waits for ").blockers(r, true)
	case r.ReservedBy != 0:
		s = s.text("It wants locks for which ").job(r.ReservedBy).text(" has a reservation")
	default:
		s = s.text("It wants locks that are reserved")
	}
	s = s.text(".")
	switch {
	case r.ReservationsBefore == 1:
		s = s.text(" 1 reservation is before it.")
	case r.ReservationsBefore > 1:
		s = s.text(" %d reservations are before it.", r.ReservationsBefore)
	}
	if r.NothingPromised {
		s = s.text(" More urgent jobs are pending, and nothing is promised to it while such jobs come.")
	}
	return s
}

// blockers are the owners of the locks that a job waits for, with the locks or without.
func (s sentence) blockers(r answer.Reason, locks bool) sentence {
	for i, b := range r.BlockedBy {
		if i > 0 {
			s = s.text("%s", map[bool]string{true: "; ", false: ", "}[locks])
		}
		if locks {
			s = s.text("%s, which ", shorten(strings.Join(b.Locks, ", "), 120))
		}
		if b.Owner != "" {
			s = s.text("%s", b.Owner)
		} else {
			s = s.job(b.Job)
		}
		if locks {
			s = s.text("%s", map[bool]string{true: " has", false: " gets first"}[b.Holds])
		}
	}
	if r.OtherBlockers > 0 {
		s = s.text(" and %d more", r.OtherBlockers)
	}
	return s
}

// blockedLocks are the locks of the request that others hold; all if none is known to be.
func blockedLocks(r answer.Reason) []string {
	var blocked, all []string
	for _, item := range r.Locks {
		text := item.Lock + " (" + item.Mode + ")"
		all = append(all, text)
		if slices.ContainsFunc(r.Blockers, func(b answer.Blocker) bool { return slices.Contains(b.Locks, item.Lock) }) {
			blocked = append(blocked, text)
		}
	}
	if blocked == nil {
		return all
	}
	return blocked
}

func lockSentence(r answer.Reason) sentence {
	names := blockedLocks(r)
	s := say("It has been waiting for %s for %s", shorten(strings.Join(names, ", "), 200), span(time.Duration(r.Seconds*float64(time.Second))))
	for i, b := range r.Blockers {
		s = s.text("%s", map[bool]string{true: "; ", false: ", "}[i == 0])
		if b.Owner != "" {
			s = s.text("%s", b.Owner)
		} else {
			s = s.job(b.Job)
		}
		if len(b.Locks) > 0 {
			s = s.text(" holds %s", shorten(strings.Join(b.Locks, ", "), 120))
		} else {
			s = s.text(" comes first")
		}
		if !b.Since.IsZero() {
			s = s.text(" and has been running for %s", span(time.Since(b.Since.Time)))
		}
	}
	return s.text(".")
}

// takeNotice is the text of the last action, which the redirect after it carries.
func takeNotice(q *request) string {
	return shorten(noticeTexts[q.URL.Query().Get("done")], 200)
}

// noticeTexts are the sentences about actions. A URL names one of them, so that a link cannot show another text.
var noticeTexts = map[string]string{
	"canceled":   "The job was canceled.",
	"killing":    "The job is being ended.",
	"notdone":    "Nothing was done: the job has ended, or does not permit it now.",
	"held":       "The job is held.",
	"released":   "The job is released.",
	"priority":   "The priority was changed.",
	"archived":   "The job was archived.",
	"submitted":  "The job was submitted.",
	"rule":       "The rule is in force.",
	"ruledelete": "The rule was deleted.",
	"settings":   "The settings are in force.",
	"drained":    "The queue refuses new jobs.",
	"undrained":  "The queue accepts jobs.",
	"promoted":   "The node is the master.",
	"bulk":       "Done. Jobs for which it was not possible are listed as they are.",
}

// plural is a number with its noun.
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

// capital begins a sentence.
func capital(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

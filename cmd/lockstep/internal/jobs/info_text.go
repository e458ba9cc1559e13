package jobs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/cmd/lockstep/internal/follow"
	"lockstep/core/job"
	"lockstep/core/record"
	"lockstep/core/words"
)

// infoLogLines is the maximum number of log lines shown per opcode.
const infoLogLines = 10

// infoPrinter writes jobs as text blocks.
type infoPrinter struct {
	out     io.Writer
	now     time.Time
	palette term.Palette
}

func (p infoPrinter) job(job jobInfo) {
	title := fmt.Sprintf("Job %d", job.ID)
	if job.Archived {
		title += " (archived)"
	}
	fmt.Fprintln(p.out, p.palette.Title(title))
	if job.Name != "" {
		p.line(1, "Name", term.Visible(job.Name))
	}
	p.line(1, "Status", cli.StatusText(p.palette, job.Status))
	if job.Result != "" {
		p.line(1, "Result", term.Visible(job.Result))
	}
	p.line(1, "Priority", cli.PriorityName(job.Priority))
	if job.Parent != 0 {
		p.line(1, "Parent", fmt.Sprintf("job %d", job.Parent))
	}
	if job.RunAs != "" {
		p.line(1, "Runs as", term.Visible(job.RunAs))
	}
	if job.Due != nil {
		p.line(1, "Due", term.FullClock(p.now, job.Due.Time)+p.left(job.Due.Time))
	}
	if s := job.Schedule; s != nil {
		p.line(1, "Schedule", term.Visible(s.Name)+", due "+term.FullClock(p.now, s.Due.Time))
	}
	p.moment(1, "Received", job.Received, "")
	ready := job.Received
	if job.At != nil && job.At.After(ready.Time) {
		ready = *job.At
	}
	if job.At != nil && job.Due == nil {
		p.moment(1, "Was due", *job.At, "")
	}
	if !job.Started.IsZero() {
		p.moment(1, "Started", job.Started, p.after(ready, job.Started, "queued for"))
	}
	if !job.Ended.IsZero() {
		p.moment(1, "Ended", job.Ended, p.after(job.Started, job.Ended, "took"))
	}
	for i, opcode := range job.Opcodes {
		fmt.Fprintln(p.out)
		title := fmt.Sprintf("Opcode %d of %d: %s", i+1, len(job.Opcodes), opcode.Summary)
		fmt.Fprintf(p.out, "  %s\n", p.palette.Title(title))
		p.opcode(job.ID, opcode)
	}
}

func (p infoPrinter) opcode(job int64, opcode opcodeInfo) {
	status := cli.StatusText(p.palette, opcode.Status)
	if !opcode.Ended.IsZero() && opcode.Executing.IsZero() && (opcode.Status == client.StatusError || opcode.Status == client.StatusCanceled) {
		status += ", not run"
	}
	p.line(2, "Status", status)
	if !opcode.Executing.IsZero() {
		p.moment(2, "Executing", opcode.Executing, p.after(opcode.Started, opcode.Executing, "locks took"))
	}
	if !opcode.Ended.IsZero() {
		began := opcode.Executing
		if began.IsZero() {
			began = opcode.Started
		}
		p.moment(2, "Ended", opcode.Ended, p.after(began, opcode.Ended, "took"))
	}
	p.parameters(opcode.Parameters)
	p.tries(opcode)
	p.result(opcode)
	p.log(job, opcode.Log)
}

// left is ", in 40s", and empty for a time that has passed.
func (p infoPrinter) left(t time.Time) string {
	if !p.now.Before(t) {
		return ""
	}
	return ", in " + words.FormatDuration(max(t.Sub(p.now).Round(time.Second), time.Second))
}

// tries prints the failed tries before the last one, each with its result, its times and its lines of the log.
func (p infoPrinter) tries(opcode opcodeInfo) {
	if len(opcode.Tries) == 0 {
		return
	}
	fmt.Fprintln(p.out, "    Tries:")
	from := int64(math.MaxInt64) // serial of the first line of the log that may be of the try
	if len(opcode.Log) > 0 {
		from = opcode.Log[0].Serial
	}
	for i, t := range opcode.Tries {
		text := fmt.Sprintf("      %d: %s, began %s, took %s", i+1, term.Visible(t.Result), term.FullClock(p.now, t.Began.Time),
			term.Span(t.Ended.Sub(t.Began.Time)))
		switch {
		case t.LogTo < from:
			text += ", no log"
		case t.LogTo == from:
			text += fmt.Sprintf(", log line %d", from)
		default:
			text += fmt.Sprintf(", log lines %d to %d", from, t.LogTo)
		}
		if t.Usage != nil {
			text += ", used " + t.Usage.String()
		}
		if kept := opcode.keptOf(t); kept != nil {
			text += "\n        Kept: " + term.Visible(kept.String())
		}
		fmt.Fprintln(p.out, text)
		from = max(from, t.LogTo+1)
	}
}

// parameters prints the parameters of an opcode that are not null, the reason trail as a separate list.
func (p infoPrinter) parameters(value any) {
	object, ok := value.(map[string]any)
	if !ok {
		p.line(2, "Parameters", cli.JSONText(value))
		return
	}
	fmt.Fprintln(p.out, "    Parameters:")
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if value := object[name]; name != "reason" && value != nil {
			fmt.Fprintf(p.out, "      %s: %s\n", term.Visible(name), cli.PlainText(value))
		}
	}
	trail, _ := object["reason"].([]any)
	trail = withoutOwnStep(slices.DeleteFunc(slices.Clone(trail), client.NamesRequest))
	if len(trail) > 0 {
		fmt.Fprintln(p.out, "    Reasons:")
	}
	for _, step := range trail {
		fmt.Fprintf(p.out, "      %s\n", p.reason(step))
	}
}

// reason shows one step of a trail, [source, text, ns], in words; an invalid time is omitted.
func (p infoPrinter) reason(step any) string {
	parts, ok := step.([]any)
	if !ok || len(parts) != 3 {
		return cli.JSONText(step)
	}
	text, said := SourceInWords(cli.PlainText(parts[0]), cli.PlainText(parts[1]))
	if said != "" {
		text += ": " + said
	}
	if number, ok := parts[2].(json.Number); ok {
		if nanoseconds, err := number.Int64(); err == nil {
			text += " (" + term.FullClock(p.now, time.Unix(0, nanoseconds)) + ")"
		}
	}
	return text
}

// withoutOwnStep is the trail without its last step if that only repeats which opcode of which job it belongs to.
func withoutOwnStep(trail []any) []any {
	if len(trail) == 0 {
		return trail
	}
	last, _ := trail[len(trail)-1].([]any)
	if len(last) == 3 && strings.HasPrefix(cli.PlainText(last[0]), "gnt:opcode:") {
		return trail[:len(trail)-1]
	}
	return trail
}

// SourceInWords is a source of a reason trail, with its text, in words: the submitter by name, and this program without Ganeti's prefix.
func SourceInWords(source, text string) (string, string) {
	switch source {
	case job.UserSource:
		_, process, _ := strings.Cut(text, ", ")
		return "user", strings.TrimSuffix(record.User(text)+", "+process, ", ")
	case client.TrailSource:
		return "lockstep", text
	case "gnt:user":
		return "reason", text
	}
	return source, text
}

func (p infoPrinter) result(opcode opcodeInfo) {
	extras, success := extrasIn(opcode.Result)
	switch opcode.Status {
	case client.StatusError, client.StatusCanceled:
		if len(opcode.Result) > 0 && string(opcode.Result) != "null" {
			p.line(2, "Result", term.Visible(term.Shortened(follow.ParseFailure(opcode.Result).String(), term.ValueMax)))
		}
	case client.StatusSuccess:
		var compact bytes.Buffer
		if json.Compact(&compact, success) == nil {
			p.line(2, "Result", term.Visible(term.Shortened(compact.String(), term.ValueMax)))
		}
	}
	if extras.Usage != nil {
		p.line(2, "Used", extras.Usage.String())
	}
	if extras.Kept != nil {
		p.line(2, "Kept", term.Visible(extras.Kept.String()))
	}
}

func (p infoPrinter) log(job int64, log []logLine) {
	if len(log) == 0 {
		return
	}
	shown := log[max(0, len(log)-infoLogLines):]
	if len(shown) < len(log) {
		fmt.Fprintf(p.out, "    Log (last %d of %d; \"lockstep log %d\" prints all):\n", len(shown), len(log), job)
	} else {
		fmt.Fprintln(p.out, "    Log:")
	}
	for _, line := range shown {
		text := term.Visible(term.Shortened(follow.LogEntry(line).Text(), term.ValueMax))
		fmt.Fprintln(p.out, strings.TrimRight("      "+term.WallClock(p.now, line.Time.Time)+"  "+text, " "))
	}
}

// line prints one name and value; the values of a block are aligned.
func (p infoPrinter) line(level int, name, value string) {
	fmt.Fprintf(p.out, "%s%-10s %s\n", strings.Repeat("  ", level), name+":", value)
}

func (p infoPrinter) moment(level int, name string, t client.Timestamp, remark string) {
	if t.IsZero() {
		p.line(level, name, "unknown")
		return
	}
	text := term.FullClock(p.now, t.Time) + ", " + term.Ago(p.now, t.Time)
	if remark != "" {
		text += ", " + remark
	}
	p.line(level, name, text)
}

// after is "<what> <time from a to b>", and empty if either is unknown.
func (p infoPrinter) after(a, b client.Timestamp, what string) string {
	if a.IsZero() || b.IsZero() {
		return ""
	}
	return what + " " + term.Span(b.Sub(a.Time))
}

package why

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/core/answer"
	"lockstep/core/filter"
	"lockstep/core/why"
)

// whyPrinter writes answers as text.
type whyPrinter struct {
	out     io.Writer
	now     time.Time
	colours term.Palette
	follow  bool // blockers are shown, too
}

// job writes one answer. A single reason follows the sentence about the job's status on its line,
// several reasons follow below.
func (p whyPrinter) job(why jobWhy) {
	head := p.head(why)
	switch len(why.Reasons) {
	case 0:
		if why.Status == client.StatusQueued || why.Status == client.StatusWaiting {
			head += " No reason is known."
		}
		fmt.Fprintln(p.out, head)
	case 1:
		fmt.Fprintln(p.out, head, why.reasons()[0].sentence(p.now))
	default:
		fmt.Fprintln(p.out, head)
		for _, reason := range why.reasons() {
			fmt.Fprintln(p.out, "- "+reason.sentence(p.now))
		}
	}
	if why.Progress != nil {
		fmt.Fprintln(p.out, "Progress:", cli.ProgressText(why.Progress, p.now))
	}
	if why.estimate != nil {
		fmt.Fprintln(p.out, why.estimate.Sentence(p.now))
	}
	hints := why.hints()
	if p.follow { // --follow shows what these commands would show
		hints = slices.DeleteFunc(hints, func(h hint) bool { return strings.HasPrefix(h.command, "lockstep why ") })
	}
	p.hints(hints)
}

func (p whyPrinter) hints(hints []hint) {
	widest := 0
	for _, hint := range hints {
		widest = max(widest, len(hint.command))
	}
	for _, hint := range hints {
		fmt.Fprintf(p.out, "    %-*s  %s\n", widest, hint.command, hint.effect)
	}
}

func (p whyPrinter) head(why jobWhy) string {
	text := p.colours.Title(fmt.Sprintf("Job %d", why.ID))
	if why.Name != "" {
		text += ", " + term.Visible(why.Name)
	}
	if len(why.Summary) > 0 {
		text += " (" + cli.Work(why.Summary) + ")"
	}
	if s := why.Schedule; s != nil {
		text += fmt.Sprintf(", of schedule %s, due %s", term.Visible(s.Name), term.WallClock(p.now, s.Due.Truncate(time.Second)))
		if !why.Archived {
			text += ","
		}
	}
	if why.Archived {
		text += ", archived,"
	}
	switch why.Status {
	case client.StatusSuccess, client.StatusError:
		return text + " has ended with " + cli.StatusText(p.colours, why.Status) + term.AfterColon(why.result())
	case client.StatusCanceled:
		by, said := strings.CutPrefix(why.result(), client.StatusCanceled)
		if !said {
			return text + " was " + cli.StatusText(p.colours, why.Status) + term.AfterColon(why.result())
		}
		return text + " was " + cli.StatusText(p.colours, why.Status) + by + "."
	case client.StatusCanceling:
		return text + " is being canceled."
	}
	return text + " is " + cli.StatusText(p.colours, why.Status) + "."
}

// result is the end of the job in words; "" if there is nothing to say.
func (w jobWhy) result() string {
	for _, reason := range w.Reasons {
		if reason.Kind == answer.WhyEnded {
			return term.Visible(reason.Result)
		}
	}
	return ""
}

// Style is how the terminal shows values in sentences.
var Style = why.Style{
	Clean: term.Visible,
	Short: func(text string) string { return term.Visible(term.Shortened(text, term.ValueMax)) },
	Span:  term.Span, Ago: term.Ago, Clock: term.WallClock,
}

// sentence is the text of one reason.
func (r whyReason) sentence(now time.Time) string {
	if s := Style.Sentence(r.Reason, now); s != nil {
		return s.String()
	}
	return r.generic()
}

// hint is a command that changes the situation or shows details.
type hint struct{ command, effect string }

// hints are the commands for the reasons, each once.
func (w jobWhy) hints() []hint {
	var all []hint
	add := func(effect, format string, args ...any) {
		next := hint{"lockstep " + fmt.Sprintf(format, args...), effect}
		for _, have := range all {
			if have.command == next.command {
				return
			}
		}
		all = append(all, next)
	}
	for _, id := range w.inTheWay() {
		add(fmt.Sprintf("why job %d has not ended", id), "why %d", id)
	}
	for _, reason := range w.Reasons {
		switch reason.Kind {
		case answer.WhyFilter, answer.WhyFilterLimit:
			add("show the rule and its author", "filter info %s", term.Visible(reason.UUID))
		case answer.WhyRateLimit:
			add("start it before others of the kind", "priority high %d", w.ID)
		case answer.WhySlots:
			add("show the jobs in the slots", "status")
			add("start it before others", "priority high %d", w.ID)
		case answer.WhyOrder:
			add("start it before others", "priority high %d", w.ID)
		case answer.WhyLock:
			add("show all waiting owners", "locks --graph")
		case answer.WhyCannotStart, answer.WhyCannotWrite, answer.WhyStopping:
			add("show the state of the daemon", "status")
		case answer.WhyReader:
			add("show how long it waits", "config get output_wait")
		case answer.WhyCycle:
			add("show who waits for whom", "locks --graph")
		case answer.WhyRunning:
			add("follow it", "watch %d", w.ID)
			add("end it", "cancel --kill %d", w.ID)
		}
	}
	switch w.Status {
	case client.StatusQueued, client.StatusWaiting:
		add("give it up", "cancel %d", w.ID)
	case client.StatusError:
		add("show its failure", "info %d", w.ID)
	}
	if w.Schedule != nil {
		add("why its schedule has not run, and when it does", "why --schedule %s", term.Visible(w.Schedule.Name))
	}
	// What lets a paused job go on is the last line.
	for _, reason := range w.Reasons {
		switch {
		case reason.Kind == answer.WhyFilter && reason.Action == filter.Pause.String():
			add("delete the rule, and let all its jobs go on", "filter delete %s", term.Visible(reason.UUID))
		case reason.Kind == answer.WhyHold:
			add("let it go on", "release %d", w.ID)
		}
	}
	return all
}

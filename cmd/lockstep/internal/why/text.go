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
	"lockstep/cmd/lockstep/internal/filters"
	"lockstep/cmd/lockstep/internal/locks"
	"lockstep/core/answer"
	"lockstep/core/record"
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
	if why.estimate != nil {
		fmt.Fprintln(p.out, why.estimate.Sentence(p.now))
	}
	hints := why.hints()
	if p.follow { // --follow shows what these commands would show
		hints = slices.DeleteFunc(hints, func(h hint) bool { return strings.HasPrefix(h.command, "lockstep why ") })
	}
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
		text += " (" + cli.Summarize(why.Summary) + ")"
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

// sentence is the text of one reason.
func (r whyReason) sentence(now time.Time) string {
	switch r.Kind {
	case answer.WhyDependency:
		return r.dependency()
	case answer.WhyFilter:
		return r.filter()
	case answer.WhyHold:
		return r.hold()
	case answer.WhyFilterLimit:
		return fmt.Sprintf("Filter rule %s%s lets %d such jobs run at a time, and %d are running.",
			term.Visible(r.UUID), r.because(), r.Limit, r.Running)
	case answer.WhyRateLimit:
		return fmt.Sprintf("One of its reasons is %q: %d such jobs may run at a time, and %d are running.",
			r.Label, r.Limit, r.Running)
	case answer.WhySlots:
		return fmt.Sprintf("All run slots are taken: %d of %d.", r.Running, r.Slots)
	case answer.WhyOrder:
		return r.order()
	case answer.WhyLock:
		return r.lock(now)
	case answer.WhyStarting:
		return "Its process is being started."
	case answer.WhyCannotStart:
		return "Job processes cannot be started" + term.AfterColon(r.Text)
	case answer.WhyStopping:
		return "The daemon is stopping; jobs start when it runs again."
	case answer.WhyRunning:
		return r.running(now)
	case answer.WhyEnded:
		return r.ended(now)
	}
	return r.generic()
}

func (r whyReason) hold() string {
	if r.By == "" {
		return "It is held: it begins no opcode until it is released."
	}
	return "It is held by " + term.Visible(record.User(r.By)) + ": it begins no opcode until it is released."
}

func (r whyReason) dependency() string {
	subject, verb := "It", "waits for"
	if r.Opcode > 0 {
		subject = fmt.Sprintf("Its opcode %d", r.Opcode+1)
	}
	state := "is " + term.Visible(r.jobStatus())
	switch {
	case r.Unknown:
		state = "was archived on another node or removed"
	case r.jobStatus() == "":
		state = "is not known"
	case client.Final(r.jobStatus()):
		verb, state = "needs", "has ended with "+term.Visible(r.jobStatus())
	}
	return fmt.Sprintf("%s %s job %d, which %s, to end with %s.", subject, verb, r.Job, state,
		term.Visible(term.Enumerate(locks.Wanted(r.Statuses), "or")))
}

// because is the reason and the author of a filter rule, in parentheses, as far as known.
func (r whyReason) because() string {
	var parts []string
	if r.RuleReason != "" {
		parts = append(parts, term.Visible(term.Shortened(r.RuleReason, term.ValueMax)))
	}
	if r.By != "" {
		parts = append(parts, "made by "+term.Visible(term.Shortened(r.By, term.ValueMax)))
	}
	if parts == nil {
		return ""
	}
	return " (" + strings.Join(parts, "; ") + ")"
}

func (r whyReason) filter() string {
	rule := "Filter rule " + term.Visible(r.UUID) + r.because()
	switch r.Action {
	case filters.ActionPause:
		return rule + " holds it back until the rule is changed or deleted."
	case filters.ActionReject:
		return rule + " rejects it: it will be canceled."
	}
	return fmt.Sprintf("%s holds it back (%s).", rule, term.Visible(r.Action))
}

// lock names the blockers. Locks of the request that no blocker holds are only counted.
func (r whyReason) lock(now time.Time) string {
	blocked, others := r.blockedLocks()
	var wanted []string
	for _, item := range blocked {
		wanted = append(wanted, locks.ItemText(item))
	}
	text := fmt.Sprintf("It has been waiting for %s for %s", term.Enumerate(wanted, "and"),
		term.Span(time.Duration(r.Seconds*float64(time.Second))))
	switch {
	case others == 1:
		text += ", which it needs along with another lock"
	case others > 1:
		text += fmt.Sprintf(", which it needs along with %d other locks", others)
	}
	if len(r.Blockers) == 0 {
		return text + "; they are free now, and it is about to begin."
	}
	var holders []string
	for _, blocker := range r.Blockers {
		what, name := "it", blockerName(blocker.Job, blocker.Owner)
		if len(blocked) != 1 || len(blocker.Locks) != 1 || blocked[0].Lock != blocker.Locks[0] {
			what = term.Enumerate(visibleAll(blocker.Locks), "and")
		}
		word := fmt.Sprintf("%s holds %s", name, what)
		switch {
		case len(blocker.Locks) == 0: // it holds none of the locks, but its request is earlier
			word = fmt.Sprintf("%s comes before it", name)
		case !blocker.Since.IsZero():
			word = fmt.Sprintf("%s has held %s for %s", name, what, term.Span(now.Sub(blocker.Since.Time)))
		}
		holders = append(holders, word)
	}
	return text + ": " + strings.Join(holders, "; ") + "."
}

// blockedLocks is the part of the request that blockers hold, and the number of its other locks;
// the whole request if this is unknown.
func (r whyReason) blockedLocks() (blocked []answer.LockItem, others int) {
	for _, item := range r.Locks {
		held := func(b answer.Blocker) bool { return slices.Contains(b.Locks, item.Lock) }
		if slices.ContainsFunc(r.Blockers, held) {
			blocked = append(blocked, item)
		}
	}
	if len(blocked) == 0 {
		return r.Locks, 0
	}
	return blocked, len(r.Locks) - len(blocked)
}

func visibleAll(words []string) []string {
	shown := make([]string, len(words))
	for i, word := range words {
		shown[i] = term.Visible(word)
	}
	return shown
}

func (r whyReason) running(now time.Time) string {
	what := "at work"
	if r.Opcodes > 1 {
		what = fmt.Sprintf("at opcode %d of %d", r.Opcode+1, r.Opcodes)
	}
	if r.since().IsZero() {
		return "It is " + what + "."
	}
	return fmt.Sprintf("It has been %s for %s, since %s.", what, term.Span(now.Sub(r.since())), term.WallClock(now, r.since()))
}

func (r whyReason) ended(now time.Time) string {
	when := "The time of its end is unknown"
	if !r.since().IsZero() {
		when = "It ended " + term.Ago(now, r.since())
	}
	return when + term.AfterColon(term.Shortened(r.Text, term.ValueMax))
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
		case answer.WhyHold:
			add("let it go on", "release %d", w.ID)
		case answer.WhyRateLimit:
			add("start it before others of the kind", "priority high %d", w.ID)
		case answer.WhySlots:
			add("show the jobs in the slots", "status")
			add("start it before others", "priority high %d", w.ID)
		case answer.WhyOrder:
			add("start it before others", "priority high %d", w.ID)
		case answer.WhyLock:
			add("show all waiting owners", "locks --graph")
		case answer.WhyCannotStart, answer.WhyStopping:
			add("show the state of the daemon", "status")
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
	return all
}

package why

import (
	"slices"
	"strings"
	"time"

	"lockstep/core/answer"
	"lockstep/core/job"
	"lockstep/core/record"
)

// Sentence is a reason in words; nil: its kind is unknown.
func (w Style) Sentence(r answer.Reason, now time.Time) Sentence {
	var s Sentence
	switch r.Kind {
	case answer.WhyDependency:
		return w.dependency(r)
	case answer.WhyFilter:
		return w.filter(r)
	case answer.WhyHold:
		if r.By != "" {
			s = s.text("It is held by %s", w.Clean(record.User(r.By)))
		} else {
			s = s.text("It is held")
		}
		return s.text(": it begins no opcode until it is released.")
	case answer.WhyDue:
		return w.due(r, now)
	case answer.WhyFilterLimit:
		return w.because(w.rule(r), r).text(" lets %d such jobs run at a time, and %d are running.", r.Limit, r.Running)
	case answer.WhyRateLimit:
		return s.text("One of its reasons is %q: %d such jobs may run at a time, and %d are running.", r.Label, r.Limit, r.Running)
	case answer.WhySlots:
		return s.text("All run slots are taken: %d of %d.", r.Running, r.Slots)
	case answer.WhyOrder:
		return w.order(r)
	case answer.WhyLock:
		return w.lock(r, now)
	case answer.WhyStarting:
		return s.text("Its process is being started.")
	case answer.WhyCannotStart:
		if r.By != "" {
			return s.text("It cannot be started as %s%s", w.Clean(r.By), afterColon(w.Clean(r.Text)))
		}
		return s.text("Job processes cannot be started%s", afterColon(w.Clean(r.Text)))
	case answer.WhyCannotWrite:
		return w.cannotWrite(r, now)
	case answer.WhyReader:
		s = s.text("Its output waits for its reader, the command that follows it")
		if r.Since != nil && !r.Since.IsZero() {
			s = append(s.text(", since "), Part{Text: w.Clock(now, r.Since.Time), Time: r.Since.Time})
		}
		return s.text(".")
	case answer.WhyStopping:
		return s.text("The daemon is stopping; jobs start when it runs again.")
	case answer.WhyCycle:
		return w.cycle(r)
	case answer.WhyRunning:
		return w.running(r, now)
	case answer.WhyEnded:
		if r.Since == nil || r.Since.IsZero() {
			s = s.text("The time of its end is unknown")
		} else {
			s = s.text("It ended %s", w.Ago(now, r.Since.Time))
		}
		return s.text("%s", afterColon(w.Short(r.Text)))
	}
	return nil
}

// due says when the job starts, and which try it begins then.
func (w Style) due(r answer.Reason, now time.Time) Sentence {
	if r.Due == nil {
		return nil
	}
	at := Part{Text: w.Clock(now, r.Due.Time), Time: r.Due.Time}
	if r.Try == nil {
		return append(Sentence{}.text("It starts no earlier than "), at).text(".")
	}
	s := Sentence{}.text("Try %d of %d begins at ", r.Try.Number, r.Try.Most)
	if r.Try.Last == "" {
		return append(s, at).text(".")
	}
	return append(s, at).text(". The last one has failed: %s.", strings.TrimSuffix(w.Clean(r.Try.Last), "."))
}

// cannotWrite says who cannot write the job's file, and what ends it.
func (w Style) cannotWrite(r answer.Reason, now time.Time) Sentence {
	s := Sentence{}.text("The daemon cannot write its file: %s", w.Clean(WriteError(r.Text)))
	if r.By == answer.ByProcess {
		s = Sentence{}.text("Its process cannot write its file: %s", w.Clean(WriteError(r.Text)))
	}
	if r.Since != nil && !r.Since.IsZero() {
		s = append(s.text(", since "), Part{Text: w.Clock(now, r.Since.Time), Time: r.Since.Time})
	}
	return s.text(". It is tried again and again, and goes on %s.", WriteRemedy(r.Text))
}

// FailingWrites says what cannot be written, a sentence for each cause; the data directory names the disk.
func (w Style) FailingWrites(all []answer.CannotWrite, dataDir string, now time.Time) []string {
	type cause struct {
		since  time.Time
		jobs   []string
		others []string // files of the daemon
	}
	causes, order := map[string]*cause{}, []string{}
	for _, f := range all {
		text := f.Text[strings.LastIndex(f.Text, ": ")+1:]
		c := causes[text]
		if c == nil {
			c = &cause{since: f.Since.Time}
			causes[text], order = c, append(order, text)
		}
		if f.Since.Before(c.since) {
			c.since = f.Since.Time
		}
		if f.Job != 0 {
			c.jobs = append(c.jobs, decimal(f.Job))
		} else {
			c.others = append(c.others, w.Clean(strings.TrimSuffix(WriteError(f.Text), ":"+text)))
		}
	}
	var sentences []string
	for _, text := range order {
		c := causes[text]
		var what []string
		switch len(c.jobs) {
		case 0:
		case 1:
			what = append(what, "the file of job "+c.jobs[0])
		default:
			what = append(what, "the files of jobs "+strings.Join(c.jobs, ", "))
		}
		if c.others != nil {
			what = append(what, "files of the daemon ("+strings.Join(c.others, "; ")+")")
		}
		sentences = append(sentences, "files in "+w.Clean(dataDir)+" cannot be written since "+w.Clock(now, c.since)+": "+
			w.Clean(strings.TrimSpace(text))+". This concerns "+strings.Join(what, " and ")+". Jobs go on "+WriteRemedy(text)+".")
	}
	return sentences
}

// WriteError is the error of a write without the label of the step.
func WriteError(text string) string {
	if _, rest, labeled := strings.Cut(text, ": "); labeled && strings.Contains(rest, ": ") {
		return rest
	}
	return text
}

// WriteRemedy says what ends the error of a write.
func WriteRemedy(text string) string {
	if strings.Contains(text, "no space left") || strings.Contains(text, "quota exceeded") {
		return "when the disk has room"
	}
	return "when the file can be written"
}

// afterColon is the end of a sentence: a colon with the text and a full stop, or a full stop for "".
func afterColon(text string) string {
	if text = strings.TrimRight(text, "."); text == "" {
		return "."
	}
	return ": " + text + "."
}

// wanted are the statuses with which the job of a dependency has to end.
func wanted(statuses []string) []string {
	if len(statuses) == 0 {
		return []string{job.Success.String(), job.Error.String()}
	}
	return statuses
}

func (w Style) dependency(r answer.Reason) Sentence {
	subject, verb, status := Sentence{}.text("It"), "waits for", ""
	if r.JobStatus != nil {
		status = *r.JobStatus
	}
	if r.Opcode > 0 {
		subject = Sentence{}.text("Its opcode %d", r.Opcode+1)
	}
	known, isKnown := job.ParseStatus(status)
	state := "is " + w.Clean(status)
	switch {
	case r.Unknown:
		state = "was archived on another node or removed"
	case status == "":
		state = "is not known"
	case isKnown && known.Final():
		verb, state = "needs", "has ended with "+w.Clean(status)
	}
	s := subject.text(" %s ", verb).job(r.Job)
	if r.Former {
		return s.text(", a former one of its schedule, which %s, to end.", state)
	}
	s = s.text(", which %s, to end with ", state)
	return w.words(s, wanted(r.Statuses), "or").text(".")
}

// because adds the reason and the author of a filter rule, in parentheses, as far as known.
func (w Style) because(s Sentence, r answer.Reason) Sentence {
	var parts []string
	if r.RuleReason != "" {
		parts = append(parts, w.Short(r.RuleReason))
	}
	if r.By != "" {
		parts = append(parts, "made by "+w.Short(record.User(r.By)))
	}
	if parts == nil {
		return s
	}
	return s.text(" (%s)", strings.Join(parts, "; "))
}

func (w Style) filter(r answer.Reason) Sentence {
	s := w.because(w.rule(r), r)
	switch r.Action {
	case "PAUSE":
		return s.text(" holds it back until the rule is changed or deleted.")
	case "REJECT":
		return s.text(" rejects it: it will be canceled.")
	}
	return s.text(" holds it back (%s).", w.Clean(r.Action))
}

// lock names the blockers. Locks of the request that no blocker holds are only counted.
func (w Style) lock(r answer.Reason, now time.Time) Sentence {
	blocked, others := BlockedLocks(r)
	s := Sentence{}.text("It has been waiting for ").enumerate(len(blocked), "and", func(s Sentence, i int) Sentence {
		return s.text("%s (%s)", w.Clean(blocked[i].Lock), w.Clean(blocked[i].Mode))
	}).text(" for %s", w.Span(time.Duration(r.Seconds*float64(time.Second))))
	switch {
	case others == 1:
		s = s.text(", which it needs along with another lock")
	case others > 1:
		s = s.text(", which it needs along with %d other locks", others)
	}
	if len(r.Blockers) == 0 {
		return s.text("; they are free now, and it is about to begin.")
	}
	for i, b := range r.Blockers {
		s = s.text("%s", map[bool]string{true: ": ", false: "; "}[i == 0])
		s = w.owner(s, b.Job, b.Owner)
		what := Sentence{}.text("it")
		if len(blocked) != 1 || len(b.Locks) != 1 || blocked[0].Lock != b.Locks[0] {
			what = w.words(nil, b.Locks, "and")
		}
		switch {
		case len(b.Locks) == 0: // it holds none of the locks, but its request is earlier
			s = s.text(" comes before it")
		case !b.Since.IsZero():
			s = append(s.text(" has held "), what...).text(" for %s", w.Span(now.Sub(b.Since.Time)))
		default:
			s = append(s.text(" holds "), what...)
		}
	}
	return s.text(".")
}

// BlockedLocks is the part of the request that blockers hold, and the number of its other locks; the whole request if this is unknown.
func BlockedLocks(r answer.Reason) (blocked []answer.LockItem, others int) {
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

func (w Style) running(r answer.Reason, now time.Time) Sentence {
	s := Sentence{}.text("It ")
	what := "at work"
	if r.Opcodes > 1 {
		what = Sentence{}.text("at opcode %d of %d", r.Opcode+1, r.Opcodes).String()
	}
	if r.Since == nil || r.Since.IsZero() {
		return s.text("is %s.", what)
	}
	s = s.text("has been %s for %s, since ", what, w.Span(now.Sub(r.Since.Time)))
	return append(s, Part{Text: w.Clock(now, r.Since.Time), Time: r.Since.Time}).text(".")
}

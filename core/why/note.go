package why

import (
	"strings"
	"time"

	"lockstep/core/answer"
	"lockstep/core/words"
)

// Note describes a job in a few words beside its status, in all lists: how it has ended, or why it does not run, as LockstepPending says
// ("": not known), or which try of an opcode runs or comes next, and when. It is empty if there is nothing to say.
func Note(j *answer.ListedJob, why string, now time.Time) string {
	counting := strings.HasPrefix(why, dueOf(j.Try)) // the time has passed on since the answer
	switch {
	case j.Result != "":
		return j.Result
	case why != "" && !counting:
		return why
	case j.Due != nil && now.Before(j.Due.Time):
		return Due(j.Try, j.Due.Time, now)
	case j.Try != nil && j.Try.Number > 1 && j.Ended.IsZero():
		return j.Try.String()
	}
	return ""
}

// Due says in a few words when a job starts, and which try begins then: "try 2 of 6 in 40s". t is nil if no opcode is tried again.
func Due(t *answer.Try, due, now time.Time) string {
	return dueOf(t) + words.FormatDuration(max(due.Sub(now).Round(time.Second), time.Second))
}

func dueOf(t *answer.Try) string {
	if t == nil {
		return "starts in "
	}
	return t.String() + " in "
}

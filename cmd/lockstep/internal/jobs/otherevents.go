package jobs

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/core/answer"
)

// otherEvent is an event of another kind than jobs as --json prints it.
type otherEvent struct {
	Time     client.Timestamp  `json:"time"`
	Lock     *answer.LockEvent `json:"lock,omitempty"`
	Filter   *answer.RuleEvent `json:"filter,omitempty"`
	Schedule *scheduleEvent    `json:"schedule,omitempty"`
}

// scheduleEvent is an event of a schedule without the second form of its times.
type scheduleEvent struct {
	answer.ScheduleEvent
	DueTS   *answer.Time `json:"due_ts,omitempty"`
	UntilTS *answer.Time `json:"until_ts,omitempty"`
}

// checkKinds checks the value of --kinds: kinds other than job need --follow.
func checkKinds(kinds []string, follow bool) error {
	for _, kind := range kinds {
		switch {
		case !slices.Contains(answer.EventKinds(), kind):
			return cli.Usagef("--kinds: there is no kind %q; there are %s", kind, strings.Join(answer.EventKinds(), ", "))
		case kind != answer.EventJob && !follow:
			return cli.Usagef("--kinds %s needs --follow: past events are those of jobs", kind)
		}
	}
	return nil
}

// arguments are the arguments of LockstepEvents, for a call that waits at most seconds.
func (o eventsOptions) arguments(seconds int) []any {
	if others := slices.DeleteFunc(slices.Clone(o.Kinds), func(kind string) bool { return kind == answer.EventJob }); len(others) > 0 {
		return []any{seconds, others}
	}
	return []any{seconds}
}

// showOther prints an event of locks, a filter rule or a schedule, with the present as its time. Other kinds are not printed.
func (v *eventView) showOther(e answer.OtherEvent) error {
	shown := otherEvent{Time: client.Timestamp{Time: v.globals.Streams.Now()}}
	var err error
	var text string
	switch e.Kind {
	case answer.EventLock:
		err = json.Unmarshal(e.Data, &shown.Lock)
		text = lockText(shown.Lock)
	case answer.EventFilter:
		err = json.Unmarshal(e.Data, &shown.Filter)
		text = ruleText(shown.Filter)
	case answer.EventSchedule:
		var event answer.ScheduleEvent
		err = json.Unmarshal(e.Data, &event)
		shown.Schedule = &scheduleEvent{ScheduleEvent: event}
		text = v.scheduleText(event)
	default:
		return nil
	}
	if err != nil {
		return fmt.Errorf("decode the daemon's event %s: %w", e.Data, err)
	}
	if v.globals.JSON {
		return v.showJSON(shown)
	}
	streams := v.globals.Streams
	_, err = fmt.Fprintf(streams.Out, "%s  %s\n", term.FullClock(streams.Now(), shown.Time.Truncate(time.Millisecond)), text)
	return err
}

func (v *eventView) showJSON(e any) error {
	data, err := cli.EncodeJSON(e)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(v.globals.Streams.Out, "%s\n", data)
	return err
}

// lockText is an event of locks in words; "" if there is none.
func lockText(e *answer.LockEvent) string {
	if e == nil {
		return ""
	}
	owner := term.Visible(e.Owner)
	if e.Job != nil {
		owner = fmt.Sprintf("job %d", *e.Job)
	}
	var parts []string
	if e.Held > 0 {
		parts = append(parts, "holds "+lockList(e.Locks, e.Held))
	}
	if e.Wanted > 0 {
		parts = append(parts, "waits for "+lockList(e.Pending, e.Wanted))
	}
	if len(parts) == 0 {
		parts = []string{"has no locks"}
	}
	return fmt.Sprintf("locks: %s %s", owner, strings.Join(parts, ", "))
}

// lockList names locks, of which only some are listed; all is their number.
func lockList(locks [][2]string, all int) string {
	texts := make([]string, len(locks))
	for i, l := range locks {
		texts[i] = term.Visible(l[0] + ":" + l[1])
	}
	if all > len(locks) {
		texts = append(texts, fmt.Sprintf("and %d more", all-len(locks)))
	}
	return strings.Join(texts, " ")
}

// ruleText is an event of a filter rule in words; "" if there is none.
func ruleText(e *answer.RuleEvent) string {
	if e == nil {
		return ""
	}
	text := fmt.Sprintf("filter: rule %s %s", term.Visible(e.UUID), term.Visible(e.Change))
	var rule struct {
		Action     json.RawMessage `json:"action"`
		Predicates json.RawMessage `json:"predicates"`
	}
	if json.Unmarshal(e.Rule, &rule) == nil && rule.Action != nil {
		text += fmt.Sprintf(": %s if %s", term.Visible(string(rule.Action)), term.Visible(string(rule.Predicates)))
	}
	return text
}

// scheduleText is an event of a schedule in words.
func (v *eventView) scheduleText(e answer.ScheduleEvent) string {
	now := v.globals.Streams.Now()
	text := fmt.Sprintf("schedule %s: %s", term.Visible(e.Name), term.Visible(e.Change))
	if e.Times > 1 {
		text += fmt.Sprintf(" %d times, the last one", e.Times)
	} else if e.Due != nil {
		text += ","
	}
	if e.Due != nil {
		text += " due " + term.WallClock(now, e.Due.Truncate(time.Second))
	}
	if e.Until != nil {
		text += " until " + term.WallClock(now, e.Until.Time)
	}
	switch len(e.Jobs) {
	case 0:
	case 1:
		text += fmt.Sprintf(", job %d", e.Jobs[0])
	default:
		text += fmt.Sprintf(", jobs %d to %d", e.Jobs[0], e.Jobs[len(e.Jobs)-1])
	}
	if e.By != "" {
		text += ", by " + term.Visible(e.By)
	}
	if e.Reason != "" {
		if e.Change == answer.ScheduleFired {
			text += ", late"
		}
		text += ": " + term.Visible(e.Reason)
	}
	return text
}

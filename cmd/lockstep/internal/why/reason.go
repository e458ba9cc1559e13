package why

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/cmd/lockstep/internal/order"
	"lockstep/core/answer"
)

// whyReason is one reason.
type whyReason struct{ answer.Reason }

// jobStatus is the status of the job of a dependency, "" if unknown.
func (r whyReason) jobStatus() string {
	if r.JobStatus == nil {
		return ""
	}
	return *r.JobStatus
}

func isJob(b answer.Blocker) bool { return b.Owner == "" }

// whyShown is an answer as --json prints it: the daemon's values, with times as RFC 3339 and the
// sentences.
type whyShown struct {
	ID       int64    `json:"id"`
	Name     string   `json:"name"`
	Status   string   `json:"status"`
	Summary  []string `json:"summary"`
	Archived bool     `json:"archived"`
	Reasons  []any    `json:"reasons"`

	Schedule *scheduleOfJob `json:"schedule,omitempty"`

	Progress *cli.Progress  `json:"progress,omitempty"` // as list --json prints it
	Estimate *estimateShown `json:"estimate,omitempty"` // with --estimate
}

// scheduleOfJob is the schedule that has submitted a job.
type scheduleOfJob struct {
	Name string           `json:"name"`
	Due  client.Timestamp `json:"due_ts"`
}

type estimateShown struct {
	order.Shown
	Sentence string `json:"sentence"`
}

func (w jobWhy) shown(now time.Time) whyShown {
	reasons := []any{}
	for _, reason := range w.reasons() {
		reasons = append(reasons, reason.document(now))
	}
	shown := whyShown{ID: w.ID, Name: w.Name, Status: w.Status, Summary: cli.OrEmpty(w.Summary), Archived: w.Archived, Reasons: reasons,
		Progress: cli.ShownProgress(w.Progress)}
	if s := w.Schedule; s != nil {
		shown.Schedule = &scheduleOfJob{s.Name, client.Timestamp(s.Due)}
	}
	if w.estimate != nil {
		shown.Estimate = &estimateShown{*w.estimate, w.estimate.Sentence(now)}
	}
	return shown
}

func (r whyReason) document(now time.Time) any {
	value, err := cli.DecodeAny(r.Raw)
	object, ok := withTimes(value).(map[string]any)
	if err != nil || !ok {
		return r.Raw
	}
	object["sentence"] = r.sentence(now)
	return object
}

// withTimes replaces [seconds, microseconds] of keys that end in _ts by RFC 3339, at any depth.
func withTimes(value any) any {
	switch value := value.(type) {
	case []any:
		for i, inner := range value {
			value[i] = withTimes(inner)
		}
	case map[string]any:
		for key, inner := range value {
			value[key] = withTimes(inner)
			var time client.Timestamp
			encoded, err := cli.EncodeJSON(inner)
			if strings.HasSuffix(key, "_ts") && err == nil && json.Unmarshal(encoded, &time) == nil {
				value[key] = time
			}
		}
	}
	return value
}

// generic shows a reason of a kind that this program does not know, with its keys.
func (r whyReason) generic() string {
	value, err := cli.DecodeAny(r.Raw)
	object, ok := value.(map[string]any)
	if err != nil || !ok {
		return term.Visible(string(r.Raw))
	}
	delete(object, "kind")
	var details []string
	for _, key := range slices.Sorted(maps.Keys(object)) {
		details = append(details, term.Visible(key)+" "+cli.PlainText(object[key]))
	}
	text := "Another reason: " + term.Visible(r.Kind)
	if len(details) > 0 {
		text += " (" + strings.Join(details, ", ") + ")"
	}
	return text + "."
}

package why

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/cmd/lockstep/internal/locks"
)

// The kinds of reasons why a job does not run, or what it does instead.
const (
	whyDependency  = "dependency"
	whyFilter      = "filter"
	whyFilterLimit = "filter-limit"
	whyRateLimit   = "rate-limit"
	whySlots       = "slots"
	whyOrder       = "order"
	whyLock        = "lock"
	whyStarting    = "starting"
	whyCannotStart = "cannot-start"
	whyStopping    = "stopping"
	whyRunning     = "running"
	whyEnded       = "ended"
)

// whyReason is one reason. Which fields it has depends on its kind; those of a kind that
// is not known here are in raw only.
type whyReason struct {
	Kind string `json:"kind"`

	Opcode    int      `json:"opcode"` // from 0
	Opcodes   int      `json:"opcodes"`
	Job       int64    `json:"job"`
	JobStatus string   `json:"job_status"`
	Statuses  []string `json:"statuses"`
	Unknown   bool     `json:"unknown"` // to the node that is the master

	UUID   string `json:"uuid"`
	Action string `json:"action"`
	Reason string `json:"reason"`
	By     string `json:"by"` // who made the rule

	Label   string `json:"label"`
	Limit   int64  `json:"limit"`
	Running int64  `json:"running"`
	Slots   int64  `json:"slots"`

	Position int64      `json:"position"`
	AtLeast  bool       `json:"at_least"`
	Pending  int64      `json:"pending"`
	Weight   float64    `json:"weight"`
	AgeTicks int64      `json:"age_ticks"`
	Causes   []whyCause `json:"causes"`

	Locks    []locks.Item `json:"locks"`
	Seconds  float64      `json:"seconds"`
	Blockers []whyBlocker `json:"blockers"`

	Since client.Timestamp `json:"since_ts"`
	Text  string           `json:"text"`

	raw json.RawMessage
}

func (r *whyReason) UnmarshalJSON(data []byte) error {
	type plain whyReason // without this method
	decoded := plain{}
	if err := json.Unmarshal(data, &decoded); err != nil {
		// A kind that is not known may mean something else by a name.
		var kind struct {
			Kind string `json:"kind"`
		}
		if known := json.Unmarshal(data, &kind); known != nil || slices.Contains(whyKinds(), kind.Kind) {
			return fmt.Errorf("a reason: %w", err)
		}
		decoded = plain{Kind: kind.Kind}
	}
	*r = whyReason(decoded)
	r.raw = slices.Clone(data)
	return nil
}

func whyKinds() []string {
	return []string{whyDependency, whyFilter, whyFilterLimit, whyRateLimit, whySlots, whyOrder, whyLock,
		whyStarting, whyCannotStart, whyStopping, whyRunning, whyEnded}
}

// whyCause is somebody because of whom a job is put behind others of its priority.
type whyCause struct {
	Job   int64   `json:"job"`
	Owner string  `json:"owner"` // a client by its name; "": the job
	Lock  string  `json:"lock"`  // "" if it is not about one
	Mode  string  `json:"mode"`
	Value float64 `json:"value"`
}

// whyBlocker is somebody who holds locks that a job waits for.
type whyBlocker struct {
	Job   int64            `json:"job"`
	Owner string           `json:"owner"` // a client by its name; "": the job
	Since client.Timestamp `json:"since_ts"`
	Locks []string         `json:"locks"`
}

func (b whyBlocker) isJob() bool { return b.Owner == "" }

func (b whyBlocker) String() string { return blockerName(b.Job, b.Owner) }

func blockerName(job int64, owner string) string {
	if owner != "" {
		return term.Visible(owner)
	}
	return locks.Principal{Job: job}.String()
}

// whyShown is an answer as --json prints it: what the daemon has sent, times in the form
// that this program has, and the sentences.
type whyShown struct {
	ID       int64    `json:"id"`
	Status   string   `json:"status"`
	Summary  []string `json:"summary"`
	Archived bool     `json:"archived"`
	Reasons  []any    `json:"reasons"`
}

func (w jobWhy) shown(now time.Time) whyShown {
	reasons := []any{}
	for _, reason := range w.Reasons {
		reasons = append(reasons, reason.document(now))
	}
	return whyShown{w.ID, w.Status, cli.OrEmpty(w.Summary), w.Archived, reasons}
}

func (r whyReason) document(now time.Time) any {
	value, err := cli.DecodeAny(r.raw)
	object, ok := withTimes(value).(map[string]any)
	if err != nil || !ok {
		return r.raw
	}
	object["sentence"] = r.sentence(now)
	return object
}

// withTimes replaces [seconds, microseconds] behind keys that end in _ts, at any depth.
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

// generic shows a reason of a kind that is not known here.
func (r whyReason) generic() string {
	value, err := cli.DecodeAny(r.raw)
	object, ok := value.(map[string]any)
	if err != nil || !ok {
		return term.Visible(string(r.raw))
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

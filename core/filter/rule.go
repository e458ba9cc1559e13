// Package filter decides which filter rule applies to a job (queue.md 5). Rules come from clients and from config.data.
// Set.Evaluate takes a Subject, the part of a job that rules see, and returns a Verdict: the first rule that matches,
// and its action. The package also parses and encodes rules, and says what is wrong with them. It is pure.
package filter

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"

	"lockstep/core/job"
	"lockstep/core/rawjson"
)

// Rule is one rule of the chain, as config.data or config.extra holds it.
type Rule struct {
	UUID       string
	Watermark  job.ID // the last id given when the rule was made or replaced
	Priority   int64  // smaller goes first, never negative
	Predicates json.RawMessage
	Action     Action
	// ReasonTrail says who made the rule and why.
	ReasonTrail []Reason
	// Until is when the rule ends, in nanoseconds since 1970; 0: it has no end.
	Until int64

	compiled *compiled // of Predicates; nil: they are not compiled yet, or invalid
}

// Reason is one entry of a reason trail (queue.md 3.6).
type Reason struct {
	Source, Text string
	Nanos        int64 // since 1970
}

// MarshalJSON writes [source, text, nanoseconds].
func (r Reason) MarshalJSON() ([]byte, error) { return r.append(nil), nil }

func (r Reason) append(dst []byte) []byte {
	dst = append(append(dst, '['), rawjson.Quote(r.Source)...)
	dst = append(append(dst, ','), rawjson.Quote(r.Text)...)
	return append(strconv.AppendInt(append(dst, ','), r.Nanos, 10), ']')
}

// Compare is negative if r is evaluated before s: by priority, then watermark, then UUID, each ascending.
func (r *Rule) Compare(s *Rule) int {
	return cmp.Or(cmp.Compare(r.Priority, s.Priority), cmp.Compare(r.Watermark, s.Watermark), cmp.Compare(r.UUID, s.UUID))
}

// Encode writes the rule for config.data or config.extra (queue.md 5.1). The predicates keep the client's spelling.
func Encode(r *Rule) []byte {
	dst := append([]byte(`{"uuid":`), rawjson.Quote(r.UUID)...)
	dst = strconv.AppendInt(append(dst, `,"watermark":`...), int64(r.Watermark), 10)
	dst = strconv.AppendInt(append(dst, `,"priority":`...), r.Priority, 10)
	dst = append(append(dst, `,"predicates":`...), r.Predicates...)
	dst = r.Action.append(append(dst, `,"action":`...))
	dst = append(dst, `,"reason_trail":[`...)
	for i, reason := range r.ReasonTrail {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = reason.append(dst)
	}
	dst = append(dst, ']')
	if r.Until != 0 {
		dst = strconv.AppendInt(append(dst, `,"until":`...), r.Until, 10)
	}
	return append(dst, '}')
}

// IsGanetis reports whether Ganeti's programs can read the rule: it has no end, and no predicate that Ganeti lacks. They refuse a whole
// configuration with any other rule. Invalid predicates count as Ganeti's: they come from its programs.
func (r *Rule) IsGanetis() bool {
	if r.Until != 0 {
		return false
	}
	return r.compiled == nil || !slices.ContainsFunc(r.compiled.predicates, func(p predicate) bool { return !p.part.isGanetis() })
}

// HasEnded reports whether the end of the rule has come.
func (r *Rule) HasEnded(nowNanos int64) bool { return r.Until != 0 && nowNanos >= r.Until }

// Decode reads a rule from config.data. It does not parse the predicates: an invalid rule of another program must not
// make the configuration unreadable. NewSet reports the rules with invalid predicates. The error is an *Invalid.
func Decode(data []byte) (Rule, error) {
	var stored struct {
		UUID        *string         `json:"uuid"`
		Watermark   json.RawMessage `json:"watermark"`
		Priority    json.RawMessage `json:"priority"`
		Predicates  json.RawMessage `json:"predicates"`
		Action      json.RawMessage `json:"action"`
		ReasonTrail json.RawMessage `json:"reason_trail"`
		Until       json.RawMessage `json:"until"`
	}
	if err := json.Unmarshal(data, &stored); err != nil {
		return Rule{}, &Invalid{"", "not a filter rule: " + err.Error()}
	}
	if stored.UUID == nil || *stored.UUID == "" {
		return Rule{}, &Invalid{"uuid", "missing"}
	}
	rule := Rule{UUID: *stored.UUID}
	watermark, err := natural("watermark", stored.Watermark)
	if err != nil {
		return Rule{}, err
	}
	rule.Watermark = job.ID(watermark)
	if _, err := elements("predicates", stored.Predicates); err != nil {
		return Rule{}, err
	}
	rule.Predicates = stored.Predicates
	if !isNull(stored.Until) {
		if rule.Until, err = natural("until", stored.Until); err != nil {
			return Rule{}, err
		}
	}
	return rule, rule.readCommon(stored.Priority, stored.Action, stored.ReasonTrail)
}

// readCommon sets the fields that have the same form in config.data and in a request.
func (r *Rule) readCommon(priority, action, reason json.RawMessage) (err error) {
	if r.Priority, err = natural("priority", priority); err != nil {
		return err
	}
	if r.Action, err = parseAction(action); err != nil {
		return err
	}
	r.ReasonTrail, err = parseTrail(reason)
	return err
}

// Verb is what a rule does with the jobs that it applies to (queue.md 5.5).
type Verb uint8

const (
	// Accept lets the job run; later rules are not evaluated.
	Accept Verb = iota
	// Pause keeps the job in the queue, and a running one from beginning its next opcode.
	Pause
	// Reject cancels the job unless it runs already.
	Reject
	// Continue does nothing: the rule never applies and only documents its reason.
	Continue
	// RateLimit keeps the job in the queue while Limit other jobs that the rule applies to are running.
	RateLimit
)

var verbNames = [...]string{"ACCEPT", "PAUSE", "REJECT", "CONTINUE", "RATE_LIMIT"}

// String is the verb as clients write it.
func (v Verb) String() string { return verbNames[v] }

// Action is a verb and its limit.
type Action struct {
	Verb  Verb
	Limit int64 // of RateLimit: how many jobs may run at once, at least 1; else 0
}

// String is the form of the command line: PAUSE, or RATE_LIMIT:10.
func (a Action) String() string {
	if a.Verb != RateLimit {
		return a.Verb.String()
	}
	return a.Verb.String() + ":" + strconv.FormatInt(a.Limit, 10)
}

// MarshalJSON writes the form for clients: "PAUSE", or ["RATE_LIMIT",10].
func (a Action) MarshalJSON() ([]byte, error) { return a.append(nil), nil }

func (a Action) append(dst []byte) []byte {
	if a.Verb != RateLimit {
		return append(append(append(dst, '"'), a.Verb.String()...), '"')
	}
	return append(strconv.AppendInt(append(dst, `["RATE_LIMIT",`...), a.Limit, 10), ']')
}

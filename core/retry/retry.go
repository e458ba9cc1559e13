// Package retry decides whether a command that has failed is tried again, and when. A policy belongs to an opcode; it is the
// parameter `retry` of OP_RUN_COMMAND and of definitions (docs/over-time.md). The package is pure, and small, because the job
// process links it.
package retry

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"lockstep/core/job"
	"lockstep/core/rawjson"
)

// TimesMax is the highest number of further tries.
const TimesMax = 5

// The defaults of a policy, and the longest delay, in seconds.
const (
	DefaultDelay    = 10
	DefaultMaxDelay = 600
	secondsMax      = 1e9
)

// Policy says when a command is tried again. The zero value is that of a command that is not.
type Policy struct {
	Times    int     `json:"times"`               // further tries after the first, 1..TimesMax
	Delay    float64 `json:"delay,omitempty"`     // seconds between the first try and the second; it doubles after each; 0: DefaultDelay
	MaxDelay float64 `json:"max_delay,omitempty"` // the longest delay in seconds; 0: DefaultMaxDelay, but at least Delay
	On       []Cause `json:"on,omitempty"`        // what is tried again; nil: Failure
}

// Cause is a reason for another try: an exit status, 1..255, in decimal, or one of the constants.
type Cause string

const (
	// Failure: the command has failed in any way.
	Failure Cause = "failure"
	// Timeout: the command has reached its time limit.
	Timeout Cause = "timeout"
	// Lost: the job process has died, so that it is not known whether the command has done its work: it was killed, or its machine or
	// node is gone. It counts only if the policy names it.
	Lost Cause = "lost"
)

// UnmarshalJSON reads a cause, which is a text or the number of an exit status.
func (c *Cause) UnmarshalJSON(data []byte) error {
	text := string(data)
	if data[0] == '"' {
		if err := json.Unmarshal(data, &text); err != nil {
			return fmt.Errorf("decode a cause of another try: %w", err)
		}
	}
	*c = Cause(text)
	return c.check()
}

// MarshalJSON writes an exit status as a number.
func (c Cause) MarshalJSON() ([]byte, error) {
	if _, err := strconv.Atoi(string(c)); err == nil {
		return []byte(c), nil
	}
	return json.Marshal(string(c)) //nolint:wrapcheck // a string
}

func (c Cause) check() error {
	switch c {
	case Failure, Timeout, Lost:
		return nil
	}
	if n, err := strconv.Atoi(string(c)); err != nil || n < 1 || n > 255 || strconv.Itoa(n) != string(c) {
		return fmt.Errorf("want an exit status from 1 to 255, %q, %q or %q", Failure, Timeout, Lost)
	}
	return nil
}

// ParseCauses reads causes as a person writes them: "1,75,timeout".
func ParseCauses(text string) ([]Cause, error) {
	var causes []Cause
	for word := range strings.SplitSeq(text, ",") {
		c := Cause(strings.TrimSpace(word))
		if err := c.check(); err != nil {
			return nil, fmt.Errorf("%q: %w", string(c), err)
		}
		causes = append(causes, c)
	}
	return causes, nil
}

// Mistake is why a value is no policy: what is wanted of one of its members; "" is the value itself.
type Mistake struct{ Member, Want string }

func (m *Mistake) Error() string { return strings.TrimPrefix(m.Member+": want "+m.Want, ": ") }

// Wanted describes the values of a policy.
const Wanted = `null, a number of further tries from 1 to 5, or an object like ` +
	`{"times": 3, "delay": 10, "max_delay": 600, "on": [75, "timeout"]}`

const wantedSeconds = "a number of seconds greater than 0 and at most 1000000000"

// Parse reads and checks a policy: an object, or only the number of further tries. The error is a *Mistake. JSON's null is the zero value.
func Parse(raw json.RawMessage) (Policy, error) {
	var p Policy
	if json.Unmarshal(raw, &p.Times) == nil {
		if p.Times != 0 && !p.accepts("times") || p.Times == 0 && string(bytes.TrimSpace(raw)) != "null" {
			return Policy{}, &Mistake{Want: Wanted}
		}
		return p, nil
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return Policy{}, &Mistake{Want: Wanted}
	}
	for _, m := range []struct {
		name  string
		value any
		want  string
	}{
		{"times", &p.Times, "a number of further tries from 1 to 5"},
		{"delay", &p.Delay, wantedSeconds},
		{"max_delay", &p.MaxDelay, wantedSeconds},
		{"on", &p.On, `a list of exit statuses from 1 to 255, "failure", "timeout" and "lost"`},
	} {
		raw, there := members[m.name]
		if !there && m.name != "times" {
			continue
		}
		if !there || json.Unmarshal(raw, m.value) != nil || !p.accepts(m.name) {
			return Policy{}, &Mistake{m.name, m.want}
		}
		delete(members, m.name)
	}
	for name := range members {
		return Policy{}, &Mistake{name, "only times, delay, max_delay and on here"}
	}
	return p, p.Check()
}

// Check returns why the longest delay is too short, a *Mistake, or nil.
func (p Policy) Check() error {
	if p.MaxDelay != 0 && p.MaxDelay < p.delay() {
		return &Mistake{"max_delay", fmt.Sprintf("at least the delay, %g seconds", p.delay())}
	}
	return nil
}

// Of is the policy in the stored input of an opcode, whose parameter retry was checked at the submission; the zero value without one.
func Of(input json.RawMessage) Policy {
	if !bytes.Contains(input, []byte(`"retry"`)) {
		return Policy{}
	}
	start, end, isObject := rawjson.MemberRange(input, "retry")
	if !isObject || end == 0 {
		return Policy{}
	}
	p, err := Parse(input[start:end])
	if err != nil {
		return Policy{}
	}
	return p
}

func (p Policy) accepts(member string) bool {
	ofSeconds := func(s float64) bool { return s > 0 && s <= secondsMax }
	switch member {
	case "times":
		return p.Times >= 1 && p.Times <= TimesMax
	case "delay":
		return ofSeconds(p.Delay)
	case "max_delay":
		return ofSeconds(p.MaxDelay)
	default:
		return len(p.On) > 0
	}
}

func (p Policy) delay() float64 {
	if p.Delay == 0 {
		return DefaultDelay
	}
	return p.Delay
}

// Tries is how often the command runs at most.
func (p Policy) Tries() int { return p.Times + 1 }

// Again reports whether another try follows a try, numbered from 1, that has failed with a result of an opcode.
func (p Policy) Again(try int, result json.RawMessage) bool {
	if try > p.Times {
		return false
	}
	cause, ofCommand := causeOf(result)
	if !ofCommand {
		return false
	}
	return len(p.On) == 0 || slices.Contains(p.On, Failure) || slices.Contains(p.On, cause)
}

// AgainIfLost reports whether another try follows a try, numbered from 1, whose process has died.
func (p Policy) AgainIfLost(try int) bool { return try <= p.Times && slices.Contains(p.On, Lost) }

// causeOf is the cause in the result of a command that has failed, ["OpExecError", [text, {"exit_status": 1}]]. ofCommand is false if the
// opcode has failed for another reason, such as a lock. A command that a signal has ended has the cause Failure.
func causeOf(result json.RawMessage) (cause Cause, ofCommand bool) {
	switch f, _ := job.ParseFailure(result); {
	case f.ExitStatus != nil:
		return Cause(strconv.Itoa(*f.ExitStatus)), true
	case f.Timeout != nil:
		return Timeout, true
	default:
		return Failure, len(f.Signal) > 0
	}
}

// Pause is the time between the end of a try, numbered from 1, and the next one of a job. It doubles with each try up to MaxDelay.
// It differs by up to 20 percent between jobs and tries, so that commands that fail together are not tried again together.
func (p Policy) Pause(job int64, try int) time.Duration {
	longest := p.MaxDelay
	if longest == 0 {
		longest = max(DefaultMaxDelay, p.delay())
	}
	seconds := min(p.delay()*math.Pow(2, float64(try-1)), longest)
	h := fnv.New32a()
	fmt.Fprintf(h, "%d/%d", job, try)
	factor := 0.8 + 0.4*float64(h.Sum32())/math.MaxUint32
	return time.Duration(seconds * factor * float64(time.Second))
}

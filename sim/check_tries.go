package sim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"lockstep/core/paths"
)

// tryPolicy is the policy of an opcode in its input, read without the code that the daemon and the process read it with.
type tryPolicy struct {
	times           int // further tries; 0: there is no policy
	delay, maxDelay float64
	on              []string // causes; none: every failure of the command
}

func policyIn(input json.RawMessage) tryPolicy {
	if !bytes.Contains(input, []byte(`"retry"`)) {
		return tryPolicy{}
	}
	var op struct{ Retry json.RawMessage }
	if json.Unmarshal(input, &op) != nil || len(op.Retry) == 0 {
		return tryPolicy{}
	}
	p := tryPolicy{delay: 10}
	if json.Unmarshal(op.Retry, &p.times) == nil {
		p.maxDelay = 600
		return p
	}
	var given struct {
		Times    int
		Delay    *float64
		MaxDelay *float64 `json:"max_delay"`
		On       []any
	}
	mustDecode(op.Retry, &given)
	p.times = given.Times
	if given.Delay != nil {
		p.delay = *given.Delay
	}
	if p.maxDelay = max(600, p.delay); given.MaxDelay != nil {
		p.maxDelay = *given.MaxDelay
	}
	for _, cause := range given.On {
		p.on = append(p.on, fmt.Sprint(cause))
	}
	return p
}

const (
	causeLost    = "lost"
	causeFailure = "failure"
)

// names reports whether a try that has ended for a cause is tried again: an exit status, "timeout", "failure" for a signal, or "lost".
func (p tryPolicy) names(cause string) bool {
	switch cause {
	case "":
		return false
	case causeLost:
		return slices.Contains(p.on, causeLost)
	default:
		return len(p.on) == 0 || slices.Contains(p.on, causeFailure) || slices.Contains(p.on, cause)
	}
}

// shortest is the shortest pause after a try, numbered from 1. Files have microseconds.
func (p tryPolicy) shortest(try int) time.Duration {
	seconds := 0.8 * math.Min(p.delay*math.Pow(2, float64(try-1)), p.maxDelay)
	return time.Duration(seconds*float64(time.Second)) - 2*time.Microsecond
}

// causeIn is the cause in the result of a failed command; "" if the opcode has ended for another reason.
func causeIn(result json.RawMessage) string {
	var parts []json.RawMessage
	var args []json.RawMessage
	if json.Unmarshal(result, &parts) != nil || len(parts) != 2 || json.Unmarshal(parts[1], &args) != nil || len(args) != 2 {
		return ""
	}
	var how map[string]any
	if json.Unmarshal(args[1], &how) != nil {
		return ""
	}
	switch {
	case how["exit_status"] != nil:
		return fmt.Sprint(how["exit_status"])
	case how["timeout"] != nil:
		return "timeout"
	case how["signal"] != nil:
		return causeFailure
	}
	return ""
}

// ranTry is a try whose command an observer has seen begin.
type ranTry struct {
	process *process
	start   int64
	cause   string    // how the command has failed; "": it runs, has succeeded, or has died with its process
	failed  bool      // the opcode has failed
	over    time.Time // of the command or its process; zero: not known
}

// ranTries has the tries of opcodes that have a policy.
type ranTries struct {
	of map[tryKey][]*ranTry
	// spoiled are jobs whose files were replaced from outside.
	spoiled map[int64]bool
	// moved are jobs whose time clients have changed: a later try has another time.
	moved map[int64]bool
}

type tryKey struct {
	job int64
	op  int
}

func (t *ranTries) observe(w *World, event any) {
	if t.of == nil {
		t.of, t.spoiled, t.moved = map[tryKey][]*ranTry{}, map[int64]bool{}, map[int64]bool{}
	}
	switch e := event.(type) {
	case opcodeStarted:
		if policyIn(e.input).times > 0 {
			key := tryKey{e.job, e.op}
			t.of[key] = append(t.of[key], &ranTry{process: e.process, start: e.process.start})
		}
	case opcodeEnded:
		if try := t.ofProcess(e.process); try != nil {
			try.cause, try.failed, try.over = causeIn(e.outcome.Result), e.outcome.Failed, w.clock.Now()
		}
	case processEnded:
		if try := t.ofProcess(e.process); try != nil && try.over.IsZero() {
			try.over = w.clock.Now()
		}
	case powerLost:
		for _, tries := range t.of { // the order does not matter
			if last := tries[len(tries)-1]; last.process.life.Over && last.over.IsZero() {
				last.over = w.clock.Now()
			}
		}
	case garbled:
		t.spoiled[e.id] = true
	case timeSent:
		t.moved[e.id] = true
	}
}

func (t *ranTries) ofProcess(p *process) *ranTry {
	if p.shell == nil {
		return nil
	}
	tries := t.of[tryKey{p.job, p.shell.jobproc.CurrentOp()}]
	if len(tries) == 0 || tries[len(tries)-1].process != p {
		return nil
	}
	return tries[len(tries)-1]
}

// checkTries: a command runs once more than its policy says at most. It runs again only after a try that has ended for a cause that the
// policy names, whose process works no more, and no earlier than 80 % of the delay after it. A try is lost if its process has not
// written its end; if a fault has hit the process at that write, either is right.
type checkTries struct{ ranTries }

func (*checkTries) Name() string { return "tries within the policy" }

func (c *checkTries) See(w *World, event any) error {
	c.observe(w, event)
	e, is := event.(opcodeStarted)
	if !is || c.spoiled[e.job] {
		return nil
	}
	policy, tries := policyIn(e.input), c.of[tryKey{e.job, e.op}]
	if len(tries) > policy.times+1 && policy.times > 0 {
		return fmt.Errorf("opcode %d of job %d runs for the %d. time; its policy has %d further tries", e.op, e.job, len(tries), policy.times)
	}
	if len(tries) < 2 {
		return nil
	}
	last := tries[len(tries)-2]
	switch ended := !last.process.endWritten; {
	case last.process.permitted && !last.process.life.Over:
		return fmt.Errorf("opcode %d of job %d is tried again, but the process of start %d works", e.op, e.job, last.start)
	case ended && !policy.names(causeLost):
		return fmt.Errorf("opcode %d of job %d is tried again after a try that was lost with its process", e.op, e.job)
	case !ended && !policy.names(last.cause) && !policy.names(causeLost):
		return fmt.Errorf("opcode %d of job %d is tried again after a try that has ended with %q", e.op, e.job, last.cause)
	}
	if early := last.over.Add(policy.shortest(len(tries) - 1)).Sub(w.clock.Now()); !last.over.IsZero() && early > 0 && !c.moved[e.job] {
		return fmt.Errorf("opcode %d of job %d is tried again %v too early", e.op, e.job, early)
	}
	return nil
}

// checkTryRecords: when a command runs again, a power loss would leave each former run of it in the record of the job, with its result.
type checkTryRecords struct{ ranTries }

func (*checkTryRecords) Name() string { return "tries are recorded" }

// recordedTry is a try in the record of a job.
type recordedTry struct {
	Start  int64
	Op     int
	Result json.RawMessage
}

func recordedTries(content []byte) []recordedTry {
	var r struct{ Tries []recordedTry }
	if json.Unmarshal(content, &r) != nil {
		return nil
	}
	return r.Tries
}

// lostTries is the number of lost tries in the record of a job, by opcode.
func (w *World) lostTries(id int64) map[int]int {
	lost := map[int]int{}
	if f := w.disk.Find(paths.RecordPath(id)); f != nil && bytes.Contains(f.Data, []byte(`"tries"`)) {
		for _, r := range recordedTries(f.Data) {
			if bytes.HasPrefix(r.Result, []byte(`"`)) {
				lost[r.Op]++
			}
		}
	}
	return lost
}

func (c *checkTryRecords) See(w *World, event any) error {
	c.observe(w, event)
	e, is := event.(opcodeStarted)
	if !is || c.spoiled[e.job] {
		return nil
	}
	tries := c.of[tryKey{e.job, e.op}]
	if len(tries) < 2 {
		return nil
	}
	content, _ := w.disk.Surviving(paths.RecordPath(e.job))
	recorded := recordedTries(content)
	for _, try := range tries[:len(tries)-1] {
		i := slices.IndexFunc(recorded, func(r recordedTry) bool { return r.Start == try.start && r.Op == e.op })
		if i < 0 {
			return fmt.Errorf("opcode %d of job %d runs again; the record does not have its try in start %d", e.op, e.job, try.start)
		}
		if cause := causeIn(recorded[i].Result); cause != "" && cause != try.cause {
			return fmt.Errorf("opcode %d of job %d has ended with %q in start %d; the record says %s",
				e.op, e.job, try.cause, try.start, recorded[i].Result)
		}
	}
	return nil
}

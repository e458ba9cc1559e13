package sim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"lockstep/core/job"
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
	switch {
	case cause == "":
		return false
	case cause == causeLost:
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
}

type tryKey struct {
	job int64
	op  int
}

func (t *ranTries) observe(w *World, event any) {
	if t.of == nil {
		t.of, t.spoiled = map[tryKey][]*ranTry{}, map[int64]bool{}
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
	if early := last.over.Add(policy.shortest(len(tries) - 1)).Sub(w.clock.Now()); !last.over.IsZero() && early > 0 {
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

// checkNoTryAfterCancel: no command runs after a client was told that its job is canceled or killed.
type checkNoTryAfterCancel struct{ canceled map[int64]bool }

func (*checkNoTryAfterCancel) Name() string { return "no try after a cancel" }

func (c *checkNoTryAfterCancel) See(_ *World, event any) error {
	switch e := event.(type) {
	case cancelConfirmed:
		if c.canceled == nil {
			c.canceled = map[int64]bool{}
		}
		c.canceled[e.id] = true
	case garbled:
		delete(c.canceled, e.id)
	case opcodeStarted:
		if c.canceled[e.job] {
			return fmt.Errorf("opcode %d of job %d begins, but a client was told that the job is canceled", e.op, e.job)
		}
	}
	return nil
}

// checkTriesUsed: a job that no client has canceled fails for a cause that its policy names only after all tries.
type checkTriesUsed struct {
	ordered map[int64]bool // jobs that a client has canceled, or whose files were replaced from outside
}

func (*checkTriesUsed) Name() string { return "all tries are used" }

func (c *checkTriesUsed) See(w *World, event any) error {
	if c.ordered == nil {
		c.ordered = map[int64]bool{}
	}
	switch e := event.(type) {
	case orderSent:
		c.ordered[e.id] = c.ordered[e.id] || e.cancel
	case garbled:
		c.ordered[e.id] = true
	case fileChanged:
		if e.job != nil && e.job.Status() == job.Error && !c.ordered[e.id] {
			return c.judge(w, e)
		}
	}
	return nil
}

func (c *checkTriesUsed) judge(w *World, e fileChanged) error {
	i := slices.IndexFunc(e.job.Ops, func(op job.Op) bool { return op.Status == job.Error })
	op := &e.job.Ops[i]
	policy := policyIn(op.Input)
	cause := causeIn(op.Result)
	if bytes.HasPrefix(op.Result, []byte(`"detected death of job `+strconv.FormatInt(e.id, 10))) {
		cause = causeLost
	}
	if policy.times == 0 || !policy.names(cause) {
		return nil
	}
	var content []byte
	if f := w.disk.Find(paths.RecordPath(e.id)); f != nil {
		content = f.Data
	}
	tries := 0
	for _, r := range recordedTries(content) {
		if r.Op == i && r.Start != paths.StartOfLivelock(e.job.Livelock) {
			tries++
		}
	}
	if tries < policy.times {
		return fmt.Errorf("job %d has failed with %s after %d tries of opcode %d, which has %d further ones", e.id, op.Result, tries+1, i, policy.times)
	}
	return nil
}

// checkBetweenTries: while a job waits for its next try, nothing of it works, and at rest it has and wants no lock.
type checkBetweenTries struct{ waits map[int64]bool }

func (*checkBetweenTries) Name() string { return "between tries" }

func (c *checkBetweenTries) See(w *World, event any) error {
	if c.waits == nil {
		c.waits = map[int64]bool{}
	}
	switch e := event.(type) {
	case fileChanged:
		delete(c.waits, e.id)
		if e.job == nil || e.job.Status() == job.Queued || !e.job.IsPending() || paths.IsJobLivelock(e.job.Livelock) {
			return nil
		}
		c.waits[e.id] = true
		if w.decider != nil && slices.Contains(w.decider.machine.occupying(), e.id) {
			return fmt.Errorf("job %d waits for its next try, and something of it works", e.id)
		}
	case powerLost:
		clear(c.waits)
	case timePassed:
		if len(c.waits) > 0 && w.effective.quiescentAt+1 == w.stepCount && w.disturbance.recovered(w) {
			return c.rest(w)
		}
	}
	return nil
}

func (c *checkBetweenTries) rest(w *World) error {
	table, err := w.lockState()
	if err != nil {
		return err
	}
	for _, h := range table.Holdings {
		if id := int64(h.Owner.Job); c.waits[id] {
			return fmt.Errorf("job %d waits for its next try, and has locks", id)
		}
	}
	for _, r := range table.Pending {
		if id := int64(r.Owner.Job); c.waits[id] {
			return fmt.Errorf("job %d waits for its next try, and wants locks", id)
		}
	}
	return nil
}

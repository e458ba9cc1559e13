package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"lockstep/core/budget"
	"lockstep/core/wire"
	"lockstep/sim/kernel"
)

// answerMax is how long a client waits for an answer, as luxiclient.Client does.
const answerMax = 180 * time.Second

// client is a user of the daemon: it submits, waits and lists over a connection, and keeps the
// answers.
type client struct {
	world  *World
	number int
	rpc    *rpcClient
	sent   int // number of submissions so far
	// namesJobs: every second submission has jobs with names.
	namesJobs bool
}

// submission is one submission and its answer.
type submission struct {
	client   *client
	number   int
	jobs     [][]OpSpec
	ids      []int64 // acknowledged
	err      error   // refused, or unknown
	answered bool
	resent   bool        // it was sent before, with an unknown outcome
	followed bool        // the client reads all output of the jobs
	at       []time.Time // before which the jobs do not start, zero for none; nil: there are none
	as       *account    // in whose name the client submits; nil: its own
	names    []string    // of the jobs, instead of those that the client makes up; nil: there are none
}

// tag marks the opcodes of the submission's nth job.
func (s *submission) tag(n int) string {
	return fmt.Sprintf("client %d submission %d job %d", s.client.number, s.number, n)
}

// outcome is what a client knows about its submission.
type outcome uint8

const (
	acknowledged outcome = iota // the jobs are recorded
	refused                     // the jobs are not recorded, and never will be
	unknown
)

// outcome returns what the client knows of its submission: acknowledged, refused or unknown. An error is a refusal, unless its text tells
// the client to look.
func (s *submission) outcome() outcome {
	var failed *wire.Error
	var parse *wire.RequestError
	switch {
	case !s.answered:
		return unknown
	case s.err == nil:
		return acknowledged
	case s.resent && errors.Is(s.err, errNoDaemon):
		return unknown
	case errors.Is(s.err, errNoDaemon), errors.As(s.err, &parse):
		return refused
	case errors.As(s.err, &failed) && !strings.Contains(failed.Error(), "look "):
		return refused
	default:
		return unknown
	}
}

func (w *World) newClient() *client {
	c := &client{world: w, number: len(w.clients) + 1}
	c.rpc = &rpcClient{
		world:         w,
		node:          w.nodes[len(w.clients)%len(w.nodes)],
		thread:        kernel.NewThread(w.kernel, w.life),
		followsMaster: w.oracle != nil,
		mayDrop:       true,
		account:       daemonAccount,
		as:            budget.Client{Name: fmt.Sprintf("client-%d", c.number)},
	}
	w.clients = append(w.clients, c)
	return c
}

// namesSubmissions reports whether the client names its submissions, so that it may send them
// again.
func (c *client) namesSubmissions() bool { return c.number%2 == 0 }

// namesJobs reports whether the jobs of the submission have names.
func (s *submission) namesJobs() bool {
	return s.client.namesJobs && (s.client.number+s.number)%2 == 0 ||
		slices.ContainsFunc(s.names, func(name string) bool { return name != "" })
}

// isLockstep reports whether the submission is made with LockstepSubmitJobs.
func (s *submission) isLockstep() bool {
	return s.namesJobs() || s.followed || s.as != nil || s.at != nil
}

// account is the account to which the jobs of the submission belong.
func (s *submission) account() *account {
	if s.as != nil {
		return s.as
	}
	return s.client.rpc.account
}

// name is the name of the submission's nth job; "" for none. Jobs of several submissions share names.
func (s *submission) name(n int) string {
	if s.names != nil {
		return s.names[n]
	}
	if !s.namesJobs() || n == 2 {
		return ""
	}
	return fmt.Sprintf("client-%d.%d", s.client.number, n)
}

// submit sends jobs: one with SubmitJob, several with SubmitManyJobs, and jobs with names or a follower with LockstepSubmitJobs.
func (c *client) submit(jobs [][]OpSpec, done func(*submission)) *submission {
	return c.submitAs(&submission{jobs: jobs}, done)
}

func (c *client) submitAs(s *submission, done func(*submission)) *submission {
	c.sent++
	s.client, s.number = c, c.sent
	if c.world.options.Ganeti {
		s.jobs = ofOneProgram(s.jobs)
	}
	for i, at := range s.at {
		if !at.IsZero() {
			c.world.startTimes[s.tag(i)] = true
		}
	}
	c.world.submissions = append(c.world.submissions, s)
	method, args := s.rpcCall()
	c.tracef("%s %s", method, jobsText(s.jobs))
	c.world.notify(submissionSent{s})
	c.send(s, method, args, done)
	return s
}

// resend sends a submission of unknown outcome again. The daemon creates its jobs once.
func (c *client) resend(s *submission, done func(*submission)) {
	s.answered, s.err, s.resent = false, nil, true
	method, args := s.rpcCall()
	c.tracef("sends submission %d again", s.number)
	c.send(s, method, args, done)
}

// rpcCall is the method and the arguments of the call for the submission.
func (s *submission) rpcCall() (method string, args []any) {
	encoded := make([][]json.RawMessage, len(s.jobs))
	for i, ops := range s.jobs {
		for k, op := range ops {
			if k == 0 && s.client.namesSubmissions() {
				op += OpSpec(fmt.Sprintf(" request=%d.%d", s.client.number, s.number))
			}
			encoded[i] = append(encoded[i], op.Encode(s.tag(i)))
		}
	}
	if s.isLockstep() {
		named := make([]map[string]any, len(encoded))
		for i, ops := range encoded {
			named[i] = map[string]any{"ops": ops, "name": s.name(i), "followed": s.followed}
			if s.at != nil && !s.at[i].IsZero() {
				named[i]["at"] = s.at[i].Format(time.RFC3339Nano)
			}
			if s.as != nil {
				named[i]["as"] = map[string]any{"uid": s.as.uid, "name": s.as.name}
			}
		}
		return "LockstepSubmitJobs", []any{named}
	}
	if len(s.jobs) == 1 {
		return "SubmitJob", []any{encoded[0]}
	}
	return "SubmitManyJobs", []any{encoded}
}

func (c *client) send(s *submission, method string, args []any, done func(*submission)) {
	c.rpc.call(method, args, answerMax, func(result json.RawMessage, err error) {
		s.answered, s.err = true, err
		if err == nil {
			s.ids = s.submittedIDs(result)
		}
		c.tracefResult(s.ids, err)
		c.world.notify(submissionAnswered{s})
		if done != nil {
			done(s)
		}
	})
}

func (s *submission) submittedIDs(result json.RawMessage) []int64 {
	if s.isLockstep() {
		var ids []int64
		mustDecode(result, &ids)
		return ids
	}
	if len(s.jobs) == 1 {
		var id int64
		mustDecode(result, &id)
		return []int64{id}
	}
	var rows [][2]any
	mustDecode(result, &rows)
	ids := make([]int64, len(rows))
	for i, row := range rows {
		ids[i] = int64(row[1].(float64))
	}
	return ids
}

// mustDecode panics if an answer does not have the form of the protocol.
func mustDecode(result json.RawMessage, into any) {
	if err := json.Unmarshal(result, into); err != nil {
		panic(fmt.Errorf("sim: answer %s: %w", result, err))
	}
}

// awaitChange waits once until a job's status differs from previous, and passes the new status to done. Without a change it is previous
// again.
func (c *client) awaitChange(id int64, previous string, done func(status string, err error)) {
	var known any
	if previous != "" {
		known = []string{previous}
	}
	// Longer than the server's own bound. Log lines are not asked for.
	const seconds, allLogs = 120, 1 << 40
	// After so long, which is the server's bound and a minute, "nochange" says that the server could not look at the job.
	const unseenAfter = 149 * time.Second
	asked, began := c.world.Steps(), c.world.clock.Now()
	c.rpc.call("WaitForJobChange", []any{id, []string{"status"}, known, allLogs, seconds}, answerMax,
		func(result json.RawMessage, err error) {
			status := previous
			same := string(result) == `"nochange"`
			if err == nil && !same {
				var parts []json.RawMessage
				var fields []string
				mustDecode(result, &parts)
				mustDecode(parts[0], &fields)
				status = fields[0]
			}
			if err == nil && status != "" && (!same || c.world.clock.Now().Sub(began) < unseenAfter) {
				c.world.notify(statusReported{client: c, id: id, status: status, asked: asked})
			}
			done(status, err)
		})
}

// awaitEnd waits for a job's end, across restarts of the daemon, and passes the last status to
// done; "" after too many errors.
func (c *client) awaitEnd(id int64, done func(status string)) {
	errors := 0
	var next func(string)
	next = func(previous string) {
		c.awaitChange(id, previous, func(status string, err error) {
			switch {
			case err != nil && errors == errorsMax:
				done("")
			case err != nil:
				errors++
				c.later(time.Second, func() { next(previous) })
			case isFinal(status):
				done(status)
			default:
				next(status)
			}
		})
	}
	next("")
}

// errorsMax is the number of errors after which a client gives up.
const errorsMax = 20

func (c *client) later(d time.Duration, f func()) {
	c.world.clock.After(d, c.world.life, func() { c.rpc.thread.Do(f) })
}

// cancel cancels a job. With kill it also ends the opcode that executes.
func (c *client) cancel(id int64, kill bool, done func()) {
	c.world.notify(orderSent{c, id, true})
	c.rpc.call("CancelJob", []any{id, kill}, answerMax, func(result json.RawMessage, err error) {
		c.answeredOrder("cancel", id, result, err, done)
	})
}

// reprioritise changes the priority of a job, and calls done when that is answered.
func (c *client) reprioritise(id int64, priority int, done func()) {
	c.world.notify(orderSent{c, id, false})
	c.rpc.call("ChangeJobPriority", []any{id, priority}, answerMax, func(result json.RawMessage, err error) {
		c.answeredOrder("priority", id, result, err, done)
	})
}

// setHold holds or releases a job. answered gets whether that was done and the text; known is false without an answer.
func (c *client) setHold(id int64, hold bool, answered func(done, known bool, text string)) {
	c.world.notify(holdSent{id, hold})
	c.rpc.call("LockstepHoldJob", []any{id, hold}, answerMax, func(result json.RawMessage, err error) {
		var done bool
		var text string
		if err == nil {
			var parts []json.RawMessage
			mustDecode(result, &parts)
			mustDecode(parts[0], &done)
			mustDecode(parts[1], &text)
		}
		if hold && err != nil {
			c.world.lostHolds = append(c.world.lostHolds, id)
		}
		c.tracef("hold of job %d, %v: is told: %v %q %v", id, hold, done, text, err)
		c.world.notify(holdAnswered{id, hold, done, text, err})
		answered(done, err == nil, text)
	})
}

// release releases a job, or learns that it has ended. It repeats the order until it knows, at most releasesMax times, and calls done.
func (c *client) release(id int64, done func()) {
	tries := 0
	var next func()
	next = func() {
		c.setHold(id, false, func(released, known bool, text string) {
			tries++
			if !released && (!known || !strings.Contains(text, "not found in queue")) && tries < releasesMax {
				c.later(time.Second, next)
				return
			}
			done()
		})
	}
	next()
}

// releaseLost releases the jobs with a hold whose answer was lost: it may have come into force after the release of the same client, which
// has then used another connection. It reports whether there are any.
func (w *World) releaseLost() bool {
	ids := w.lostHolds
	w.lostHolds = nil
	for _, id := range ids {
		w.newClient().release(id, func() {})
	}
	return len(ids) > 0
}

// releasesMax bounds the orders of one release, one a second: a job that stays held would not end. A daemon that cannot start
// tries for ten minutes, and the next one again.
const releasesMax = 3600

func (c *client) answeredOrder(order string, id int64, result json.RawMessage, err error, done func()) {
	if err != nil {
		c.tracef("%s of job %d: is told: %v", order, id, err)
	} else {
		var answer [2]any
		mustDecode(result, &answer)
		c.tracef("%s of job %d: is told: %v, %v", order, id, answer[0], answer[1])
		if answer[0] == true && order == "cancel" {
			c.world.notify(cancelConfirmed{id: id})
		}
	}
	c.world.notify(orderAnswered{c, id, err})
	if done != nil {
		done()
	}
}

// archive archives an ended job, and calls done. It repeats the call after an error.
func (c *client) archive(id int64, done func()) {
	c.world.notify(archiveSent{id})
	tries := 0
	var next func()
	next = func() {
		c.rpc.call("ArchiveJob", []any{id}, answerMax, func(result json.RawMessage, err error) {
			c.tracef("archive job %d: is told: %s %v", id, result, err)
			tries++
			if err != nil && tries < errorsMax {
				c.later(time.Second, next)
				return
			}
			done()
		})
	}
	next()
}

// listed is one row of an answer to list.
type listed struct {
	ID     int64
	Status string
}

// list lists all jobs of the queue, and passes them to done.
func (c *client) list(done func([]listed, error)) {
	asked := c.world.Steps()
	c.rpc.call("QueryJobs", []any{nil, []string{"id", "status"}}, answerMax, func(result json.RawMessage, err error) {
		var rows []listed
		if err == nil {
			var raw [][2]any
			mustDecode(result, &raw)
			for _, r := range raw {
				row := listed{ID: int64(r[0].(float64)), Status: r[1].(string)}
				rows = append(rows, row)
				c.world.notify(statusReported{client: c, id: row.ID, status: row.Status, asked: asked})
			}
		}
		done(rows, err)
	})
}

func (c *client) tracef(format string, args ...any) {
	c.world.trace.addf(topicClient, "client %d: %s", c.number, fmt.Sprintf(format, args...))
}

func (c *client) tracefResult(ids []int64, err error) {
	if err != nil {
		c.tracef("is told: %v", err)
		return
	}
	c.tracef("is told: %v", ids)
}

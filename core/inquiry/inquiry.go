// Package inquiry decides which calls of node daemons are made for those who ask what only nodes know (live.md 1).
//
// An inquiry is a set of questions to nodes on behalf of one asker. A question that several inquiries ask at the same time is one
// call. A Tracker holds the inquiries without answer, the calls in progress and those that wait for a free place. It is told
// of new inquiries and of the ends of calls; Next returns the calls to start and to give up, and the inquiries that have ended. It owns
// this state in memory only: after a crash the askers ask again. Pure.
package inquiry

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"lockstep/core/noded"
)

const (
	// AnswerMax is the longest time until an inquiry ends. It is shorter than the minute that Ganeti's clients wait for an answer.
	AnswerMax = 50 * time.Second
	// PlaceMax is how long a call keeps its place while other calls wait for one.
	PlaceMax = 10 * time.Second
)

// ErrLate says that a node daemon has not answered within AnswerMax.
var ErrLate = fmt.Errorf("no answer within %v", AnswerMax)

// ErrGivenUp says that a node daemon has not answered within PlaceMax, and that its place was needed for calls of other nodes.
var ErrGivenUp = fmt.Errorf("no answer within %v, while calls of other nodes wait", PlaceMax)

// Question is a call of a procedure that changes nothing on the node.
type Question struct {
	Node    noded.Node
	Request noded.Request
}

// Answer answers a question. Exactly one of its fields is set.
type Answer struct {
	Value any // as noded.DecodeResult returns it; shared by all who have asked
	Err   error
}

// Start is a call of a node daemon that the caller of Next must begin, and whose end it reports by Done.
type Start struct {
	Call     uint64 // unique in the tracker
	Question Question
}

// Ended is an inquiry with all its answers, in the order of its questions.
type Ended struct {
	Inquiry uint64
	Answers []Answer
}

// Late is a question that was answered without its call: with ErrLate or ErrGivenUp.
type Late struct {
	Question Question
	Err      error
	Report
}

// Decision is what follows from what the tracker was told.
type Decision struct {
	Starts []Start
	GiveUp []uint64  // calls to end; their results have no effect
	Ended  []Ended   // in the order of the inquiries
	Late   []Late    // each call once
	Wake   time.Time // when Next must be called again at the latest; zero: not before it is told something
}

// Tracker decides which questions are sent to node daemons now, which share a call, and which are given up. The zero value is not valid.
type Tracker struct {
	places    int // calls in progress at most
	last      uint64
	inquiries []*asked               // without answer, in the order of Ask
	calls     []*call                // in progress or waiting, in the order of their first question
	slow      map[string]bool        // addresses of nodes whose last call was given up or ended by a time limit; their calls start last
	causes    map[procedureOf]string // of the last failures
}

// procedureOf is one procedure of one node's daemon: failures are logged once for each.
type procedureOf struct {
	address   string
	procedure noded.Procedure
}

// Report says what the log needs to know of the end of a call, so that a node that stays down does not fill it.
type Report struct {
	Asked     bool // an inquiry has got the answer
	New       bool // the call has failed, and the last call of this procedure of the node has not failed for the same cause
	Recovered bool // the call has succeeded, and the last one has failed
}

// asked is an inquiry with the answers that it has so far.
type asked struct {
	id      uint64
	since   time.Time
	answers []Answer
	open    int // questions without answer
}

// call is a call to a node daemon, waiting or in progress, and the questions that its answer is for.
type call struct {
	id       uint64
	question Question
	started  time.Time // zero: it waits
	sent     bool      // the node may have looked at its state already
	waiting  []place
}

// place says where an answer belongs: to a question of an inquiry, by its index.
type place struct {
	of    *asked
	index int
}

// New returns a Tracker, which starts at most this many calls of node daemons at a time. It begins without inquiries: see Ask.
func New(places int) *Tracker {
	return &Tracker{places: places, slow: map[string]bool{}, causes: map[procedureOf]string{}}
}

// Ask begins an inquiry. id is unique among the inquiries without answer. A question joins a call that has the same body and is not sent
// yet. It does not join a sent one: the node may have looked at its state before the question.
func (t *Tracker) Ask(now time.Time, id uint64, questions []Question) {
	a := &asked{id: id, since: now, answers: make([]Answer, len(questions)), open: len(questions)}
	t.inquiries = append(t.inquiries, a)
	joinable := map[key]*call{}
	for _, c := range t.calls {
		if !c.sent {
			joinable[keyOf(c.question)] = c
		}
	}
	for i, q := range questions {
		c := joinable[keyOf(q)]
		if c == nil {
			t.last++
			c = &call{id: t.last, question: q}
			joinable[keyOf(q)] = c
			t.calls = append(t.calls, c)
		}
		c.waiting = append(c.waiting, place{a, i})
	}
}

// key identifies what is asked of which node. Questions with the same key may share a call.
type key struct {
	address   string
	procedure noded.Procedure
	body      string
}

func keyOf(q Question) key {
	return key{q.Node.Address, q.Request.Procedure, string(q.Request.Body)}
}

// Sent tells the tracker that the request of a call is on its way. Later questions do not join the call.
func (t *Tracker) Sent(id uint64) {
	if c := t.find(id); c != nil {
		c.sent = true
	}
}

// Unsent returns the calls in progress whose requests are not known to be on their way.
func (t *Tracker) Unsent() (ids []uint64) {
	for _, c := range t.calls {
		if !c.started.IsZero() && !c.sent {
			ids = append(ids, c.id)
		}
	}
	return ids
}

// Done tells the end of a call. late says that a time limit has ended it. The end of a call that was given up has no
// effect.
func (t *Tracker) Done(id uint64, answer Answer, late bool) Report {
	c := t.find(id)
	if c == nil {
		return Report{}
	}
	t.setSlow(c, late)
	return t.answer(c, answer)
}

func (t *Tracker) setSlow(c *call, slow bool) {
	if slow {
		t.slow[c.question.Node.Address] = true
	} else {
		delete(t.slow, c.question.Node.Address)
	}
}

// report compares the end of a call with that of the last call of the procedure.
func (t *Tracker) report(c *call, err error) Report {
	at := procedureOf{c.question.Node.Address, c.question.Request.Procedure}
	before, failed := t.causes[at]
	r := Report{Asked: len(c.waiting) > 0}
	if err == nil {
		delete(t.causes, at)
		r.Recovered = failed
		return r
	}
	t.causes[at] = err.Error()
	r.New = !failed || before != err.Error()
	return r
}

func (t *Tracker) find(id uint64) *call {
	for _, c := range t.calls {
		if c.id == id {
			return c
		}
	}
	return nil
}

// answer gives an answer to all questions that wait for a call, and removes the call.
func (t *Tracker) answer(c *call, answer Answer) Report {
	r := t.report(c, answer.Err)
	for _, p := range c.waiting {
		p.of.answers[p.index] = answer
		p.of.open--
	}
	t.calls = slices.DeleteFunc(t.calls, func(other *call) bool { return other == c })
	return r
}

// Next decides what the caller does now: the calls to begin and to give up, the complete inquiries to answer, and when to call Next again
// at the latest.
func (t *Tracker) Next(now time.Time) Decision {
	var d Decision
	t.expire(now, &d)
	t.giveUp(now, &d)
	t.start(now, &d)
	t.inquiries = slices.DeleteFunc(t.inquiries, func(a *asked) bool {
		if a.open == 0 {
			d.Ended = append(d.Ended, Ended{a.id, a.answers})
		}
		return a.open == 0
	})
	d.Wake = t.wake()
	return d
}

// expire answers the open questions of inquiries that have lasted too long. Their calls that have begun continue while they have a place;
// those that have not begun, and of which each asker has gone, are dropped.
func (t *Tracker) expire(now time.Time, d *Decision) {
	for _, c := range t.calls {
		isLate := func(p place) bool { return now.Sub(p.of.since) >= AnswerMax }
		if !slices.ContainsFunc(c.waiting, isLate) {
			continue
		}
		d.Late = append(d.Late, Late{c.question, ErrLate, t.report(c, ErrLate)})
		c.waiting = slices.DeleteFunc(c.waiting, func(p place) bool {
			if !isLate(p) {
				return false
			}
			p.of.answers[p.index] = Answer{Err: ErrLate}
			p.of.open--
			return true
		})
	}
	t.calls = slices.DeleteFunc(t.calls, func(c *call) bool { return c.started.IsZero() && len(c.waiting) == 0 })
}

// giveUp frees places for calls that wait: it gives up running calls older than PlaceMax, the oldest first, no more than are needed.
// Their questions are answered with ErrGivenUp, and their nodes count as slow.
func (t *Tracker) giveUp(now time.Time, d *Decision) {
	running, waiting := t.split()
	slices.SortStableFunc(running, func(a, b *call) int { return a.started.Compare(b.started) })
	for need := len(waiting) - (t.places - len(running)); need > 0 && len(running) > 0; need-- {
		c := running[0]
		if now.Sub(c.started) < PlaceMax {
			return
		}
		running = running[1:]
		t.setSlow(c, true)
		d.GiveUp = append(d.GiveUp, c.id)
		d.Late = append(d.Late, Late{c.question, ErrGivenUp, t.answer(c, Answer{Err: ErrGivenUp})})
	}
}

// start starts calls while there are places: those of slow nodes last.
func (t *Tracker) start(now time.Time, d *Decision) {
	running, waiting := t.split()
	free := t.places - len(running)
	slices.SortStableFunc(waiting, func(a, b *call) int { return cmp.Compare(t.rank(a), t.rank(b)) })
	for _, c := range waiting[:min(max(free, 0), len(waiting))] {
		c.started = now
		d.Starts = append(d.Starts, Start{c.id, c.question})
	}
}

// rank orders waiting calls: those to slow nodes (1) come after the others (0).
func (t *Tracker) rank(c *call) int {
	if t.slow[c.question.Node.Address] {
		return 1
	}
	return 0
}

func (t *Tracker) split() (running, waiting []*call) {
	for _, c := range t.calls {
		if c.started.IsZero() {
			waiting = append(waiting, c)
		} else {
			running = append(running, c)
		}
	}
	return running, waiting
}

// wake is the next time at which an inquiry or a place expires.
func (t *Tracker) wake() (at time.Time) {
	earliest := func(other time.Time) {
		if at.IsZero() || other.Before(at) {
			at = other
		}
	}
	for _, a := range t.inquiries {
		earliest(a.since.Add(AnswerMax))
	}
	running, waiting := t.split()
	if len(waiting) > 0 {
		for _, c := range running {
			earliest(c.started.Add(PlaceMax))
		}
	}
	return at
}

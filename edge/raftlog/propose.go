package raftlog

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"lockstep/messages"
)

const (
	// proposalsMax and proposedBytesMax bound what waits for raft, or for a majority.
	proposalsMax     = 8192
	proposedBytesMax = 4 * MaxEntry
)

// proposals are entries on their way: one goroutine hands them to raft, in their
// order, another waits for what becomes of them.
type proposals struct {
	log     *Log
	timeout time.Duration // for raft to take one in

	mu      sync.Mutex
	queue   []proposal
	waiting int // proposals, in the queue and with raft
	bytes   int // of these
	closed  bool

	wake   chan struct{} // capacity 1
	handed chan handed
}

type proposal struct {
	number uint64
	entry  []byte
	mark   chan struct{} // not nil: it is no proposal, but closed when its turn comes
}

type handed struct {
	proposal
	future raft.ApplyFuture
}

func newProposals(l *Log, timeout time.Duration) *proposals {
	return &proposals{log: l, timeout: timeout, wake: make(chan struct{}, 1), handed: make(chan handed, proposalsMax)}
}

func (p *proposals) propose(number uint64, entry []byte) {
	if text := p.enter(number, entry); text != "" {
		p.refuse(number, false, text)
	}
}

// enter queues a proposal, or says why not.
func (p *proposals) enter(number uint64, entry []byte) (refusal string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return errClosed.Error()
	case len(entry) > MaxEntry:
		return fmt.Sprintf("the change has %d bytes, more than can be replicated at once (%d)", len(entry), MaxEntry)
	case p.waiting >= proposalsMax || p.bytes+len(entry) > proposedBytesMax:
		return fmt.Sprintf("%d changes wait for being replicated already; try again later", p.waiting)
	}
	p.queue = append(p.queue, proposal{number: number, entry: entry})
	p.waiting++
	p.bytes += len(entry)
	p.poke()
	return ""
}

func (p *proposals) poke() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// mark returns a channel that is closed when everything that was proposed before is with
// raft, or never will be.
func (p *proposals) mark() <-chan struct{} {
	mark := make(chan struct{})
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		close(mark)
		return mark
	}
	p.queue = append(p.queue, proposal{mark: mark})
	p.poke()
	return mark
}

// close refuses what raft has not been given.
func (p *proposals) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.poke()
}

// hand gives proposals to raft until the end.
func (p *proposals) hand() {
	defer close(p.handed)
	for range p.wake {
		p.mu.Lock()
		queue := p.queue
		p.queue = nil
		p.mu.Unlock()
		for _, next := range queue {
			p.handOne(next)
		}
		p.mu.Lock()
		over := p.closed && len(p.queue) == 0
		p.mu.Unlock()
		if over {
			return
		}
	}
}

func (p *proposals) handOne(next proposal) {
	if next.mark != nil {
		close(next.mark)
		return
	}
	r := p.log.raft.Load()
	p.mu.Lock()
	closed := p.closed
	p.mu.Unlock()
	switch {
	case closed:
		p.settle(next)
		p.refuse(next.number, false, errClosed.Error())
	case r == nil:
		p.settle(next)
		p.refuse(next.number, false, raft.ErrNotLeader.Error())
	default:
		p.handed <- handed{proposal: next, future: r.Apply(next.entry, p.timeout)}
	}
}

// await says what has become of those that raft was given. That one is committed and
// applied here the actor knows already.
func (p *proposals) await() {
	for h := range p.handed {
		err := h.future.Error()
		unknown := uncertain(err)
		if err == nil {
			err, _ = h.future.Response().(error)
			unknown = true
		}
		p.settle(h.proposal)
		if err != nil {
			p.refuse(h.number, unknown, err.Error())
		}
	}
}

// uncertain is whether an entry that failed so may be committed yet. It never will be
// if raft has not written it to its log.
func uncertain(err error) bool {
	for _, certain := range []error{raft.ErrNotLeader, raft.ErrEnqueueTimeout, raft.ErrLeadershipTransferInProgress} {
		if errors.Is(err, certain) {
			return false
		}
	}
	return true
}

func (p *proposals) settle(done proposal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting--
	p.bytes -= len(done.entry)
}

func (p *proposals) refuse(number uint64, unknown bool, text string) {
	p.log.desk.say(&messages.LogRefused{Number: number, Unknown: unknown, Failure: failure(text)})
}

func failure(text string) *messages.Failure {
	return &messages.Failure{Class: "GenericError", Text: text}
}

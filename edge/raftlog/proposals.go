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
	// proposalsMax and proposalBytesMax bound the proposals that wait for raft or for a
	// majority.
	proposalsMax     = 8192
	proposalBytesMax = 4 * MaxEntry
)

// proposals are entries that are not committed yet. One goroutine submits them to raft in
// their order, another waits for raft's results.
type proposals struct {
	log     *Log
	timeout time.Duration // for raft to accept one

	mu           sync.Mutex
	queue        []proposal
	pending      int // number of proposals, in the queue and with raft
	pendingBytes int // total size of these in bytes
	closed       bool

	wakeup   chan struct{} // capacity 1
	inFlight chan inFlight
}

type proposal struct {
	number  uint64
	entry   []byte
	barrier chan struct{} // not nil: this is a barrier and no proposal; closed when all before it are submitted
}

type inFlight struct {
	proposal
	future raft.ApplyFuture
}

func newProposals(l *Log, timeout time.Duration) *proposals {
	return &proposals{log: l, timeout: timeout, wakeup: make(chan struct{}, 1), inFlight: make(chan inFlight, proposalsMax)}
}

func (p *proposals) propose(number uint64, entry []byte) {
	if text := p.enqueue(number, entry); text != "" {
		p.refuse(number, false, text)
	}
}

// enqueue queues a proposal, or returns the reason of the refusal; "": it is queued.
func (p *proposals) enqueue(number uint64, entry []byte) (refusal string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return errClosed.Error()
	case len(entry) > MaxEntry:
		return fmt.Sprintf("the change has %d bytes, more than can be replicated at once (%d)", len(entry), MaxEntry)
	case p.pending >= proposalsMax || p.pendingBytes+len(entry) > proposalBytesMax:
		return fmt.Sprintf("%d changes wait for being replicated already; try again later", p.pending)
	}
	p.queue = append(p.queue, proposal{number: number, entry: entry})
	p.pending++
	p.pendingBytes += len(entry)
	p.wake()
	return ""
}

func (p *proposals) wake() {
	select {
	case p.wakeup <- struct{}{}:
	default:
	}
}

// barrier returns a channel that is closed when every earlier proposal is submitted to raft
// or refused.
func (p *proposals) barrier() <-chan struct{} {
	barrier := make(chan struct{})
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		close(barrier)
		return barrier
	}
	p.queue = append(p.queue, proposal{barrier: barrier})
	p.wake()
	return barrier
}

// close refuses the proposals that are not submitted to raft, and later ones. submitLoop ends after it.
func (p *proposals) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.wake()
}

// submitLoop submits proposals to raft in their order until the log is closed.
func (p *proposals) submitLoop() {
	defer close(p.inFlight)
	for range p.wakeup {
		p.mu.Lock()
		queue := p.queue
		p.queue = nil
		p.mu.Unlock()
		for _, next := range queue {
			p.submit(next)
		}
		p.mu.Lock()
		done := p.closed && len(p.queue) == 0
		p.mu.Unlock()
		if done {
			return
		}
	}
}

func (p *proposals) submit(next proposal) {
	if next.barrier != nil {
		close(next.barrier)
		return
	}
	r := p.log.raft.Load()
	p.mu.Lock()
	closed := p.closed
	p.mu.Unlock()
	switch {
	case closed:
		p.removePending(next)
		p.refuse(next.number, false, errClosed.Error())
	case r == nil:
		p.removePending(next)
		p.refuse(next.number, false, raft.ErrNotLeader.Error())
	default:
		p.inFlight <- inFlight{proposal: next, future: r.Apply(next.entry, p.timeout)}
	}
}

// awaitResults reports the failure of submitted proposals to the actor. Of a committed one
// the actor knows already, because it has applied the entry.
func (p *proposals) awaitResults() {
	for sent := range p.inFlight {
		err := sent.future.Error()
		unknown := mayBeCommitted(err)
		if err == nil {
			err, _ = sent.future.Response().(error)
			unknown = true
		}
		p.removePending(sent.proposal)
		if err != nil {
			p.refuse(sent.number, unknown, err.Error())
		}
	}
}

// mayBeCommitted reports whether an entry that failed with err may still be committed. It
// never is if raft has not written it to its log.
func mayBeCommitted(err error) bool {
	for _, certain := range []error{raft.ErrNotLeader, raft.ErrEnqueueTimeout, raft.ErrLeadershipTransferInProgress} {
		if errors.Is(err, certain) {
			return false
		}
	}
	return true
}

func (p *proposals) removePending(done proposal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pending--
	p.pendingBytes -= len(done.entry)
}

func (p *proposals) refuse(number uint64, unknown bool, text string) {
	p.log.bridge.send(&messages.LogRefused{Number: number, Unknown: unknown, Failure: failure(text)})
}

func failure(text string) *messages.Failure {
	return messages.GenericFailure(text)
}

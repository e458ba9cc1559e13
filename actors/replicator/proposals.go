package replicator

import (
	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/config/journal"
	"lockstep/core/replication"
	"lockstep/messages"
)

// entryMax bounds the content of an entry, in bytes. An entry with a single file may be
// larger.
const entryMax = 1 << 20

// triesMax is how often an entry is offered again that the log refuses. The log may be
// busy, or be handing the leadership over, for some seconds. Then the request fails.
const triesMax = 100

// proposal is one entry on its way to a majority and to this node's disk.
//
// It is not offered to the log before the proposals that must precede it have a
// majority: earlier proposals about one of its files and, if it is the last part of its
// request, all other parts. The log may refuse any of these, which would then be offered
// again and come later; but the last part contains the commit record, such as the serial
// of new jobs, which must not count before the other parts.
type proposal struct {
	number     uint64
	tries      int // refusals by the log
	entry      []byte
	files      []string // paths that the entry changes
	request    *changeRequest
	waitingFor int         // number of proposals that must have a majority before this one is offered
	dependents []*proposal // that wait for this one
}

// changeRequest is a request that is split into proposals.
type changeRequest struct {
	parts     []*proposal
	remaining int // parts that are not on this node's disk
	logged    int // parts that a majority has
	// answerWhenLogged: the request is answered when a majority has all parts, and not
	// only when they are on this node's disk. See messages.WriteFiles.
	answerWhenLogged bool
	failures         []*messages.FileFailure
	// records are those of a change of the configuration, which has one part. refused: they did not fit.
	records []*journal.Record
	refused bool
	done    func(actor.Context, *messages.ChangeFilesResult)
}

// proposals are the entries that this node has proposed since it leads, and that are not
// on its disk.
type proposals struct {
	self    replication.Applier
	offer   func(number uint64, entry []byte) // see Log.Propose
	numbers *sequence
	// oldest is at most the lowest number in byNumber.
	oldest   uint64
	byNumber map[uint64]*proposal
	// touched is the number of proposals in byNumber that change a path. No count is 0.
	touched map[string]int
	// latest is the last proposal about a path, while it has no majority.
	latest map[string]*proposal
}

func newProposals(self replication.Applier, offer func(uint64, []byte), numbers *sequence) *proposals {
	return &proposals{self: self, offer: offer, numbers: numbers, oldest: numbers.last,
		byNumber: map[uint64]*proposal{}, touched: map[string]int{}, latest: map[string]*proposal{}}
}

// add splits changes into entries and offers those that need not wait for an earlier proposal about the same file.
func (s *proposals) add(changes []*messages.FileChange, w *changeRequest) {
	pieces := replication.SplitChanges(changes, entryMax)
	w.remaining = len(pieces)
	for i, piece := range pieces {
		number := s.numbers.next()
		p := &proposal{number: number, request: w, entry: (&messages.LogEntry{
			Origin: s.self.Node, Incarnation: s.self.Incarnation, Number: number, Changes: piece}).Marshal()}
		for _, c := range piece {
			p.files = append(p.files, replication.ChangedPaths(c)...)
		}
		if i == len(pieces)-1 {
			for _, former := range w.parts {
				p.waitFor(former)
			}
		}
		for _, file := range p.files {
			s.touched[file]++
			if former := s.latest[file]; former != nil && former != p {
				p.waitFor(former)
			}
			s.latest[file] = p
		}
		w.parts = append(w.parts, p)
		s.byNumber[p.number] = p
		s.offerIfReady(p)
	}
}

func (p *proposal) waitFor(former *proposal) {
	p.waitingFor++
	former.dependents = append(former.dependents, p)
}

func (s *proposals) offerIfReady(p *proposal) {
	if p.waitingFor == 0 {
		s.offer(p.number, p.entry)
	}
}

// has reports whether a proposal is not on the disk, and was neither failed nor dropped.
func (s *proposals) has(p *proposal) bool { return s.byNumber[p.number] == p }

// touches reports whether a change of a path is on its way.
func (s *proposals) touches(file string) bool { return s.touched[file] > 0 }

// isOpen reports whether a proposal up to that number is not on the disk.
func (s *proposals) isOpen(number uint64) bool {
	for s.oldest <= s.numbers.last && s.byNumber[s.oldest] == nil {
		s.oldest++
	}
	return s.oldest <= number
}

// offerDependents offers the proposals that waited for this one, which has a majority or
// has failed.
func (s *proposals) offerDependents(p *proposal) {
	for _, file := range p.files {
		if s.latest[file] == p {
			delete(s.latest, file)
		}
	}
	dependents := p.dependents
	p.dependents = nil
	for _, next := range dependents {
		if next.waitingFor--; s.has(next) {
			s.offerIfReady(next)
		}
	}
}

// logged notes that a majority has a proposal. Proposals that waited for it are offered, and a request that wants no more is answered. It
// ignores unknown numbers.
func (s *proposals) logged(ctx actor.Context, number uint64) {
	p := s.byNumber[number]
	if p == nil {
		return
	}
	s.offerDependents(p)
	if !p.request.answerWhenLogged {
		return
	}
	if p.request.logged++; p.request.logged == len(p.request.parts) {
		done := p.request.done
		p.request.done = func(actor.Context, *messages.ChangeFilesResult) {} // it is answered
		done(ctx, &messages.ChangeFilesResult{})
	}
}

// finish ends a proposal that is on this node's disk. failures are what its changes have
// met there, by path. A proposal of a former incarnation or mastership is ignored.
func (s *proposals) finish(ctx actor.Context, number uint64, failures map[string]*messages.FileFailure) {
	p := s.byNumber[number]
	if p == nil {
		return
	}
	delete(s.byNumber, number)
	for _, file := range p.files {
		if s.touched[file]--; s.touched[file] == 0 {
			delete(s.touched, file)
		}
		if f := failures[file]; f != nil {
			p.request.failures = append(p.request.failures, f)
		}
	}
	// The last part to reach the disk answers the request, with the failures of all parts.
	if p.request.remaining--; p.request.remaining == 0 {
		p.request.done(ctx, &messages.ChangeFilesResult{Failures: p.request.failures})
	}
}

// refuse notes that the records of a proposal have changed nothing. It ignores unknown numbers.
func (s *proposals) refuse(number uint64) {
	if p := s.byNumber[number]; p != nil {
		p.request.refused = true
	}
}

// records returns the records of a proposal; nil if it has none or is not known.
func (s *proposals) records(number uint64) []*journal.Record {
	if p := s.byNumber[number]; p != nil {
		return p.request.records
	}
	return nil
}

// refused counts a refusal by the log. It returns the proposal; nil if it is unknown.
func (s *proposals) refused(number uint64) *proposal {
	p := s.byNumber[number]
	if p != nil {
		p.tries++
	}
	return p
}

// fail fails a proposal and the last part of its request. The last part has not been
// offered, and must not be committed without the others.
func (s *proposals) fail(ctx actor.Context, p *proposal, why *messages.Failure) {
	failing := []*proposal{p}
	if last := p.request.parts[len(p.request.parts)-1]; last != p && s.has(last) {
		failing = append(failing, last)
	}
	for _, piece := range failing {
		failures := map[string]*messages.FileFailure{}
		for _, file := range piece.files {
			failures[file] = &messages.FileFailure{Path: file, Failure: why}
		}
		s.finish(ctx, piece.number, failures)
	}
	// Only when both have failed: the last part waits for the other one, and would be offered here.
	for _, piece := range failing {
		s.offerDependents(piece)
	}
}

// clear drops all proposals. Their requests are not answered.
func (s *proposals) clear() {
	clear(s.byNumber)
	clear(s.touched)
	clear(s.latest)
}

package queuecopy

import (
	"slices"
	"time"
)

// NodeState says what one master candidate still lacks of the queue, and why.
type NodeState struct {
	Node
	Behind    int       // units that the candidate may lack
	Since     time.Time // of the oldest change that it may lack; zero: it is current
	Comparing bool      // all jobs are being compared, or will be
	Sending   bool      // a call is in progress

	Failures int   // calls that have failed since the last success
	Err      error // of the last failed call; nil if Failures is 0
	FailedAt time.Time
	RetryAt  time.Time // earliest time of the next call; zero if Failures is 0

	Copied        uint64        // units sent since the start
	Median, Worst time.Duration // from a change to its copy, of the last 1000 copies
}

// State returns the states of the candidates by uuid.
func (t *Tracker) State() (nodes []NodeState) {
	for _, p := range t.peers {
		s := NodeState{Node: p.Node, Behind: len(p.marks), Comparing: !p.sweep.at.IsZero(), Sending: len(p.flights) > 0,
			Failures: p.failures, Err: p.err, FailedAt: p.failedAt, RetryAt: p.retryAt, Copied: p.copied, Since: p.sweep.since}
		s.Median, s.Worst = p.lags.medianAndWorst()
		for _, m := range p.marks {
			s.lacks(m)
		}
		for _, f := range p.flights {
			for u, m := range f.taken {
				s.lacks(m)
				if _, both := p.marks[u]; !both {
					s.Behind++
				}
			}
		}
		nodes = append(nodes, s)
	}
	return nodes
}

func (s *NodeState) lacks(m mark) {
	if s.Since.IsZero() || m.since.Before(s.Since) {
		s.Since = m.since
	}
}

// lagsMax is the number of copies whose lags are kept.
const lagsMax = 1000

// lags are the times from a change to its copy, of the last copies.
type lags struct {
	all  []time.Duration
	next int // the oldest one, if there are lagsMax
}

func (l *lags) add(d time.Duration) {
	if len(l.all) < lagsMax {
		l.all = append(l.all, d)
		return
	}
	l.all[l.next] = d
	l.next = (l.next + 1) % lagsMax
}

func (l *lags) medianAndWorst() (median, worst time.Duration) {
	if len(l.all) == 0 {
		return 0, 0
	}
	sorted := slices.Sorted(slices.Values(l.all))
	return sorted[len(sorted)/2], sorted[len(sorted)-1]
}

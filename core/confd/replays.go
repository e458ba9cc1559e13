package confd

import (
	"crypto/sha256"
	"net/netip"
	"time"
)

// Bounds of repeated requests.
const (
	// answersMax is how often one request is answered. Lockstep's client sends it four times in the second of its salt; Ganeti's once.
	answersMax = 5
	// replaysMax is how many requests are remembered. A further one displaces the oldest.
	replaysMax = 1 << 16
	// replayLife is how long a request is remembered: its salt may be ahead of this node's clock, and is valid until it is behind by as much.
	replayLife = (2*ClockSkewMax + 1) * time.Second
)

// Digest identifies the signed content of a request, however its envelope is spelt.
type Digest [16]byte

func digestOf(salt, msg []byte) (d Digest) {
	h := sha256.New()
	_, _ = h.Write(salt) // digits only; never fails
	_, _ = h.Write([]byte{0})
	_, _ = h.Write(msg)
	copy(d[:], h.Sum(nil))
	return d
}

// Replays limits how often a signed request is answered, so that a captured one makes the server send little to a victim. Only requests
// with a valid signature are remembered, so strangers displace none.
type Replays struct {
	seen  map[Digest]*answered
	order []*answered // the oldest at next, which is where a new one goes when there are replaysMax
	next  int
}

// answered is a request that was answered, by its digest: to which address, how often, and when first.
type answered struct {
	digest Digest
	to     netip.Addr
	times  int
	first  time.Time
}

// NewReplays returns a memory of answered requests, which is empty at first.
func NewReplays() *Replays { return &Replays{seen: map[Digest]*answered{}} }

// Admit reports whether a request from an address is to be answered, and counts the answer. A repetition within replayLife is answered to
// the same address only, and at most answersMax times in all. When replaysMax requests are remembered, a new one replaces the oldest.
func (r *Replays) Admit(d Digest, from netip.Addr, now time.Time) bool {
	if a := r.seen[d]; a != nil && now.Sub(a.first) < replayLife {
		a.times++
		return a.to == from && a.times <= answersMax
	}
	a := &answered{d, from, 1, now}
	if len(r.order) < replaysMax {
		r.order = append(r.order, a)
	} else {
		if oldest := r.order[r.next]; r.seen[oldest.digest] == oldest {
			delete(r.seen, oldest.digest)
		}
		r.order[r.next] = a
		r.next = (r.next + 1) % replaysMax
	}
	r.seen[d] = a
	return true
}

// Len is the number of remembered requests.
func (r *Replays) Len() int { return len(r.seen) }

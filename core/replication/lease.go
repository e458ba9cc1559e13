package replication

import (
	"slices"
	"time"

	"lockstep/core/jobproc"
	"lockstep/messages"
)

// Times between nodes (design.md "Master"). Their order prevents two nodes from working at the same time:
//
//	Lease < ElectionMin                       the former master stops before another is elected
//	LeaseProbe + LeaseGrace + a margin <= Fence   (package jobproc)  and its jobs have ended before others start
//	LeaseGrace + Interval + a margin <= Fence     (package guard)    or the guard has ended them
const (
	// Lease is how long a node stays the master after its last message from a majority, unless it has declared other times.
	Lease = 750 * time.Millisecond
	// ElectionMin is the shortest time without messages from the master after which a node becomes a candidate or votes
	// for a candidate, unless that master has declared other times.
	ElectionMin = time.Second
	// Fence is how long a new master waits before it starts a job or grants a lock, if jobs ran on another node.
	Fence = jobproc.Fence
)

// Times are the lease and the heartbeat timeout that are in force while one node leads. Lease < Heartbeat.
type Times struct {
	// Heartbeat is how long a node that follows the leader waits for a message before it becomes a candidate or votes for one.
	Heartbeat time.Duration
	// Lease is how long the leader is certain to be the only one after a majority has heard from it.
	Lease time.Duration
}

// InitialTimes are the times of every term whose leader has declared no others. All versions know them.
func InitialTimes() Times { return Times{Heartbeat: ElectionMin, Lease: Lease} }

// KnownTimes are the shortest times that this version of lockstep can use. Shorter ones than InitialTimes are declared when all members
// know them.
func KnownTimes() Times { return InitialTimes() }

// Declaration makes the entry of the log by which the leader of a term declares the times of that term. names are the members that know
// these times.
func Declaration(term uint64, t Times, names []string) *messages.ElectionTimes {
	return &messages.ElectionTimes{Term: term, HeartbeatMs: t.Heartbeat.Milliseconds(), LeaseMs: t.Lease.Milliseconds(), Names: names}
}

// DeclaredTimes are the times of a declaration. It returns false for a declaration without sense: times that are not above 0, or a
// lease that is not shorter than the heartbeat timeout.
func DeclaredTimes(d *messages.ElectionTimes) (Times, bool) {
	t := Times{Heartbeat: time.Duration(d.GetHeartbeatMs()) * time.Millisecond, Lease: time.Duration(d.GetLeaseMs()) * time.Millisecond}
	return t, d != nil && t.Lease > 0 && t.Lease < t.Heartbeat && t.Heartbeat <= ElectionMin
}

// TimesKnown notes which members of the cluster know shorter election times: the shortest heartbeat timeout, by the name of the member.
// It only delays a declaration: nodes that do not know the declared times are safe beside it, because their heartbeat timeout is longer.
type TimesKnown map[string]time.Duration

// State notes the shortest heartbeat timeout that a member knows, by its own words. A member that states nothing knows InitialTimes.
func (k TimesKnown) State(name string, heartbeat time.Duration) {
	if heartbeat > 0 {
		k[name] = heartbeat
	}
}

// Take notes the names in a declaration, by which a new leader knows what members have stated to former ones.
func (k TimesKnown) Take(d *messages.ElectionTimes) {
	t, ok := DeclaredTimes(d)
	if !ok {
		return
	}
	for _, name := range d.Names {
		if known, stated := k[name]; !stated || known > t.Heartbeat {
			k[name] = t.Heartbeat
		}
	}
}

// Agreed returns the names of all members, sorted, if all know the times; nil: some do not, or there are no shorter times than
// InitialTimes to declare.
func (k TimesKnown) Agreed(t Times, self string, members []*messages.Member) (names []string) {
	if t.Heartbeat >= ElectionMin {
		return nil
	}
	for _, m := range members {
		if known, stated := k[m.Name]; m.Name != self && (!stated || known > t.Heartbeat) {
			return nil
		}
		names = append(names, m.Name)
	}
	slices.Sort(names)
	return names
}

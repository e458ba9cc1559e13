// Package distribution decides which node is sent which state of the configuration, and when (config.md 8).
//
// A Tracker is told of each durable configuration, of the result of each call, and of the answers that wait for distribution.
// It keeps for each node what the node has acknowledged. It sends a node the newest content, at most one call per node and
// kind at a time, and skips states that are no longer the newest. After a failure it repeats with growing pauses. A node that
// is marked offline gets nothing. A node that is added, comes back online or becomes a candidate counts as having nothing.
//
// Only the master sends. A node that is to become the master runs with a configuration that names its predecessor, until a client
// changes it, and the predecessor reads a configuration that names its successor. Neither may send it: the newer state of
// the other one would be overwritten, and on the sender itself too.
//
// A Tracker survives no crash: a new one sends everything to all nodes once. Pure.
package distribution

import (
	"bytes"
	"errors"
	"slices"
	"time"

	"lockstep/core/config/model"
	"lockstep/core/config/ssconf"
	"lockstep/core/noded"
)

const (
	// AwaitMax is how long an answer waits for distribution at most.
	AwaitMax = 5 * time.Second

	retryFirst = 200 * time.Millisecond // pause after the first failure; it doubles with each further one
	retryMax   = time.Minute

	// ssconfPause is the pause between two computations of the ssconf values for which no answer waits. A computation takes
	// some 20 ms with 10,000 instances.
	ssconfPause = 500 * time.Millisecond
	// encodingShare limits the encoding of configurations for which no answer waits: after an encoding the next one begins no
	// sooner than so many times its duration.
	encodingShare    = 9
	encodingPauseMax = 10 * time.Second
)

// target is a node together with what it is sent: config.data, or the ssconf files.
type target struct {
	node string // uuid
	kind Kind
}

// Tracker decides which node daemon is sent which configuration and when, and which answers may leave. Its methods are not safe for
// concurrent use. The caller calls Next after the other methods.
type Tracker struct {
	software string // version of Ganeti's software
	self     string // name of this node; "": this node is the master, whatever the configuration says

	config   *model.Config // the newest one; nil: none yet
	version  uint64        // number of config: 1 for the first one
	contents [kinds]*Content
	revision [kinds]uint64 // of the newest content
	pace     [kinds]time.Time

	nodes    []node // of config, by uuid
	records  map[target]*record
	calls    map[uint64]target // in progress
	lastCall uint64
	awaits   []*await
}

// node is a node of the newest configuration. uuid is its key, which can differ from Node.UUID in an inconsistent configuration.
type node struct {
	uuid string
	*model.Node
}

// record is what is known about a target.
type record struct {
	// record is what the tracker knows of a target: what it has acknowledged, the call to it in progress, and its failures.
	wanted  bool // the node is to get this kind; if false, the record exists until its call ends
	address string

	acked        uint64 // revision that the node has acknowledged; 0: none
	ackedVersion uint64 // number of the newest configuration with that content
	ackedSerial  int64  // its serial number

	call    uint64   // number of the call in progress; 0: none
	sending *Content // by that call
	discard bool     // a success of that call proves nothing

	failures     int       // in a row
	failingSince time.Time // time of the first of them
	err          error     // of the last of them
	failedAt     time.Time // time of the last of them
	retryAt      time.Time // the next call begins no sooner
}

// New returns a Tracker, which decides what is sent to which node, beginning with the first Distribute. software is the version of Ganeti
// that the nodes run, for ssconf. self is the name of this node: nothing is sent of a configuration that names another master. If it is "",
// this node is the master.
func New(software, self string) *Tracker {
	return &Tracker{software: software, self: self, records: map[target]*record{}, calls: map[uint64]target{}}
}

// Distribute makes a durable configuration the newest one, with a version of its own, and updates the targets if the cluster or a node
// differs. It starts no call. For the configuration that is the newest already it does nothing.
func (t *Tracker) Distribute(c *model.Config) {
	if c == t.config {
		return
	}
	changed := t.config == nil || t.config.Cluster != c.Cluster || t.config.Nodes != c.Nodes
	t.config = c
	t.version++
	if changed {
		t.updateTargets()
	}
}

// updateTargets takes the targets from the newest configuration: the nodes that are not offline for ssconf, and the other candidates for
// config.data; none if this node is not the master. The record of a former target goes when its call has ended.
func (t *Tracker) updateTargets() {
	wanted := map[target]string{}
	t.nodes = nil
	master := t.config.Cluster.Value.MasterNode
	sends := t.isMaster()
	for uuid, n := range t.config.Nodes.All() {
		t.nodes = append(t.nodes, node{uuid, &n.Value})
		if n.Value.Offline || !sends {
			continue
		}
		wanted[target{uuid, Ssconf}] = n.Value.PrimaryIP
		// If the configuration has no master, no node is sent config.data. The cluster is being destroyed then, and this node, which may be
		// among the candidates, must not replace its own file.
		if n.Value.MasterCandidate && uuid != master && t.config.Nodes.Has(master) {
			wanted[target{uuid, ConfigFile}] = n.Value.PrimaryIP
		}
	}
	for at, r := range t.records {
		if _, still := wanted[at]; still {
			continue
		}
		r.wanted = false
		if r.call == 0 {
			delete(t.records, at)
		}
	}
	for at, address := range wanted {
		r := t.records[at]
		if r == nil {
			r = &record{}
			t.records[at] = r
		}
		if !r.wanted || r.address != address {
			r.reset()
		}
		r.wanted, r.address = true, address
	}
}

// isMaster reports whether this node may send the newest configuration. It may, too, if its own name is unknown or the configuration
// lacks the master.
func (t *Tracker) isMaster() bool {
	master, found := t.config.Nodes.Get(t.config.Cluster.Value.MasterNode)
	return t.self == "" || !found || master.Value.Name == t.self
}

// reset makes the target count as having nothing and as never having failed; the success of a call in progress proves nothing.
func (r *record) reset() {
	*r = record{wanted: r.wanted, address: r.address, call: r.call, sending: r.sending, discard: r.call != 0}
}

// forget is reset that keeps the failures, so that a failing node stays known as failing.
func (r *record) forget() {
	r.acked, r.ackedVersion, r.ackedSerial, r.discard = 0, 0, 0, r.call != 0
}

// Send is a call of a node daemon that the caller of Next must make, and whose end it reports by Done.
type Send struct {
	Call    uint64 // number for Done
	Node    noded.Node
	Content *Content
}

// Decision is what follows from the events so far.
type Decision struct {
	Sends    []Send
	Released []uint64  // answers that need not wait any longer, in the order of Await
	TooLong  []string  // keys of ssconf values that are too long for the node daemons; they are not sent
	Wake     time.Time // when to call Next again at the latest; zero: after the next event
}

// Next decides what the caller does now: the calls to make, the answers that need not wait longer, and when to call Next again at the
// latest.
func (t *Tracker) Next(now time.Time) Decision {
	var d Decision
	if t.config != nil {
		t.resolveAwaits()
		t.updateContents(now, &d)
		t.send(now, &d)
	}
	t.releaseAwaits(now, &d)
	return d
}

func (d *Decision) wake(at time.Time) {
	if d.Wake.IsZero() || at.Before(d.Wake) {
		d.Wake = at
	}
}

// updateContents takes the contents from the newest configuration when a node can be sent them. While no answer waits, the pace
// limits how often.
func (t *Tracker) updateContents(now time.Time, d *Decision) {
	for kind := range Kind(kinds) {
		content := t.contents[kind]
		if content != nil && content.Version == t.version || !t.isReady(kind, now) {
			continue
		}
		if now.Before(t.pace[kind]) && !t.isAwaited(kind) {
			d.wake(t.pace[kind])
			continue
		}
		if kind == ConfigFile {
			t.revision[kind]++
			t.contents[kind] = configContent(t.config, t.revision[kind], t.version)
			continue
		}
		t.pace[kind] = now.Add(ssconfPause)
		d.TooLong = t.updateSsconf()
	}
}

// updateSsconf computes the ssconf values. If they are those of the last content, nodes that have acknowledged it are current.
func (t *Tracker) updateSsconf() (tooLong []string) {
	request, tooLong := noded.Ssconf(ssconf.Of(t.config, t.software))
	old := t.contents[Ssconf]
	isNew := old == nil || !bytes.Equal(old.Request().Body, request.Body)
	if isNew {
		t.revision[Ssconf]++
	}
	content := &Content{Ssconf, t.revision[Ssconf], t.version, t.config.Serial, func() noded.Request { return request }}
	t.contents[Ssconf] = content
	for at, r := range t.records {
		if at.kind == Ssconf && r.acked == content.Revision {
			r.acknowledge(content)
		}
	}
	if !isNew {
		return nil
	}
	return tooLong
}

func (r *record) acknowledge(c *Content) {
	r.acked, r.ackedVersion, r.ackedSerial = c.Revision, c.Version, c.Serial
}

// isReady reports whether a node can be sent a kind: no call is in progress and no pause.
func (t *Tracker) isReady(kind Kind, now time.Time) bool {
	for at, r := range t.records {
		if at.kind == kind && r.wanted && r.call == 0 && !now.Before(r.retryAt) {
			return true
		}
	}
	return false
}

// send decides the calls: to each target that is idle, lacks the content and is not in a pause.
func (t *Tracker) send(now time.Time, d *Decision) {
	for _, n := range t.nodes {
		for kind := range Kind(kinds) {
			at := target{n.uuid, kind}
			r, content := t.records[at], t.contents[kind]
			if r == nil || !r.wanted || r.call != 0 || content == nil || r.acked == content.Revision {
				continue
			}
			if now.Before(r.retryAt) {
				d.wake(r.retryAt)
				continue
			}
			t.lastCall++
			r.call, r.sending, r.discard = t.lastCall, content, false
			t.calls[r.call] = at
			d.Sends = append(d.Sends, Send{r.call, noded.Node{Name: n.Name, Address: n.PrimaryIP}, content})
		}
	}
}

// Result says how a call of a node daemon has ended, for Done.
type Result struct {
	Err      error         // nil: the node has the content
	Encoding time.Duration // time that the encoding of the content took
}

// Effect says what a result means.
type Effect struct {
	Failures  int           // in a row; 0: the call has succeeded
	Retry     time.Duration // pause before the next call; after a failure
	Recovered bool          // the call has succeeded after failures
	Obsolete  bool          // the node is no longer a target
}

// Done records the result of a call. The result is dropped, and the effect is Obsolete, if the tracker does not know the call any more
// or the node is no longer a target.
func (t *Tracker) Done(now time.Time, call uint64, result Result) Effect {
	at, known := t.calls[call]
	if !known {
		return Effect{Obsolete: true}
	}
	delete(t.calls, call)
	if at.kind == ConfigFile && result.Encoding > 0 {
		pause := min(encodingShare*result.Encoding, encodingPauseMax)
		t.pace[at.kind] = later(t.pace[at.kind], now.Add(pause))
	}
	r := t.records[at]
	content, discard := r.sending, r.discard
	r.call, r.sending, r.discard = 0, nil, false
	switch {
	case !r.wanted:
		delete(t.records, at)
		return Effect{Obsolete: true}
	case result.Err != nil:
		return t.failed(now, at, r, result.Err)
	}
	e := Effect{Recovered: r.failures > 0}
	r.failures, r.err, r.failedAt, r.retryAt = 0, nil, time.Time{}, time.Time{}
	if !discard {
		r.acknowledge(content)
		if newest := t.contents[at.kind]; newest.Revision == content.Revision {
			r.acknowledge(newest)
		}
	}
	return e
}

func (t *Tracker) failed(now time.Time, at target, r *record, err error) Effect {
	if r.failures == 0 {
		r.failingSince = now
	}
	if now.Sub(r.failingSince) >= AwaitMax || errors.As(err, new(*noded.RefusedError)) {
		t.giveUp(at)
	}
	pause := min(retryFirst<<min(r.failures, 16), retryMax)
	r.failures++
	r.err, r.failedAt, r.retryAt = err, now, now.Add(pause)
	return Effect{Failures: r.failures, Retry: pause}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// sortedTargets are the wanted targets of a group in a fixed order; "" stands for all nodes.
func (t *Tracker) sortedTargets(group string) (all []target) {
	for _, n := range t.nodes {
		for kind := range Kind(kinds) {
			at := target{n.uuid, kind}
			if r := t.records[at]; r != nil && r.wanted && (group == "" || n.Group == group) {
				all = append(all, at)
			}
		}
	}
	return slices.Clip(all)
}

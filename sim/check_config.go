package sim

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// checkConfig: a change of the configuration that was acknowledged is in each later read, and in the files after any crash. A refused
// change never appears. Serial numbers do not fall; that of the configuration falls only if a client writes a lower one. An
// address that was taken stays taken until a client frees it, whatever another client has written. No port is allocated twice.
//
// A read is judged by what was acknowledged, or read, before the client sent it. An object is known by serial number and mark.
type checkConfig struct {
	objects map[docKey]*trackedObject
	refused map[string]bool // by mark
	seen    map[string]bool // marks in reads and files
	serial  trackedSerial
	taken   map[string]uint64 // addresses by the step of the answer that they are taken
	freeing map[string]*configSession
	freed   map[string]uint64 // addresses by the step of the answer that they are free
	wanted  map[string]int    // calls for an address by name without a certain outcome
	ports   map[int64]portState
	blind   int // updates of the cluster in transit, which may contain old ports
}

// portState is what is known of a port. The repetition of a call can return a port twice, so a port that was ever returned is not
// judged.
type portState uint8

const (
	portAllocated portState = 1 + iota
	portShared
)

// trackedObject is what is known of an object.
type trackedObject struct {
	floors   []floor
	marks    map[int64]string // by serial number
	leaving  bool             // a removal was sent
	adding   int              // calls that add the object, without a certain outcome
	isVoid   bool             // it was removed while a call could still add it: nothing is known of it
	wasSeen  bool             // in an answer
	removals uint64           // step since which the object is gone; 0: it is there
}

// floor says that from a step on a serial number is at least so high.
type floor struct {
	step   uint64
	serial int64
}

// lowest returns the serial number that answers to calls sent at a step have at least; -1 if the object may not exist then.
func lowest(floors []floor, sent uint64) int64 {
	for i := len(floors) - 1; i >= 0; i-- {
		if floors[i].step <= sent {
			return floors[i].serial
		}
	}
	return -1
}

// trackedSerial is the serial number of the configuration.
type trackedSerial struct {
	floors []floor
	open   int    // whole writes without an answer
	lost   bool   // a whole write may still come
	since  uint64 // step of the last answer to a whole write: earlier reads tell nothing
}

func (*checkConfig) Name() string { return "changes of the configuration are kept" }

func (c *checkConfig) See(w *World, event any) error {
	if c.objects == nil {
		*c = checkConfig{objects: map[docKey]*trackedObject{}, refused: map[string]bool{}, seen: map[string]bool{}, taken: map[string]uint64{},
			freeing: map[string]*configSession{}, freed: map[string]uint64{}, wanted: map[string]int{}, ports: map[int64]portState{}}
	}
	switch e := event.(type) {
	case configChangeSent:
		c.sent(e.change)
	case configChangeAnswered:
		return c.answered(w, e)
	case configSeen:
		return c.read(w, e)
	case objectSeen:
		return c.learn(w, e.key, e.object, e.sent)
	case lockShared:
		return sameObjects(e.first, e.second)
	case ownSeen:
		return c.own(w, e)
	case addressWanted:
		c.wanted[e.ip]++
		delete(c.freed, e.ip)
	case addressSettled:
		if e.is != unknown {
			c.wanted[e.ip]--
		}
	case addressFreed:
		if c.wanted[e.ip] == 0 {
			c.freed[e.ip] = w.stepCount
		}
	case portTaken:
		return c.port(e)
	case portReturned:
		c.ports[e.port] = portShared
	case daemonStarted, powerLost, finished:
		if len(c.objects) == 0 {
			return nil
		}
		if _, isStart := event.(daemonStarted); isStart && w.oracle == nil {
			c.serial.lost, c.serial.since = false, w.stepCount
		}
		kept, err := w.keptNow()
		return c.files(w, kept, err)
	}
	return nil
}

func (c *checkConfig) sent(change *configChange) {
	for _, o := range change.objects {
		t := c.tracked(o.docKey)
		if strings.HasPrefix(change.method, "add") {
			t.adding++
		}
		if o.removed {
			t.leaving, t.isVoid = true, t.isVoid || t.adding > 0
		}
	}
	for _, ip := range change.frees {
		delete(c.taken, ip)
		c.freeing[ip] = change.session
	}
	if change.whole > 0 {
		c.serial.open++
	}
	if change.method == "updateCluster" {
		c.blind++
		maps.DeleteFunc(c.ports, func(_ int64, is portState) bool { return is == portAllocated })
	}
}

func (c *checkConfig) answered(w *World, e configChangeAnswered) error {
	change := e.change
	if change.method == "updateCluster" && e.outcome != unknown {
		c.blind--
	}
	if change.whole > 0 {
		c.serial.open--
		c.serial.lost = c.serial.lost || e.outcome == unknown
		c.serial.floors, c.serial.since = nil, w.stepCount
		if e.outcome == acknowledged {
			c.serial.floors = []floor{{w.stepCount, change.whole + 1}}
		}
	}
	for _, o := range change.objects {
		if strings.HasPrefix(change.method, "add") && e.outcome != unknown {
			c.objects[o.docKey].adding--
		}
	}
	switch e.outcome {
	case refused:
		return c.wasRefused(change)
	case acknowledged:
		for _, ip := range change.commits {
			if !c.mayBeFreed(w, ip) {
				c.taken[ip] = w.stepCount
			}
		}
		if err := c.wasAcknowledged(w, change); err != nil {
			return err
		}
		kept, err := w.keptSurely()
		return c.files(w, kept, err)
	}
	return nil
}

// mayBeFreed reports whether a session may still free an address that it has promised to free.
func (c *checkConfig) mayBeFreed(w *World, ip string) bool {
	s := c.freeing[ip]
	return s != nil && (!s.process.life.Over || w.clock.Elapsed() < s.endedAt+forgottenAfter)
}

// forgottenAfter is the time after which no call of a session that has ended has an effect.
const forgottenAfter = 5 * time.Minute

func (c *checkConfig) wasRefused(change *configChange) error {
	for _, o := range change.objects {
		if o.mark == "" {
			continue
		}
		if c.refused[o.mark] = true; c.seen[o.mark] {
			return fmt.Errorf("%s of session %d is refused; its mark %s was in the configuration", change.method, change.session.number, o.mark)
		}
	}
	return nil
}

func (c *checkConfig) wasAcknowledged(w *World, change *configChange) error {
	for _, o := range change.objects {
		if o.removed {
			if t := c.objects[o.docKey]; t != nil && t.removals == 0 {
				t.removals = w.stepCount
			}
			continue
		}
		t := c.tracked(o.docKey)
		if other, known := t.marks[o.serial]; known && other != o.mark {
			return fmt.Errorf("%s of session %d: %s %s has serial number %d with %s, and an answer says with %s", change.method,
				change.session.number, o.kind, o.uuid, o.serial, other, o.mark)
		}
		t.marks[o.serial] = o.mark
		t.raise(w, o.serial)
	}
	return nil
}

func (c *checkConfig) tracked(key docKey) *trackedObject {
	t := c.objects[key]
	if t == nil {
		t = &trackedObject{marks: map[int64]string{}}
		c.objects[key] = t
	}
	return t
}

func (t *trackedObject) raise(w *World, serial int64) {
	if len(t.floors) == 0 || t.floors[len(t.floors)-1].serial < serial {
		t.floors = append(t.floors, floor{w.stepCount, serial})
	}
}

// read judges the answer to a read of the configuration: no object may be older than what was known when the read was sent.
func (c *checkConfig) read(w *World, e configSeen) error {
	if err := c.judge(w, e.doc, e.sent, true); err != nil {
		return fmt.Errorf("a client reads: %w", err)
	}
	if s := &c.serial; s.open == 0 && !s.lost && e.sent > s.since {
		if low := lowest(s.floors, e.sent); e.doc.Serial < low {
			return fmt.Errorf("a client reads serial number %d of the configuration, which was %d", e.doc.Serial, low)
		}
		if n := len(s.floors); n == 0 || s.floors[n-1].serial < e.doc.Serial {
			s.floors = append(s.floors, floor{w.stepCount, e.doc.Serial})
		}
	}
	return nil
}

// files judges what the files of the configuration say together. err is that of their reading.
func (c *checkConfig) files(w *World, kept *keptConfig, err error) error {
	if err != nil {
		return err
	}
	if kept == nil {
		return fmt.Errorf("the configuration is gone")
	}
	if err := c.judge(w, kept.configDoc, math.MaxUint64, false); err != nil {
		return fmt.Errorf("the files of the configuration: %w", err)
	}
	return nil
}

// judge compares a configuration with what was known at a step. An answer to a client counts as known from then on.
func (c *checkConfig) judge(w *World, doc *configDoc, sent uint64, isAnswer bool) error {
	objects := doc.objects()
	for _, key := range slices.SortedFunc(maps.Keys(objects), compareKeys) {
		o := objects[key]
		if err := c.compare(key, o, sent); err != nil {
			return err
		}
		if isAnswer {
			if err := c.learn(w, key, o, sent); err != nil {
				return err
			}
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(c.objects), compareKeys) {
		t := c.objects[key]
		switch {
		case objects[key] != nil || t.isVoid:
		case !t.leaving && lowest(t.floors, sent) >= 0:
			return fmt.Errorf("%s %s is missing", key.kind, key.uuid)
		case isAnswer && t.removals == 0 && t.leaving && t.wasSeen:
			t.removals = w.stepCount
		}
	}
	return c.addresses(doc, sent)
}

// compare compares an object with what was known of it at a step. The error says that it is older, has another content, was removed or
// was refused.
func (c *checkConfig) compare(key docKey, o *docObject, sent uint64) error {
	if c.refused[o.mark()] {
		return fmt.Errorf("%s %s has %s, and that change was refused", key.kind, key.uuid, o.mark())
	}
	c.seen[o.mark()] = true
	t := c.objects[key]
	if t == nil || t.isVoid {
		return nil
	}
	if t.removals != 0 && t.removals <= sent {
		return fmt.Errorf("%s %s is there, and was removed", key.kind, key.uuid)
	}
	if low := lowest(t.floors, sent); o.Serial < low {
		return fmt.Errorf("%s %s has serial number %d and %s, which was %d with %s", key.kind, key.uuid, o.Serial, o.mark(), low, t.marks[low])
	}
	if mark, known := t.marks[o.Serial]; known && mark != o.mark() {
		return fmt.Errorf("%s %s has serial number %d with %s, which was with %s", key.kind, key.uuid, o.Serial, o.mark(), mark)
	}
	return nil
}

// learn takes an object in an answer as known, if it does not contradict what was known.
func (c *checkConfig) learn(w *World, key docKey, o *docObject, sent uint64) error {
	if err := c.compare(key, o, sent); err != nil {
		return err
	}
	t := c.tracked(key)
	t.marks[o.Serial], t.wasSeen = o.mark(), true
	t.raise(w, o.Serial)
	return nil
}

// addresses checks that the addresses that were taken at a step are in use, and that those freed at that step are not.
func (c *checkConfig) addresses(doc *configDoc, sent uint64) error {
	if doc.Cluster != nil && doc.Cluster.MasterNode == "" {
		return errors.New("the cluster is prepared for its destruction, and no session had the big lock")
	}
	pool := doc.Networks[simNetwork]
	for _, ip := range slices.Sorted(maps.Keys(c.freed)) {
		var last int
		if _, err := fmt.Sscanf(ip, simNetworkForm, &last); err != nil {
			return fmt.Errorf("%s is an address of no network", ip)
		}
		if c.freed[ip] <= sent && pool != nil && last < len(pool.Reservations) && pool.Reservations[last] == '1' {
			return fmt.Errorf("address %s is taken, and was freed", ip)
		}
	}
	for _, ip := range slices.Sorted(maps.Keys(c.taken)) {
		since := c.taken[ip]
		var last int
		if _, err := fmt.Sscanf(ip, simNetworkForm, &last); err != nil {
			return fmt.Errorf("%s is an address of no network", ip)
		}
		if since <= sent && pool != nil && (last >= len(pool.Reservations) || pool.Reservations[last] != '1') {
			return fmt.Errorf("address %s is free, and was taken", ip)
		}
	}
	return nil
}

func (c *checkConfig) port(e portTaken) error {
	is := c.ports[e.port]
	if is == portAllocated {
		return fmt.Errorf("port %d is allocated twice", e.port)
	}
	if is == 0 && c.blind == 0 {
		c.ports[e.port] = portAllocated
	}
	return nil
}

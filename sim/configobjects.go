package sim

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// ownInstance is what a session was told of an instance that no other session changes.
type ownInstance struct {
	uuid    string
	primary string
	disks   []string
	size    int64 // of the disk
	session *configSession
}

// ownPrefix begins the uuids of instances and disks that belong to one session.
const ownPrefix = "own-"

func isOwn(uuid string) bool { return strings.HasPrefix(uuid, ownPrefix) }

// ownInstance adds an instance of the session's own, changes it in random steps, reads it after each, and removes it.
func (s *configSession) ownInstance() {
	s.marks++
	n := s.number*100 + s.marks
	own := &ownInstance{uuid: fmt.Sprintf("%s%d", ownPrefix, n), primary: "n1-uuid", session: s}
	instance := map[string]any{"name": fmt.Sprintf("i%d.example", 500_000+n), "primary_node": own.primary, "os": "noop", "hypervisor": "fake",
		"hvparams": struct{}{}, "beparams": struct{}{}, "osparams": struct{}{}, "osparams_private": struct{}{}, "admin_state": "down",
		"admin_state_source": "admin", "nics": []any{}, "disks": []string{}, "disks_active": false, "serial_no": 1, "ctime": 1, "mtime": 1,
		"uuid": own.uuid, "tags": []string{}}
	to := changedObject{docKey: docKey{kindInstances, own.uuid}, serial: 1}
	change := &configChange{method: "addInstance", objects: []changedObject{to}}
	s.change(change, []any{instance, s.identity(), false}, isNoSuccess, func(a configAnswer) {
		s.ownChanged(own, a, 3+s.rng.IntN(5), func() {})
	})
}

// ownChanged continues after a change of the own instance: set is what an acknowledgement means. After an unknown outcome the instance is
// left alone. left is the number of further changes.
func (s *configSession) ownChanged(own *ownInstance, a configAnswer, left int, set func()) {
	if a.outcome == unknown {
		s.next()
		return
	}
	if a.outcome == acknowledged {
		set()
	}
	s.read(func(doc *configDoc) {
		s.world.notify(ownSeen{own, doc})
		if doc.Instances[own.uuid] == nil { // it could not be added
			s.next()
			return
		}
		s.changeOwn(own, doc, left)
	}, s.next)
}

// changeOwn makes the next change of the own instance, and in the end removes it.
func (s *configSession) changeOwn(own *ownInstance, doc *configDoc, left int) {
	call := func(method string, args []any, isRefusal func(string) bool, set func()) {
		s.call(method, args, isRefusal, func(a configAnswer) { s.ownChanged(own, a, left-1, set) })
	}
	disk := own.uuid + "-disk"
	switch {
	case left <= 0 && len(own.disks) == 0:
		c := &configChange{method: "removeInstance", objects: []changedObject{{docKey: docKey{kindInstances, own.uuid}, removed: true}}}
		s.change(c, []any{own.uuid}, isNoSuccess, func(configAnswer) { s.next() })
	case left <= 0 && slices.Contains(own.disks, disk):
		s.call("detachInstanceDisk", []any{own.uuid, disk}, isNoSuccess, func(configAnswer) { s.next() })
	case s.rng.IntN(3) == 0:
		to := []string{"n1-uuid", "n2-uuid"}[s.rng.IntN(2)]
		call("setInstancePrimaryNode", []any{own.uuid, to}, isNoSuccess, func() { own.primary = to })
	case own.size == 0:
		raw := map[string]any{"dev_type": "plain", "logical_id": []string{"xenvg", disk}, "children": []any{}, "nodes": []string{"n1-uuid"},
			"iv_name": "", "size": 1024, "mode": "rw", "params": struct{}{}, "uuid": disk, "serial_no": 1, "ctime": 1, "mtime": 1}
		call("addInstanceDisk", []any{own.uuid, raw, nil, false}, isNoSuccess, func() { own.size, own.disks = 1024, []string{disk} })
	case s.rng.IntN(2) == 0:
		size := own.size + 1
		object := doc.Disks[disk]
		if object == nil {
			s.next() // the checker has seen it
			return
		}
		call("updateDisk", []any{edited(object.raw, map[string]any{"size": size})}, isBusyNull, func() { own.size = size })
	case len(own.disks) > 0:
		call("detachInstanceDisk", []any{own.uuid, disk}, isNoSuccess, func() { own.disks = nil })
	default:
		call("attachInstanceDisk", []any{own.uuid, disk, nil}, isNoSuccess, func() { own.disks = []string{disk} })
	}
}

// shareLock takes the shared configuration lock and reads twice. Checkers compare the two.
func (s *configSession) shareLock() {
	s.call("lockConfig", []any{s.identity(), true}, isBusyNull, func(a configAnswer) {
		if a.outcome == refused {
			s.next()
			return
		}
		s.saw(a, func(first *configDoc) {
			s.later(time.Duration(s.rng.IntN(1200))*time.Millisecond, func() {
				s.read(func(second *configDoc) {
					if s.world.oracle == nil { // another master does not have the lock
						s.world.notify(lockShared{first, second})
					}
					s.unlock()
				}, s.unlock)
			})
		}, s.unlock)
	})
}

// reserveAddress reserves one of few addresses by name, commits it, and tells the checkers whether it is taken.
func (s *configSession) reserveAddress() {
	ip := fmt.Sprintf(simNetworkForm, 58+s.rng.IntN(3))
	s.world.notify(addressWanted{ip})
	settle := func(is outcome) {
		s.world.notify(addressSettled{ip, is})
		s.next()
	}
	s.call("reserveIp", []any{s.identity(), simNetwork, ip, s.rng.IntN(2) == 0}, never, func(a configAnswer) {
		if a.outcome != acknowledged {
			settle(a.outcome)
			return
		}
		s.world.notify(reservationMade{s, reservedIP, fmt.Sprintf(`["reserve",%s,%s]`, quoted(ip), quoted(simNetwork))})
		s.ips = append(s.ips, ip)
		s.change(&configChange{method: "commitTemporaryIps", commits: slices.Clone(s.ips)}, []any{s.identity()}, never, func(a configAnswer) {
			if a.outcome == acknowledged {
				s.taken = append(s.taken, ip)
				settle(acknowledged)
				return
			}
			settle(unknown) // the reservation may be committed later
		})
	})
}

// releaseAddress gives back an address that the session has taken by name. Without one it takes one.
func (s *configSession) releaseAddress() {
	if len(s.taken) == 0 {
		s.reserveAddress()
		return
	}
	ip := s.taken[0]
	s.taken, s.ips = s.taken[1:], nil
	s.world.notify(reservationsDropping{s}) // the reservation of the address stays after its commit, and would be committed again
	s.call("dropAllReservations", []any{s.identity()}, never, func(a configAnswer) {
		if a.outcome != acknowledged {
			s.next()
			return
		}
		s.call("releaseIp", []any{s.identity(), simNetwork, ip}, never, func(a configAnswer) {
			if a.outcome != acknowledged {
				s.next()
				return
			}
			s.change(&configChange{method: "commitTemporaryIps", frees: []string{ip}}, []any{s.identity()}, never, func(a configAnswer) {
				if a.outcome == acknowledged {
					s.world.notify(addressFreed{ip})
				}
				s.next()
			})
		})
	})
}

// updateNetwork updates the network whose addresses are not used: an update of the other could take back committed addresses
// (config.md 12.18).
func (s *configSession) updateNetwork() {
	s.read(func(doc *configDoc) {
		object := doc.Networks[plainNetwork]
		to := changedObject{docKey: docKey{kindNetworks, plainNetwork}, mark: s.newMark(), serial: object.Serial + 1}
		change := &configChange{method: "updateNetwork", objects: []changedObject{to}}
		tagged := edited(object.raw, map[string]any{"tags": []string{to.mark}})
		s.change(change, []any{tagged}, isBusyNull, func(configAnswer) { s.next() })
	}, s.next)
}

// destroyWithoutLock asks for the destruction of the cluster without the big lock.
func (s *configSession) destroyWithoutLock() {
	s.call("prepareClusterDestruction", []any{s.identity()}, never, func(configAnswer) { s.next() })
}

// sameObjects compares the objects of two reads that no change may separate. The error names the first that differs.
func sameObjects(first, second *configDoc) error {
	a, b := first.objects(), second.objects()
	for _, key := range slices.SortedFunc(maps.Keys(a), compareKeys) {
		was, is := a[key], b[key]
		if is == nil || is.Serial != was.Serial || is.mark() != was.mark() {
			return fmt.Errorf("%s %s has changed while a session had the shared configuration lock: from %s to %s",
				key.kind, key.uuid, objectText(was), objectText(is))
		}
	}
	if len(a) != len(b) {
		return fmt.Errorf("%d objects became %d while a session had the shared configuration lock", len(a), len(b))
	}
	return nil
}

func objectText(o *docObject) string {
	if o == nil {
		return "nothing"
	}
	text, err := json.Marshal([]any{o.Serial, o.mark()})
	if err != nil {
		panic(err)
	}
	return string(text)
}

// own compares an own instance with what its session was told, in the answer to a read and in what a power loss would leave.
func (c *checkConfig) own(w *World, e ownSeen) error {
	kept, err := w.keptSurely()
	if err != nil || kept == nil {
		return err
	}
	for where, doc := range map[string]*configDoc{"an answer": e.doc, "the files": kept.configDoc} {
		i := doc.Instances[e.want.uuid]
		if i == nil {
			if e.want.size > 0 || e.want.primary != "n1-uuid" {
				return fmt.Errorf("in %s there is no instance %s of session %d", where, e.want.uuid, e.want.session.number)
			}
			continue
		}
		var size int64
		if d := doc.Disks[e.want.uuid+"-disk"]; d != nil {
			size = d.Size
		}
		if i.PrimaryNode != e.want.primary || !slices.Equal(i.Disks, e.want.disks) || size != e.want.size {
			return fmt.Errorf("in %s instance %s of session %d has primary node %s, disks %v, size %d; its session was told %s, %v, %d",
				where, e.want.uuid, e.want.session.number, i.PrimaryNode, i.Disks, size, e.want.primary, e.want.disks, e.want.size)
		}
	}
	return nil
}

package sim

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
)

// act makes a random action of a session. The action goes on to the next one.
func (s *configSession) act() {
	actions := []func(){
		s.updateOne, s.updateOne, s.updateOne, s.addInstance, s.addInstance, s.changeInstance, s.changeInstance,
		s.port, s.reserveSome, s.reserveSome, s.reserveSome, s.commit, s.commit, s.holdLock, s.holdLock, s.flush,
	}
	if s.world.options.Seed%5 > 2 { // the other seeds keep their runs
		actions = append(actions,
			s.shareLock, s.shareLock, s.reserveAddress, s.reserveAddress, s.releaseAddress, s.releaseAddress,
			s.ownInstance, s.ownInstance, s.updateNetwork, s.updateNetwork, s.destroyWithoutLock)
	}
	actions[s.rng.IntN(len(actions))]()
}

// updateOne updates one object with a new mark, from a read of it a moment before.
func (s *configSession) updateOne() {
	s.read(func(doc *configDoc) {
		key := s.choose(doc)
		if s.rng.IntN(8) == 0 {
			key = docKey{kindCluster, ""}
		}
		object := doc.objects()[key]
		to := changedObject{docKey: key, mark: s.newMark(), serial: object.Serial + 1}
		method := map[string]string{
			kindCluster:   "updateCluster",
			kindNodes:     "updateNode",
			kindGroups:    "updateNodeGroup",
			kindInstances: "updateInstance",
		}[key.kind]
		s.later(time.Duration(max(0, s.rng.IntN(100)-50))*time.Millisecond, func() {
			change := &configChange{method: method, objects: []changedObject{to}}
			tagged := edited(object.raw, map[string]any{"tags": []string{to.mark}})
			s.change(change, []any{tagged}, isBusyNull, func(configAnswer) { s.next() })
		})
	}, s.next)
}

// choose chooses a node, a group or an instance of a configuration, but none that another session owns.
func (s *configSession) choose(doc *configDoc) docKey {
	var keys []docKey
	for kind, of := range doc.containers() {
		for uuid := range of {
			if kind != kindDisks && kind != kindNetworks && !isOwn(uuid) {
				keys = append(keys, docKey{kind, uuid})
			}
		}
	}
	slices.SortFunc(keys, compareKeys)
	return keys[s.rng.IntN(len(keys))]
}

func compareKeys(a, b docKey) int {
	return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.uuid, b.uuid))
}

// addInstance reserves what an instance needs, and adds it. Without a MAC address it does nothing.
func (s *configSession) addInstance() {
	s.generateMAC(func(mac string) {
		if mac == "" {
			s.next()
			return
		}
		s.generateIP(func(ip string) {
			n := 100_000 + s.number*100 + s.marks
			to := changedObject{docKey: docKey{kindInstances, fmt.Sprintf("instance-%d", n)}, mark: s.newMark(), serial: 1}
			nic := map[string]any{"mac": mac, "nicparams": map[string]any{}, "uuid": fmt.Sprintf("nic-%d", n)}
			if ip != "" {
				nic["ip"], nic["network"] = ip, simNetwork
			}
			instance := map[string]any{"name": fmt.Sprintf("i%d.example", n), "primary_node": "n1-uuid", "os": "noop", "hypervisor": "fake",
				"hvparams": struct{}{}, "beparams": struct{}{}, "osparams": struct{}{}, "osparams_private": struct{}{}, "admin_state": "down",
				"admin_state_source": "admin", "nics": []any{nic}, "disks": []string{}, "disks_active": false, "serial_no": 1, "ctime": 1, "mtime": 1,
				"uuid": to.uuid, "tags": []string{to.mark}}
			change := &configChange{method: "addInstance", objects: []changedObject{to}, commits: slices.Clone(s.ips)}
			s.change(change, []any{instance, s.identity(), false}, isNoSuccess, func(configAnswer) { s.next() })
		})
	})
}

// changeInstance changes status or disks of an instance, or removes it. Without an instance it does nothing.
func (s *configSession) changeInstance() {
	s.read(func(doc *configDoc) {
		uuids := slices.DeleteFunc(slices.Sorted(maps.Keys(doc.Instances)), isOwn)
		if len(uuids) == 0 {
			s.next()
			return
		}
		uuid := uuids[s.rng.IntN(len(uuids))]
		switch s.rng.IntN(4) {
		case 0:
			s.removeInstance(doc, uuid)
		case 1:
			s.addDisk(uuid)
		default:
			s.setStatus(uuid)
		}
	}, s.next)
}

func (s *configSession) removeInstance(doc *configDoc, uuid string) {
	var instance struct {
		NICs []struct{ IP string }
	}
	mustDecode(doc.Instances[uuid].raw, &instance)
	c := &configChange{method: "removeInstance", objects: []changedObject{{docKey: docKey{kindInstances, uuid}, removed: true}}}
	for _, nic := range instance.NICs {
		c.frees = append(c.frees, nic.IP)
	}
	s.change(c, []any{uuid}, isNoSuccess, func(configAnswer) { s.next() })
}

func (s *configSession) setStatus(uuid string) {
	state := []any{"up", "down", nil}[s.rng.IntN(3)]
	c := &configChange{method: "setInstanceStatus"}
	s.change(c, []any{uuid, state, s.rng.IntN(2) == 0, nil}, isBusyNull, func(a configAnswer) {
		if a.outcome == acknowledged {
			o := &docObject{}
			mustDecode(a.result, o)
			s.world.notify(objectSeen{a.sent, docKey{kindInstances, uuid}, o})
		}
		s.next()
	})
}

// addDisk adds a disk to an instance, and often removes it again.
func (s *configSession) addDisk(instance string) {
	s.disks++
	to := changedObject{docKey: docKey{kindDisks, s.diskName()}, serial: 1}
	disk := map[string]any{
		"dev_type":   "plain",
		"logical_id": []string{"xenvg", s.diskName()},
		"children":   []any{},
		"nodes":      []string{"n1-uuid"},
		"iv_name":    "",
		"size":       1024,
		"mode":       "rw",
		"params":     struct{}{},
		"uuid":       to.uuid,
		"serial_no":  1,
		"ctime":      1,
		"mtime":      1,
	}
	addition := &configChange{method: "addInstanceDisk", objects: []changedObject{to}}
	s.change(addition, []any{instance, disk, nil, false}, isNoSuccess, func(a configAnswer) {
		if a.outcome != acknowledged || s.rng.IntN(2) == 0 {
			s.next()
			return
		}
		to.removed = true
		removal := &configChange{method: "removeInstanceDisk", objects: []changedObject{to}}
		s.change(removal, []any{instance, to.uuid}, isNoSuccess, func(configAnswer) { s.next() })
	})
}

// diskName is the name of the session's last disk. It names the session: checkers find its reservations by it.
func (s *configSession) diskName() string { return fmt.Sprintf("%s%d", s.diskPrefix(), s.disks) }

func (s *configSession) diskPrefix() string { return fmt.Sprintf("disk-%d-", s.number) }

// port takes a port, and sometimes gives it back.
func (s *configSession) port() {
	s.call("allocatePort", nil, isBusyNull, func(a configAnswer) {
		if a.outcome != acknowledged {
			s.next()
			return
		}
		var port int64
		mustDecode(a.result, &port)
		s.world.notify(portTaken{port})
		if s.rng.IntN(2) == 0 {
			s.next()
			return
		}
		s.world.notify(portReturned{port})
		s.call("addTcpUdpPort", []any{port}, isNoSuccess, func(configAnswer) { s.next() })
	})
}

// reserveSome reserves something at random. Few names are in use, so that sessions want the same.
func (s *configSession) reserveSome() {
	next := func(string) { s.next() }
	name := func(value string) func(json.RawMessage) string {
		return func(json.RawMessage) string { return quoted(value) }
	}
	switch s.rng.IntN(7) {
	case 0:
		mac := fmt.Sprintf("aa:00:00:00:00:0%d", s.rng.IntN(3))
		s.reserve("reserveMAC", reservedMAC, []any{s.identity(), mac}, name(mac), next)
	case 1, 2:
		lv := fmt.Sprintf("xenvg/lv%d", s.rng.IntN(3))
		s.reserve("reserveLV", reservedLV, []any{s.identity(), lv}, name(lv), next)
	case 3:
		s.reserve("generateDRBDSecret", reservedSecret, []any{s.identity()}, asText, next)
	case 4:
		s.minors()
	case 5:
		s.generateMAC(next)
	default:
		s.generateIP(next)
	}
}

func asText(result json.RawMessage) string { return string(result) }

func (s *configSession) generateMAC(done func(mac string)) {
	s.reserve("generateMAC", reservedMAC, []any{s.identity(), nil}, asText, func(value string) { done(unquoted([]byte(value))) })
}

// generateIP reserves an address, remembers it for a later commit, and passes it to done; "" if there is none.
func (s *configSession) generateIP(done func(ip string)) {
	asAction := func(result json.RawMessage) string {
		return fmt.Sprintf(`["reserve",%s,%s]`, result, quoted(simNetwork))
	}
	s.reserve("generateIp", reservedIP, []any{s.identity(), simNetwork}, asAction, func(value string) {
		if value == "" {
			done("")
			return
		}
		var action []string
		mustDecode([]byte(value), &action)
		s.ips = append(s.ips, action[1])
		done(action[1])
	})
}

// minors reserves DRBD minors for a disk that never comes. The caller is the process at the other end of the connection.
func (s *configSession) minors() {
	s.disks++
	nodes := []string{"n1-uuid", "n2-uuid"}
	s.call("allocateDRBDMinor", []any{s.diskName(), nodes}, never, func(a configAnswer) {
		if a.outcome == acknowledged {
			var minors []int64
			mustDecode(a.result, &minors)
			for i, m := range minors {
				s.world.notify(reservationMade{s, reservedMinor, fmt.Sprintf("%s %d", quoted(nodes[i]), m)})
			}
		}
		if s.rng.IntN(3) > 0 {
			s.next()
			return
		}
		s.world.notify(minorsReleasing{s})
		s.call("releaseDRBDMinors", []any{s.diskName()}, never, func(configAnswer) { s.next() })
	})
}

// commit commits addresses. The call needs no lock: it succeeds while another session holds the configuration lock.
func (s *configSession) commit() {
	s.generateIP(func(string) {
		addresses := slices.Clone(s.ips)
		s.change(&configChange{method: "commitTemporaryIps", commits: addresses}, []any{s.identity()}, never, func(a configAnswer) {
			if a.outcome != acknowledged || len(addresses) == 0 || s.rng.IntN(4) > 0 {
				s.next()
				return
			}
			ip := addresses[0]
			release := &configChange{method: "commitReleaseTemporaryIp", frees: []string{ip}}
			s.change(release, []any{simNetwork, ip}, never, func(configAnswer) { s.next() })
		})
	})
}

func (s *configSession) flush() {
	if s.rng.IntN(2) == 0 {
		s.call("flushConfigGroup", []any{"group-uuid"}, never, func(configAnswer) { s.next() })
		return
	}
	s.call("flushConfig", nil, never, func(configAnswer) { s.next() })
}

// holdLock takes the configuration lock, works for a while, and writes the configuration.
func (s *configSession) holdLock() {
	if s.rng.IntN(6) == 0 {
		s.world.clock.After(time.Duration(s.rng.IntN(1500))*time.Millisecond, s.process.life, func() { s.process.kill("SIGKILL") })
	}
	s.call("lockConfig", []any{s.identity(), false}, isBusyNull, func(a configAnswer) {
		if a.outcome == refused {
			s.next()
			return
		}
		s.saw(a, func(doc *configDoc) {
			s.later(time.Duration(s.rng.IntN(1500))*time.Millisecond, func() { s.writeWhole(doc) })
		}, s.unlock)
	})
}

func (s *configSession) unlock() {
	s.call("unlockConfig", []any{s.identity()}, never, func(configAnswer) { s.next() })
}

// writeWhole writes a configuration that was read under the lock, with changes of some objects. Now and then its serial number is
// lower than the one read.
func (s *configSession) writeWhole(doc *configDoc) {
	c := &configChange{method: "writeConfigAndUnlock", whole: doc.Serial}
	if s.rng.IntN(8) == 0 {
		c.whole = max(1, doc.Serial-s.rng.Int64N(10))
	}
	whole := map[string]any{"serial_no": c.whole}
	of := doc.containers()
	for range 1 + s.rng.IntN(2) {
		key := s.choose(doc)
		o := of[key.kind][key.uuid]
		if slices.ContainsFunc(c.objects, func(other changedObject) bool { return other.docKey == key }) {
			continue
		}
		to := changedObject{docKey: key, mark: s.newMark(), serial: o.Serial + 1}
		c.objects = append(c.objects, to)
		objects := map[string]json.RawMessage{}
		for uuid, other := range of[key.kind] {
			objects[uuid] = other.raw
		}
		objects[key.uuid] = edited(o.raw, map[string]any{"tags": []string{to.mark}, "serial_no": to.serial})
		for _, other := range c.objects {
			if other.kind == key.kind && other.docKey != key {
				objects[other.uuid] = edited(of[other.kind][other.uuid].raw, map[string]any{"tags": []string{other.mark}, "serial_no": other.serial})
			}
		}
		whole[key.kind] = objects
	}
	switch s.rng.IntN(4) {
	case 0:
		c.method = "writeConfig"
		s.change(c, []any{s.identity(), edited(doc.raw, whole)}, never, func(configAnswer) { s.unlock() })
	case 1:
		s.unlock()
	default:
		s.change(c, []any{s.identity(), edited(doc.raw, whole)}, isNoSuccess, func(a configAnswer) {
			if a.is("true") || s.rng.IntN(4) == 0 {
				s.next()
				return
			}
			s.unlock()
		})
	}
}

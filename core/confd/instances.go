package confd

import (
	"maps"
	"slices"
	"strconv"

	"lockstep/core/config/model"
)

// nodeInstances answers NodeInstances: the instances with this primary node, and the other ones with a copy of a disk on it.
func (s *Snapshot) nodeInstances(to *builder, q *query) (serial int64, f *refusal) {
	uuid, node, f := find(s, model.Nodes, "node", q)
	if f != nil {
		return 0, f
	}
	primaries, secondaries := s.instancesOf(uuid)
	to.addString("[")
	s.addInstances(to, primaries)
	to.addString(",")
	s.addInstances(to, secondaries)
	to.addString("]")
	return node.Value.Serial, nil
}

// instancesOf returns the UUIDs of the instances whose primary node this is, and of the other instances that have a DRBD disk on it; both
// sorted.
func (s *Snapshot) instancesOf(node string) (primaries, secondaries []string) {
	primaries = slices.Sorted(s.config.Primaries(node))
	others := map[string]bool{}
	for disk := range s.config.DRBDDisks(node) {
		for uuid := range s.config.DiskUsers(disk) {
			if i, found := s.config.Instances.Get(uuid); found && i.Value.PrimaryNode.Value != node {
				others[uuid] = true
			}
		}
	}
	return primaries, slices.Sorted(maps.Keys(others))
}

func (s *Snapshot) addInstances(to *builder, uuids []string) {
	rules := s.rules()
	to.addString("[")
	for n, uuid := range uuids {
		if n > 0 {
			to.addString(",")
		}
		i, _ := s.config.Instances.Get(uuid)
		to.add(rules.Object(model.Instances.Name, i.JSON()))
	}
	to.addString("]")
}

// instanceDisks answers InstanceDisks. A disk that the configuration does not have is left out.
func (s *Snapshot) instanceDisks(to *builder, q *query) (serial int64, f *refusal) {
	_, instance, f := find(s, model.Instances, "instance", q)
	if f != nil {
		return 0, f
	}
	rules, separator := s.rules(), "["
	for _, uuid := range instance.Value.Disks {
		disk, found := s.config.Disks.Get(uuid)
		if !found {
			continue
		}
		to.addString(separator)
		to.add(rules.Object(model.Disks.Name, disk.JSON()))
		separator = ","
	}
	if separator == "[" {
		to.addString(separator)
	}
	to.addString("]")
	return instance.Value.Serial, nil
}

// nodeDRBD answers NodeDRBD: a row for each DRBD minor of the node, by the UUID of the instance and the index of the disk.
func (s *Snapshot) nodeDRBD(to *builder, q *query) (serial int64, f *refusal) {
	uuid, node, f := find(s, model.Nodes, "node", q)
	if f != nil {
		return 0, f
	}
	primaries, secondaries := s.instancesOf(uuid)
	all := slices.Concat(primaries, secondaries)
	slices.Sort(all)
	rows := 0
	to.addString("[")
	for _, i := range all {
		instance, _ := s.config.Instances.Get(i)
		for index, disk := range instance.Value.Disks {
			top, found := s.config.Disks.Get(disk)
			if !found {
				continue
			}
			top.Value.Each(func(d *model.Disk) {
				minor, peer, is := minorOn(d, uuid)
				if !is {
					return
				}
				if rows++; rows > 1 {
					to.addString(",")
				}
				s.addMinor(to, drbdRow{node.Value.Name, minor, &instance.Value, index, instance.Value.PrimaryNode.Value == uuid, peer})
			})
		}
	}
	to.addString("]")
	return node.Value.Serial, nil
}

// minorOn returns the minor of a disk on a node, and the UUID of the other node. is: the disk is a drbd disk with a half on that node.
func minorOn(d *model.Disk, node string) (minor int64, peer string, is bool) {
	l, is := d.DRBD()
	switch {
	case !is:
		return 0, "", false
	case l.A == node:
		return l.MinorA, l.B, true
	case l.B == node:
		return l.MinorB, l.A, true
	}
	return 0, "", false
}

// drbdRow is a row of the answer to NodeDRBD. peer is a UUID.
type drbdRow struct {
	node      string
	minor     int64
	instance  *model.Instance
	disk      int
	isPrimary bool
	peer      string
}

func (s *Snapshot) addMinor(to *builder, r drbdRow) {
	role := "secondary"
	if r.isPrimary {
		role = "primary"
	}
	peer := r.peer // without a node of that UUID
	if node, found := s.config.Nodes.Get(r.peer); found {
		peer = node.Value.Name
	}
	to.addString("[")
	to.addText(r.node)
	to.addString(",")
	to.addInt(r.minor)
	to.addString(",")
	to.addText(r.instance.Name.Value)
	to.addString(`,"disk/` + strconv.Itoa(r.disk) + `","` + role + `",`)
	to.addText(peer)
	to.addString("]")
}

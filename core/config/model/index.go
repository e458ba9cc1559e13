package model

import (
	"cmp"
	"iter"
	"slices"
	"strconv"
	"strings"

	"lockstep/core/config/tree"
)

// index maps names that objects use (MAC addresses, disks, volumes, …) to the objects. It is a set of keys (see indexKey) and
// is updated with each change, so that no call scans all objects.
type index = tree.Map[struct{}]

// The name spaces of the index.
const (
	spaceMAC    = 'm'
	spaceIP     = 'o' // addresses of the NICs of instances
	spaceDisk   = 'a' // uuids of the disks of instances
	spaceLV     = 'l'
	spaceMinor  = 'd' // of drbd: see minorName
	spaceSecret = 's' // of drbd

	spaceNodeName     = 'n'
	spaceGroupName    = 'g'
	spaceInstanceName = 'i'
	spaceNetworkName  = 'w'
	spaceMember       = 'b' // groups of nodes
	spacePrimary      = 'p' // primary nodes of instances
)

// The name spaces of uuids that are not the key of their object. uuidsOfInstances includes the uuids of NICs.
const (
	uuidsOfNodes     = 'N'
	uuidsOfGroups    = 'G'
	uuidsOfInstances = 'I'
	uuidsOfNetworks  = 'W'
	uuidsOfDisks     = 'D'
)

// separator separates the parts of a key. It does not occur in UTF-8 text.
const separator = "\xff"

func indexKey(space byte, name, owner string) string {
	return string(rune(space)) + name + separator + owner
}

// minorName returns the name of a DRBD minor of a node. Names of one node sort by minor.
func minorName(node string, minor int64) string {
	digits := strconv.FormatInt(minor, 10)
	return node + separator + strings.Repeat("0", max(0, 19-len(digits))) + digits
}

func uuidRef(space byte, key, uuid string, add func(byte, string)) {
	if key != uuid {
		add(space, uuid)
	}
}

func nodeRefs(key string, n *Node, add func(byte, string)) {
	uuidRef(uuidsOfNodes, key, n.UUID, add)
	add(spaceNodeName, n.Name)
	add(spaceMember, n.Group)
}

func groupRefs(key string, g *NodeGroup, add func(byte, string)) {
	uuidRef(uuidsOfGroups, key, g.UUID, add)
	add(spaceGroupName, g.Name)
}

func networkRefs(key string, n *Network, add func(byte, string)) {
	uuidRef(uuidsOfNetworks, key, n.UUID, add)
	add(spaceNetworkName, n.Name)
}

func instanceRefs(key string, i *Instance, add func(byte, string)) {
	uuidRef(uuidsOfInstances, key, i.UUID, add)
	if i.Name.Set {
		add(spaceInstanceName, i.Name.Value)
	}
	if i.PrimaryNode.Set {
		add(spacePrimary, i.PrimaryNode.Value)
	}
	for _, nic := range i.NICs {
		add(spaceMAC, nic.MAC)
		if nic.IP.Set {
			add(spaceIP, nic.IP.Value)
		}
		add(uuidsOfInstances, nic.UUID)
	}
	for _, disk := range i.Disks {
		add(spaceDisk, disk)
	}
}

func diskRefs(key string, top *Disk, add func(byte, string)) {
	uuidRef(uuidsOfDisks, key, top.UUID, add)
	top.Each(func(d *Disk) {
		if lv, is := d.LV(); is {
			add(spaceLV, lv)
		}
		if l, is := d.DRBD(); is {
			add(spaceMinor, minorName(l.A, l.MinorA))
			add(spaceMinor, minorName(l.B, l.MinorB))
			add(spaceSecret, l.Secret)
		}
	})
}

// ref is a name in one of the name spaces in which the configuration must have it once.
type ref struct {
	space byte
	name  string
}

// refsOf returns the names that an object uses, sorted, without duplicates.
func (k *Kind[T]) refsOf(key string, o *Object[T]) []ref {
	if o == nil {
		return nil
	}
	all := make([]ref, 0, 8)
	k.refs(key, &o.Value, func(space byte, name string) { all = append(all, ref{space, name}) })
	slices.SortFunc(all, ref.compare)
	return slices.Compact(all)
}

func (r ref) compare(other ref) int {
	return cmp.Or(cmp.Compare(r.space, other.space), strings.Compare(r.name, other.name))
}

// reindex returns the index with the names that an object uses now in place of those that it has used.
func reindex(x index, key string, old, now []ref) index {
	for _, r := range old {
		if _, still := slices.BinarySearchFunc(now, r, ref.compare); !still {
			x = x.Delete(indexKey(r.space, r.name, key))
		}
	}
	for _, r := range now {
		if _, was := slices.BinarySearchFunc(old, r, ref.compare); !was {
			x = x.Put(indexKey(r.space, r.name, key), struct{}{})
		}
	}
	return x
}

// users iterates over the uuids of the objects that use a name.
func (c *Config) users(space byte, name string) iter.Seq[string] {
	prefix := indexKey(space, name, "")
	return func(yield func(string) bool) {
		for e := range c.index.From(prefix) {
			owner, of := strings.CutPrefix(e, prefix)
			if !of || !yield(owner) {
				return
			}
		}
	}
}

func (c *Config) isUsed(space byte, name string) bool {
	for range c.users(space, name) {
		return true
	}
	return false
}

// MACUsers iterates over the uuids of the instances that have an interface with a MAC address.
func (c *Config) MACUsers(mac string) iter.Seq[string] { return c.users(spaceMAC, mac) }

// AddressUsers iterates over the uuids of the instances that have an interface with an IP address.
func (c *Config) AddressUsers(ip string) iter.Seq[string] { return c.users(spaceIP, ip) }

// DiskUsers iterates over the uuids of the instances that a disk is attached to.
func (c *Config) DiskUsers(disk string) iter.Seq[string] { return c.users(spaceDisk, disk) }

// HasLV reports whether a disk or a child of a disk is a logical volume.
func (c *Config) HasLV(lv string) bool { return c.isUsed(spaceLV, lv) }

// HasSecret reports whether a disk has a DRBD secret.
func (c *Config) HasSecret(secret string) bool { return c.isUsed(spaceSecret, secret) }

// Minors iterates over the DRBD minors of a node in ascending order, with the uuid of the disk. A minor of several disks occurs once per
// disk; negative minors are left out.
func (c *Config) Minors(node string) iter.Seq2[int64, string] {
	prefix := string(rune(spaceMinor)) + node + separator
	return func(yield func(int64, string) bool) {
		for e := range c.index.From(prefix) {
			rest, of := strings.CutPrefix(e, prefix)
			if !of {
				return
			}
			digits, disk, _ := strings.Cut(rest, separator)
			minor, err := strconv.ParseInt(digits, 10, 64)
			if err != nil {
				continue // a negative minor blocks no other
			}
			if !yield(minor, disk) {
				return
			}
		}
	}
}

// InUse reports whether a uuid belongs to an object or is the name of a logical volume (config.md 4.3).
func (c *Config) InUse(uuid string) bool {
	for _, space := range []byte{uuidsOfNodes, uuidsOfGroups, uuidsOfInstances, uuidsOfNetworks, uuidsOfDisks} {
		if c.isUsed(space, uuid) {
			return true
		}
	}
	return c.Nodes.Has(uuid) || c.Groups.Has(uuid) || c.Instances.Has(uuid) || c.Networks.Has(uuid) || c.Disks.Has(uuid) ||
		c.Cluster.Value.UUID == uuid || c.HasLV(uuid)
}

package config

import (
	"maps"
	"slices"
	"strings"
)

// Node is a machine. The lists are of instance names, sorted.
type Node struct {
	Name, UUID  string
	Group       string   // UUID; "" if the configuration has none
	Primaries   []string // instances whose primary node this is
	Secondaries []string // instances with a copy of their disks, but not their primary node, here
}

// Group is a node group. The lists are sorted.
type Group struct {
	Name, UUID     string
	Nodes          []string // UUIDs of its members
	Instances      []string // names of the instances whose primary node is a member
	InstanceNodes  []string // UUIDs of the nodes of those instances, whatever their group
	InstanceGroups []string // UUIDs of the groups of these nodes
}

// Instance is a virtual machine. The lists are of UUIDs, sorted.
type Instance struct {
	Name, UUID string
	Template   string   // the disk template, "diskless" for no disks
	Primary    string   // UUID of the primary node, "" while there is none
	Nodes      []string // the primary and the secondary nodes
	Groups     []string // of Nodes
	Networks   []string
}

// Network is an IP network.
type Network struct{ Name, UUID string }

// Resources is the resources of a cluster and their relations: the objects to which names in opcodes refer, and the
// nodes, groups and networks of an instance, a node or a group. It is immutable, so any number of goroutines may use
// it. nil is empty. The caller must not change the results of lookups.
type Resources struct {
	master    string
	nodes     map[string]*Node // all four maps are by UUID, by name and by unambiguous short name, if there is one
	groups    map[string]*Group
	instances map[string]*Instance
	networks  map[string]*Network
}

// Master is the UUID of the master node, "" if it is unknown.
func (r *Resources) Master() string {
	if r == nil {
		return ""
	}
	return r.master
}

// Node finds a node by UUID or name. As in Ganeti, "node1" means "node1.example.org" if no other node has that short
// name.
func (r *Resources) Node(name string) (*Node, bool) {
	if r == nil {
		return nil, false
	}
	n := r.nodes[name]
	return n, n != nil
}

// Group finds a node group by UUID or name.
func (r *Resources) Group(name string) (*Group, bool) {
	if r == nil {
		return nil, false
	}
	g := r.groups[name]
	return g, g != nil
}

// Instance finds an instance by UUID, or by name as Node does.
func (r *Resources) Instance(name string) (*Instance, bool) {
	if r == nil {
		return nil, false
	}
	i := r.instances[name]
	return i, i != nil
}

// Network finds a network by UUID or name.
func (r *Resources) Network(name string) (*Network, bool) {
	if r == nil {
		return nil, false
	}
	n := r.networks[name]
	return n, n != nil
}

// ExternallyMirrored reports whether any node can reach the disks of a disk template, so that an instance may move to
// any node. This includes "diskless".
func ExternallyMirrored(template string) bool {
	switch template {
	case "diskless", "sharedfile", "blockdev", "rbd", "ext", "gluster":
		return true
	}
	return false
}

// addShortNames adds the prefixes of names that end before a dot. A prefix of several names is omitted, and no prefix
// replaces a complete name or a UUID.
func addShortNames[T any](byName map[string]*T, all map[string]*T) {
	short := map[string]*T{}
	for name, object := range byName {
		for end := strings.LastIndexByte(name, '.'); end > 0; end = strings.LastIndexByte(name[:end], '.') {
			if _, taken := short[name[:end]]; taken {
				object = nil // its shorter prefixes are ambiguous, too
			}
			short[name[:end]] = object
		}
	}
	for name, object := range short {
		if _, known := all[name]; !known && object != nil {
			all[name] = object
		}
	}
}

// sortedSet is the names, sorted, without repetitions and without the empty name; nil if there are none.
func sortedSet(names ...string) []string {
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) > 0 && names[0] == "" {
		names = names[1:]
	}
	if len(names) == 0 {
		return nil
	}
	return slices.Clip(names)
}

// linkInstances visits all instances once and sets the lists of nodes and groups.
func (r *Resources) linkInstances(instances map[string]*Instance) {
	for _, name := range slices.Sorted(maps.Keys(instances)) { // sorted, so that the resulting lists of names are sorted
		i := instances[name]
		var groups []string
		for _, uuid := range i.Nodes {
			n, known := r.Node(uuid)
			if !known {
				continue
			}
			groups = append(groups, n.Group)
			if uuid == i.Primary {
				n.Primaries = append(n.Primaries, i.Name)
			} else {
				n.Secondaries = append(n.Secondaries, i.Name)
			}
		}
		i.Groups = sortedSet(groups...)
		primary, known := r.Node(i.Primary)
		if !known {
			continue
		}
		if g, known := r.Group(primary.Group); known {
			g.Instances = append(g.Instances, i.Name)
			g.InstanceNodes = append(g.InstanceNodes, i.Nodes...)
			g.InstanceGroups = append(g.InstanceGroups, i.Groups...)
		}
	}
	for _, g := range r.groups {
		g.InstanceNodes, g.InstanceGroups = sortedSet(g.InstanceNodes...), sortedSet(g.InstanceGroups...)
	}
}

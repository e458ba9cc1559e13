package config

import (
	"iter"
	"slices"

	"lockstep/core/config/model"
)

// Resources answers which objects of a configuration the names in opcodes mean, and the relations of nodes, groups, networks
// and instances. It is immutable, so any number of goroutines may use it. nil is empty. A lookup costs O(log n); a list of a
// node or a group costs O(log n) for each of its instances.
type Resources struct{ config *model.Config }

// ResourcesOf returns the resources of a configuration. It computes nothing: the configuration answers each lookup.
func ResourcesOf(c *model.Config) *Resources { return &Resources{c} }

// Node is a machine.
type Node struct {
	Name, UUID string
	Group      string // UUID
	config     *model.Config
}

// Group is a node group.
type Group struct {
	Name, UUID string
	config     *model.Config
}

// Instance is a virtual machine. The lists are of UUIDs, sorted.
type Instance struct {
	Name, UUID string
	Template   string   // the type of the first disk, "diskless" without one
	Primary    string   // UUID of the primary node, "" while there is none
	Nodes      []string // the primary and the secondary nodes
	Groups     []string // of Nodes
	Networks   []string
}

// Network is an IP network.
type Network struct{ Name, UUID string }

// Master is the UUID of the master node, "" if it is unknown.
func (r *Resources) Master() string {
	if r == nil {
		return ""
	}
	return r.config.Cluster.Value.MasterNode
}

// find returns an object with its uuid, given its uuid or name; nil if there is none. With short, a short name is enough:
// "node1" means "node1.example.org" if no other node has that short name, as in Ganeti.
func find[T any](r *Resources, k *model.Kind[T], name string, short bool) (uuid string, value *T) {
	if r == nil {
		return "", nil
	}
	uuid, found := name, k.All(r.config).Has(name)
	if !found {
		uuid, found = k.ByName(r.config, name)
	}
	if !found && short {
		uuid, found = k.ByShortName(r.config, name)
	}
	if !found {
		return "", nil
	}
	o, _ := k.Get(r.config, uuid)
	return uuid, &o.Value
}

// Node finds a node by UUID, name or short name; nil and false: none has it.
func (r *Resources) Node(name string) (*Node, bool) {
	uuid, n := find(r, model.Nodes, name, true)
	if n == nil {
		return nil, false
	}
	return &Node{Name: n.Name, UUID: uuid, Group: n.Group, config: r.config}, true
}

// Group finds a node group by UUID or name; nil and false: none has it.
func (r *Resources) Group(name string) (*Group, bool) {
	uuid, g := find(r, model.Groups, name, false)
	if g == nil {
		return nil, false
	}
	return &Group{Name: g.Name, UUID: uuid, config: r.config}, true
}

// Instance finds an instance by UUID, name or short name; nil and false: none has it.
func (r *Resources) Instance(name string) (*Instance, bool) {
	uuid, i := find(r, model.Instances, name, true)
	if i == nil {
		return nil, false
	}
	return newInstance(r.config, uuid, i), true
}

// Network finds a network by UUID or name; nil and false: none has it.
func (r *Resources) Network(name string) (*Network, bool) {
	uuid, n := find(r, model.Networks, name, false)
	if n == nil {
		return nil, false
	}
	return &Network{Name: n.Name, UUID: uuid}, true
}

// Nodes are the UUIDs and names of all nodes.
func (r *Resources) Nodes() iter.Seq2[string, string] {
	return named(r, model.Nodes, func(n *model.Node) string { return n.Name })
}

// Groups are the UUIDs and names of all node groups.
func (r *Resources) Groups() iter.Seq2[string, string] {
	return named(r, model.Groups, func(g *model.NodeGroup) string { return g.Name })
}

// Networks are the UUIDs and names of all networks.
func (r *Resources) Networks() iter.Seq2[string, string] {
	return named(r, model.Networks, func(n *model.Network) string { return n.Name })
}

// Instances are the UUIDs and names of all instances that have a name.
func (r *Resources) Instances() iter.Seq2[string, string] {
	return named(r, model.Instances, func(i *model.Instance) string { return i.Name.Value })
}

// named are the UUIDs and names of the objects of a kind that have a name.
func named[T any](r *Resources, k *model.Kind[T], name func(*T) string) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		if r == nil {
			return
		}
		for uuid, o := range k.All(r.config).All() {
			if n := name(&o.Value); n != "" && !yield(uuid, n) {
				return
			}
		}
	}
}

func newInstance(c *model.Config, uuid string, from *model.Instance) *Instance {
	i := &Instance{Name: from.Name.Value, UUID: uuid, Primary: from.PrimaryNode.Value}
	nodes := []string{i.Primary}
	for _, disk := range from.Disks {
		o, found := c.Disks.Get(disk)
		if !found {
			continue
		}
		if i.Template == "" {
			i.Template = o.Value.LogicalID.Value.Type
		}
		o.Value.Each(func(d *model.Disk) {
			if drbd, is := d.DRBD(); is {
				nodes = append(nodes, drbd.A, drbd.B)
			}
		})
	}
	if i.Template == "" {
		i.Template = "diskless"
	}
	i.Nodes = sortedSet(nodes...)
	var groups, networks []string
	for _, node := range i.Nodes {
		if o, found := c.Nodes.Get(node); found {
			groups = append(groups, o.Value.Group)
		}
	}
	for _, nic := range from.NICs {
		networks = append(networks, nic.Network.Value)
	}
	i.Groups, i.Networks = sortedSet(groups...), sortedSet(networks...)
	return i
}

// Primaries are the names of the instances whose primary node this is, sorted.
func (n *Node) Primaries() []string {
	var names []string
	for uuid := range n.config.Primaries(n.UUID) {
		if o, found := n.config.Instances.Get(uuid); found {
			names = append(names, o.Value.Name.Value)
		}
	}
	return sortedSet(names...)
}

// Secondaries are the names of the instances with a copy of their disks, but not their primary node, here, sorted.
func (n *Node) Secondaries() []string {
	var names []string
	for disk := range n.config.DRBDDisks(n.UUID) {
		for uuid := range n.config.DiskUsers(disk) {
			if o, found := n.config.Instances.Get(uuid); found && o.Value.PrimaryNode.Value != n.UUID {
				names = append(names, o.Value.Name.Value)
			}
		}
	}
	return sortedSet(names...)
}

// Nodes are the UUIDs of the members of the group, sorted.
func (g *Group) Nodes() []string { return slices.Collect(g.config.Members(g.UUID)) }

// Instances are the names of the instances whose primary node is a member, sorted.
func (g *Group) Instances() []string {
	return g.collect(func(i *Instance) []string { return []string{i.Name} })
}

// InstanceNodes are the UUIDs of the nodes of those instances, of any group, sorted.
func (g *Group) InstanceNodes() []string {
	return g.collect(func(i *Instance) []string { return i.Nodes })
}

// InstanceGroups are the UUIDs of the groups of these nodes, sorted.
func (g *Group) InstanceGroups() []string {
	return g.collect(func(i *Instance) []string { return i.Groups })
}

// collect joins values of the instances that have a name and whose primary node is a member of the group. The result is sorted, without
// duplicates.
func (g *Group) collect(values func(*Instance) []string) []string {
	var all []string
	for node := range g.config.Members(g.UUID) {
		for uuid := range g.config.Primaries(node) {
			if o, found := g.config.Instances.Get(uuid); found && o.Value.Name.Set {
				all = append(all, values(newInstance(g.config, uuid, &o.Value))...)
			}
		}
	}
	return sortedSet(all...)
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

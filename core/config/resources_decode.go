package config

import (
	"encoding/json"
	"maps"
	"slices"
)

// The parts of a configuration that Resources need. Any value that Ganeti may omit may be missing: planned instances
// have almost none.
type (
	resourcesDocument struct {
		Nodes map[string]struct {
			Name  string `json:"name"`
			Group string `json:"group"`
		}
		Groups map[string]struct {
			Name string `json:"name"`
		}
		Instances map[string]instanceEntry
		Disks     map[string]diskEntry
		Networks  map[string]struct {
			Name string `json:"name"`
		}
	}
	instanceEntry struct {
		Name     string            `json:"name"`
		Primary  string            `json:"primary_node"`
		Template string            `json:"disk_template"`
		Disks    []json.RawMessage `json:"disks"` // UUIDs; complete disks in old configurations
		Nics     []struct {
			Network string `json:"network"`
		} `json:"nics"`
	}
	diskEntry struct {
		Type     string            `json:"dev_type"`
		ID       []json.RawMessage `json:"logical_id"`
		Children []diskEntry       `json:"children"`
	}
)

// DecodeResources reads a configuration. It requires less than Decode: missing values are unknown.
func DecodeResources(data []byte) (*Resources, error) {
	var doc resourcesDocument
	var master string
	var cluster json.RawMessage
	if err := decodeMembers(data, map[string]any{"cluster": &cluster, "nodes": &doc.Nodes, "nodegroups": &doc.Groups,
		"instances": &doc.Instances, "disks": &doc.Disks, "networks": &doc.Networks}); err != nil {
		return nil, err
	}
	if err := decodeMembers(cluster, map[string]any{"master_node": &master}); err != nil {
		return nil, err
	}
	r := &Resources{
		master: master,
		nodes:  map[string]*Node{}, groups: map[string]*Group{}, instances: map[string]*Instance{}, networks: map[string]*Network{},
	}
	for uuid, entry := range doc.Groups {
		r.groups[uuid] = &Group{Name: entry.Name, UUID: uuid}
	}
	nodesByName := map[string]*Node{}
	for _, uuid := range slices.Sorted(maps.Keys(doc.Nodes)) {
		entry := doc.Nodes[uuid]
		n := &Node{Name: entry.Name, UUID: uuid, Group: entry.Group}
		r.nodes[uuid], nodesByName[n.Name] = n, n
		if g, known := r.Group(entry.Group); known {
			g.Nodes = append(g.Nodes, uuid) // the group's own list of members is empty on disk
		}
	}
	for uuid, entry := range doc.Networks {
		r.networks[uuid] = &Network{Name: entry.Name, UUID: uuid}
	}
	instancesByName := map[string]*Instance{}
	for uuid, entry := range doc.Instances {
		i := newInstance(uuid, entry, doc.Disks)
		r.instances[uuid] = i
		if i.Name != "" {
			instancesByName[i.Name] = i
		}
	}
	r.linkInstances(instancesByName)

	indexByName(r.groups, func(g *Group) string { return g.Name })
	indexByName(r.networks, func(n *Network) string { return n.Name })
	indexByName(r.nodes, func(n *Node) string { return n.Name })
	indexByName(r.instances, func(i *Instance) string { return i.Name })
	addShortNames(nodesByName, r.nodes)
	addShortNames(instancesByName, r.instances)
	return r, nil
}

// indexByName adds objects that are indexed by UUID under their names.
func indexByName[T any](objects map[string]*T, name func(*T) string) {
	for _, uuid := range slices.Collect(maps.Keys(objects)) {
		if n := name(objects[uuid]); n != "" {
			objects[n] = objects[uuid]
		}
	}
}

func newInstance(uuid string, entry instanceEntry, disks map[string]diskEntry) *Instance {
	i := &Instance{Name: entry.Name, UUID: uuid, Template: entry.Template, Primary: entry.Primary}
	nodes := []string{i.Primary}
	for _, raw := range entry.Disks {
		var id string
		var disk diskEntry
		if json.Unmarshal(raw, &id) == nil {
			disk = disks[id]
		} else if json.Unmarshal(raw, &disk) != nil {
			continue
		}
		nodes = disk.appendNodes(nodes)
		if i.Template == "" {
			i.Template = disk.Type
		}
	}
	if i.Template == "" {
		i.Template = "diskless"
	}
	i.Nodes = sortedSet(nodes...)
	networks := make([]string, 0, len(entry.Nics))
	for _, nic := range entry.Nics {
		networks = append(networks, nic.Network)
	}
	i.Networks = sortedSet(networks...)
	return i
}

// appendNodes adds the nodes between which a disk is mirrored: the logical id of a DRBD disk begins with them.
func (d *diskEntry) appendNodes(nodes []string) []string {
	if d.Type == "drbd" && len(d.ID) >= 2 {
		for _, raw := range d.ID[:2] {
			var uuid string
			if json.Unmarshal(raw, &uuid) == nil {
				nodes = append(nodes, uuid)
			}
		}
	}
	for k := range d.Children {
		nodes = d.Children[k].appendNodes(nodes)
	}
	return nodes
}

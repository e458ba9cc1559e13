package view

import (
	"cmp"
	"fmt"
	"strings"

	"lockstep/core/answer"
	"lockstep/core/config/model"
	"lockstep/core/config/redact"
)

// anyContainer has the functions of a container that do not depend on the type of its objects.
type anyContainer struct {
	name   string
	count  func(c *model.Config) int
	table  func(c *model.Config) *answer.ConfigTable
	json   func(c *model.Config, rules redact.Rules) []byte
	object func(c *model.Config, uuid string) []byte
	// find returns the uuid of an object and its name in paths.
	find func(c *model.Config, reference string) (uuid, name string, err error)
}

// containers are the containers in the order of the file.
var containers = []anyContainer{
	containerOfKind(model.Nodes, func(n *model.Node) string { return n.Name },
		[]string{"Name", "Address", "Group", "Role", "UUID"}, nodeRow),
	containerOfKind(model.Groups, func(g *model.NodeGroup) string { return g.Name },
		[]string{"Name", "Policy", "Nodes", "UUID"}, groupRow),
	containerOfKind(model.Instances, func(i *model.Instance) string { return i.Name.Value },
		[]string{"Name", "State", "Primary node", "OS", "Hypervisor", "Disks", "NICs", "UUID"}, instanceRow),
	containerOfKind(model.Networks, func(n *model.Network) string { return n.Name },
		[]string{"Name", "Network", "Gateway", "Reserved", "UUID"}, networkRow),
	containerOfKind(model.Disks, func(d *model.Disk) string { return d.Name.Value },
		[]string{"UUID", "Instance", "Disk", "Type", "MiB", "Name"}, diskRow),
	containerOfKind(model.Filters, func(*model.FilterRule) string { return "" },
		[]string{"UUID", "Priority", "Action", "Watermark"}, filterRow),
}

// rowOf makes the rows of a table. It is called once for a table and returns the function for its rows, so that it can prepare
// what all rows need.
type rowOf[T any] func(c *model.Config) func(key string, v *T) []string

func containerOfKind[T any](k *model.Kind[T], nameOf func(*T) string, columns []string, rows rowOf[T]) anyContainer {
	return anyContainer{
		name:  k.Name,
		count: func(c *model.Config) int { all := k.All(c); return all.Len() },
		table: func(c *model.Config) *answer.ConfigTable {
			t := &answer.ConfigTable{Columns: columns, Rows: [][]string{}}
			row := rows(c)
			for key, o := range k.All(c).All() {
				t.Rows = append(t.Rows, row(key, &o.Value))
			}
			return t
		},
		json: func(c *model.Config, rules redact.Rules) []byte {
			dst := []byte{'{'}
			for key, o := range k.All(c).All() {
				if len(dst) > 1 {
					dst = append(dst, ',')
				}
				dst = append(append(model.AppendText(dst, key), ':'), rules.Object(k.Name, o.JSON())...)
			}
			return append(dst, '}')
		},
		object: func(c *model.Config, uuid string) []byte {
			o, _ := k.Get(c, uuid)
			return o.JSON()
		},
		find: func(c *model.Config, reference string) (uuid, name string, err error) {
			return find(c, k, nameOf, reference)
		},
	}
}

// shownMax is the number of objects that an error about an ambiguous reference names.
const shownMax = 5

// find returns uuid and name of the object that a reference means: a uuid, a name, or the first labels of exactly one name. The error is
// a *NotFoundError, also if several objects have the name.
func find[T any](c *model.Config, k *model.Kind[T], nameOf func(*T) string, reference string) (uuid, name string, err error) {
	if o, found := k.Get(c, reference); found {
		return reference, cmp.Or(nameOf(&o.Value), reference), nil
	}
	var exact, short []string
	for key, o := range k.All(c).All() {
		switch name := nameOf(&o.Value); {
		case name == "":
		case name == reference:
			exact = append(exact, key)
		case strings.HasPrefix(name, reference+"."):
			short = append(short, key)
		}
	}
	if len(exact) == 0 {
		exact = short
	}
	path := k.Name + "/" + reference
	switch len(exact) {
	case 0:
		return "", "", &NotFoundError{path, "there is no object with this name or uuid"}
	case 1:
		o, _ := k.Get(c, exact[0])
		return exact[0], nameOf(&o.Value), nil
	}
	shown := strings.Join(exact[:min(len(exact), shownMax)], ", ")
	return "", "", &NotFoundError{path, fmt.Sprintf("%d objects have this name: %s", len(exact), shown)}
}

func nodeRow(c *model.Config) func(string, *model.Node) []string {
	return func(_ string, n *model.Node) []string {
		group := n.Group
		if o, found := c.Groups.Get(n.Group); found {
			group = o.Value.Name
		}
		return []string{n.Name, n.PrimaryIP, group, role(c, n), n.UUID}
	}
}

func role(c *model.Config, n *model.Node) string {
	switch {
	case n.UUID == c.Cluster.Value.MasterNode:
		return "master"
	case n.Offline:
		return "offline"
	case n.Drained:
		return "drained"
	case n.MasterCandidate:
		return "candidate"
	}
	return "regular"
}

func groupRow(c *model.Config) func(string, *model.NodeGroup) []string {
	members := map[string]int{}
	for _, o := range c.Nodes.All() {
		members[o.Value.Group]++
	}
	return func(key string, g *model.NodeGroup) []string {
		return []string{g.Name, g.AllocPolicy, fmt.Sprint(members[key]), g.UUID}
	}
}

func instanceRow(c *model.Config) func(string, *model.Instance) []string {
	return func(_ string, i *model.Instance) []string {
		state, primary := i.AdminState.Value, i.PrimaryNode.Value
		if i.Forthcoming {
			state = "forthcoming"
		}
		if o, found := c.Nodes.Get(primary); found {
			primary = o.Value.Name
		}
		return []string{i.Name.Value, state, primary, i.OS.Value, i.Hypervisor.Value, fmt.Sprint(len(i.Disks)), fmt.Sprint(len(i.NICs)), i.UUID}
	}
}

func networkRow(*model.Config) func(string, *model.Network) []string {
	return func(_ string, n *model.Network) []string {
		reserved := 0
		for i := range max(len(n.Reservations.Value), len(n.ExtReservations.Value)) {
			if isOne(n.Reservations.Value, i) || isOne(n.ExtReservations.Value, i) {
				reserved++
			}
		}
		return []string{n.Name, n.Network, n.Gateway.Value, fmt.Sprint(reserved), n.UUID}
	}
}

func isOne(bits string, i int) bool { return i < len(bits) && bits[i] == '1' }

func diskRow(c *model.Config) func(string, *model.Disk) []string {
	return func(key string, d *model.Disk) []string {
		var users []string
		for uuid := range c.DiskUsers(key) {
			if o, found := c.Instances.Get(uuid); found {
				users = append(users, cmp.Or(o.Value.Name.Value, uuid))
			}
		}
		size := ""
		if d.Size.Set {
			size = fmt.Sprint(d.Size.Value)
		}
		return []string{d.UUID, strings.Join(users, ", "), d.IVName, d.LogicalID.Value.Type, size, d.Name.Value}
	}
}

func filterRow(*model.Config) func(string, *model.FilterRule) []string {
	return func(_ string, f *model.FilterRule) []string {
		action := f.Action.Word
		if f.Action.Limit > 0 {
			action = fmt.Sprintf("%s %d", action, f.Action.Limit)
		}
		return []string{f.UUID, fmt.Sprint(f.Priority), action, fmt.Sprint(f.Watermark)}
	}
}

// Package verify checks the consistency of a configuration. Findings are the errors that WConfD knows (config.md 6.1); after a
// change only the touched objects are checked. Warnings are what Ganeti's Python adds (config.md 6.2). Pure.
package verify

import (
	"fmt"
	"slices"
	"strings"

	"lockstep/core/config/model"
	"lockstep/core/config/tree"
)

// Findings are what is wrong in a configuration, as WConfD's verifyConfig reports it (config.md 6.1). They are immutable.
type Findings struct {
	texts tree.Map[string] // by their place in the order
}

// Texts returns the findings in the order that clients know.
func (f Findings) Texts() []string {
	texts := []string{}
	for _, text := range f.texts.All() {
		texts = append(texts, text)
	}
	return texts
}

// separator separates the parts of a key. It does not occur in UTF-8 text.
const separator = "\xff"

// The ranks of the findings: the first part of their keys.
const (
	rankHypervisors = "1"
	rankHVParams    = "2"
	rankTemplates   = "3"
	rankMaster      = "4"
	rankKey         = "5"
	rankGroup       = "6"
	rankPrimary     = "7"
	rankDisk        = "8"
)

// Of checks a complete configuration.
func Of(c *model.Config) Findings {
	f := Findings{}.cluster(c)
	for key := range c.Nodes.All() {
		f = f.node(c, key)
	}
	for key := range c.Groups.All() {
		f = f.group(c, key)
	}
	for key := range c.Instances.All() {
		f = f.instance(c, key)
	}
	for key := range c.Networks.All() {
		f = f.network(c, key)
	}
	for key := range c.Disks.All() {
		f = f.disk(c, key)
	}
	return f
}

// After returns the findings about after, which a change made of before. f are the findings about before. Only the touched objects are
// checked, unless a node or group was added or removed, to which any object can refer.
func (f Findings) After(before, after *model.Config, touched []model.Touched) Findings {
	if slices.ContainsFunc(touched, func(t model.Touched) bool { return isReferred(before, after, t) }) {
		return Of(after)
	}
	for _, t := range touched {
		switch t.Kind {
		case model.Clusters.Name:
			f = f.cluster(after)
		case model.Nodes.Name:
			f = f.node(after, t.UUID)
		case model.Groups.Name:
			f = f.group(after, t.UUID)
		case model.Instances.Name:
			f = f.instance(after, t.UUID)
		case model.Networks.Name:
			f = f.network(after, t.UUID)
		case model.Disks.Name:
			f = f.disk(after, t.UUID)
			for instance := range after.DiskUsers(t.UUID) {
				f = f.instance(after, instance)
			}
		}
	}
	return f
}

// isReferred reports whether a node or group was added or removed. Any object can refer to it, and only writeConfig does this.
func isReferred(before, after *model.Config, t model.Touched) bool {
	switch t.Kind {
	case model.Nodes.Name:
		return before.Nodes.Has(t.UUID) != after.Nodes.Has(t.UUID)
	case model.Groups.Name:
		return before.Groups.Has(t.UUID) != after.Groups.Has(t.UUID)
	}
	return false
}

// set stores a finding, or deletes it if text is empty.
func (f Findings) set(text string, place ...string) Findings {
	key := strings.Join(place, separator)
	if text == "" {
		return Findings{f.texts.Delete(key)}
	}
	return Findings{f.texts.Put(key, text)}
}

func (f Findings) cluster(c *model.Config) Findings {
	cluster := &c.Cluster.Value
	var noHypervisors, noParams, noTemplates, noMaster string
	if len(cluster.EnabledHypervisors) == 0 {
		noHypervisors = "enabled hypervisors list doesn't have any entries"
	}
	var missing []string
	for _, h := range model.Hypervisors() {
		if _, found := cluster.HVParams.Get(h); !found && slices.Contains(cluster.EnabledHypervisors, h) {
			missing = append(missing, h)
		}
	}
	if len(missing) > 0 {
		noParams = "hypervisor parameters missing for the enabled hypervisor(s) " + strings.Join(missing, ",")
	}
	if len(cluster.EnabledDiskTemplates) == 0 {
		noTemplates = "enabled disk templates list doesn't have any entries"
	}
	if !c.Nodes.Has(cluster.MasterNode) {
		noMaster = "cluster has invalid primary node " + cluster.MasterNode
	}
	return f.set(noHypervisors, rankHypervisors).set(noParams, rankHVParams).set(noTemplates, rankTemplates).set(noMaster, rankMaster)
}

// key checks that an object is stored under its own uuid. order is the rank of its container.
func (f Findings) key(order, what, name, key, uuid string) Findings {
	text := ""
	if key != uuid {
		text = fmt.Sprintf("%s '%s' is indexed by wrong UUID '%s'", what, name, key)
	}
	return f.set(text, rankKey, order, key)
}

func (f Findings) node(c *model.Config, key string) Findings {
	o, found := c.Nodes.Get(key)
	if !found {
		return f.set("", rankKey, "1", key).set("", rankGroup, key)
	}
	node, text := &o.Value, ""
	if !c.Groups.Has(node.Group) {
		text = fmt.Sprintf("node '%s' references a non-existing nodegroup UUID '%s'", node.Name, node.Group)
	}
	return f.key("1", "node", node.Name, key, node.UUID).set(text, rankGroup, key)
}

func (f Findings) group(c *model.Config, key string) Findings {
	if o, found := c.Groups.Get(key); found {
		return f.key("2", "nodegroup", o.Value.Name, key, o.Value.UUID)
	}
	return f.set("", rankKey, "2", key)
}

func (f Findings) instance(c *model.Config, key string) Findings {
	for place := range f.texts.From(rankDisk + separator + key + separator) {
		if !strings.HasPrefix(place, rankDisk+separator+key+separator) {
			break
		}
		f.texts = f.texts.Delete(place)
	}
	o, found := c.Instances.Get(key)
	if !found {
		return f.set("", rankKey, "3", key).set("", rankPrimary, key)
	}
	i, name, text := &o.Value, o.Value.Name.Value, ""
	if !i.Name.Set {
		name = key
	}
	if i.PrimaryNode.Set && !c.Nodes.Has(i.PrimaryNode.Value) {
		text = fmt.Sprintf("instance '%s' references a non-existing primary node UUID '%s'", name, i.PrimaryNode.Value)
	}
	f = f.key("3", "instances", name, key, i.UUID).set(text, rankPrimary, key)
	for n, disk := range i.Disks {
		if !c.Disks.Has(disk) {
			f = f.set(fmt.Sprintf("instance '%s' references a non-existing disks UUID '%s'", name, disk), rankDisk, key, fmt.Sprintf("%06d", n))
		}
	}
	return f
}

func (f Findings) network(c *model.Config, key string) Findings {
	if o, found := c.Networks.Get(key); found {
		return f.key("4", "network", o.Value.Name, key, o.Value.UUID)
	}
	return f.set("", rankKey, "4", key)
}

func (f Findings) disk(c *model.Config, key string) Findings {
	if o, found := c.Disks.Get(key); found {
		return f.key("5", "disk", o.Value.UUID, key, o.Value.UUID)
	}
	return f.set("", rankKey, "5", key)
}

package query

import (
	"maps"
	"slices"

	"lockstep/core/config"
)

// groupFields are those of node groups, but for single node parameters.
var groupFields = append(stamped("group", "Group", Plain), []Field[Thing]{
	field("alloc_policy", "AllocPolicy", Text, "Whether instances may be put there", as("alloc_policy")),
	field("custom_diskparams", "CustomDiskParameters", Other, "Disk parameters that are set for this group", asOr("diskparams", "{}")),
	field("diskparams", "DiskParameters", Other, "Disk parameters in force", whole(groupDiskParameters)),
	field("custom_ipolicy", "CustomInstancePolicy", Other, "What is set for this group of what instances may be like", asOr("ipolicy", "{}")),
	field("ipolicy", "InstancePolicy", Other, "What instances may be like", whole(groupPolicy)),
	field("custom_ndparams", "CustomNDParams", Other, "Node parameters that are set for this group", asOr("ndparams", "{}")),
	field("ndparams", "NDParams", Other, "Node parameters in force", whole(groupNodeParameters)),
	field("node_cnt", "Nodes", Number, "How many nodes it has", count(groupNodes)),
	field("node_list", "NodeList", Other, "Which nodes it has", list(groupNodes)),
	field("pinst_cnt", "Instances", Number, "How many instances run on its nodes", count(groupInstances)),
	field("pinst_list", "InstanceList", Other, "Which instances run on its nodes", list(groupInstances)),
}...)

func groupNodeParameters(t *Thing) config.Object {
	return t.once("ndparams", func() config.Object {
		return config.Filled(t.In.Cluster.Object("ndparams"), t.Object.Object("ndparams"))
	})
}

func groupPolicy(t *Thing) config.Object {
	return config.Filled(t.In.Cluster.Object("ipolicy"), t.Object.Object("ipolicy"))
}

// groupDiskParameters are filled template by template.
func groupDiskParameters(t *Thing) config.Object {
	cluster, own := t.In.Cluster.Object("diskparams"), t.Object.Object("diskparams")
	all := config.Filled(cluster, own)
	for template := range maps.Clone(all) {
		all[template] = config.Filled(cluster.Object(template), own.Object(template)).JSON()
	}
	return all
}

func groupNodes(t *Thing) []string {
	g, known := t.In.Resources.Group(t.UUID)
	if !known {
		return nil
	}
	return t.nodeNames(g.Nodes)
}

func groupInstances(t *Thing) []string {
	g, known := t.In.Resources.Group(t.UUID)
	if !known {
		return nil
	}
	return slices.SortedFunc(slices.Values(g.Instances), CompareNatural)
}

// nodeNames are the names of nodes, in natural order.
func (t *Thing) nodeNames(uuids []string) []string {
	names := make([]string, len(uuids))
	for i, uuid := range uuids {
		names[i] = t.In.Nodes[uuid].Text("name")
	}
	slices.SortFunc(names, CompareNatural)
	return names
}

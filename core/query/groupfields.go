package query

import (
	"maps"
	"slices"

	"lockstep/core/config"
	"lockstep/core/natural"
)

// groupFields are the fields of node groups, without single node parameters.
var groupFields = append(commonFields("group", "Group", ComparePlain), []Field[ObjectItem]{
	field("alloc_policy", "AllocPolicy", Text, "Whether instances may be put there", stored("alloc_policy")),
	field("custom_diskparams", "CustomDiskParameters", Other, "Disk parameters that are set for this group", storedOr("diskparams", "{}")),
	field("diskparams", "DiskParameters", Other, "Disk parameters in force", objectValue(groupDiskParameters)),
	field("custom_ipolicy", "CustomInstancePolicy", Other, "What is set for this group of what instances may be like",
		storedOr("ipolicy", "{}")),
	field("ipolicy", "InstancePolicy", Other, "What instances may be like",
		objectValue(groupPolicy, "minmax", "std", "spindle-ratio", "vcpu-ratio", "disk-templates")),
	field("custom_ndparams", "CustomNDParams", Other, "Node parameters that are set for this group", storedOr("ndparams", "{}")),
	field("ndparams", "NDParams", Other, "Node parameters in force", objectValue(groupNodeParameters, nodeParameterOrder...)),
	field("node_cnt", "Nodes", Number, "How many nodes it has", nameCount(groupNodes)),
	field("node_list", "NodeList", Other, "Which nodes it has", nameList(groupNodes)),
	field("pinst_cnt", "Instances", Number, "How many instances run on its nodes", nameCount(groupInstances)),
	field("pinst_list", "InstanceList", Other, "Which instances run on its nodes", nameList(groupInstances)),
}...)

func groupNodeParameters(t *ObjectItem) config.Object {
	return t.cached("ndparams", func() config.Object {
		return config.Merged(t.Document.Cluster.Object("ndparams"), t.Object.Object("ndparams"))
	})
}

func groupPolicy(t *ObjectItem) config.Object {
	return config.Merged(t.Document.Cluster.Object("ipolicy"), t.Object.Object("ipolicy"))
}

// groupDiskParameters merges the disk parameters of each template.
func groupDiskParameters(t *ObjectItem) config.Object {
	cluster, own := t.Document.Cluster.Object("diskparams"), t.Object.Object("diskparams")
	all := config.Merged(cluster, own)
	for template := range maps.Clone(all) {
		all[template] = config.Merged(cluster.Object(template), own.Object(template)).JSON()
	}
	return all
}

// groupNodes are the names in the order of the UUIDs, as Ganeti lists them (live.md 5).
func groupNodes(t *ObjectItem) []string {
	g, known := t.Document.Resources.Group(t.UUID)
	if !known {
		return nil
	}
	return t.namesOf(g.Nodes())
}

func groupInstances(t *ObjectItem) []string {
	g, known := t.Document.Resources.Group(t.UUID)
	if !known {
		return nil
	}
	return slices.SortedFunc(slices.Values(g.Instances()), natural.Compare)
}

// namesOf are the names of nodes, in the order of the UUIDs.
func (t *ObjectItem) namesOf(uuids []string) []string {
	names := make([]string, len(uuids))
	for i, uuid := range uuids {
		names[i] = t.Document.Node(uuid).Text("name")
	}
	return names
}

// nodeNames are the names of nodes, in natural order.
func (t *ObjectItem) nodeNames(uuids []string) []string {
	names := t.namesOf(uuids)
	slices.SortFunc(names, natural.Compare)
	return names
}

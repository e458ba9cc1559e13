package query

import (
	"encoding/json"
	"slices"

	"lockstep/core/config"
)

// instanceFields are the fields of instances, without single disks, interfaces and parameters. A value that only the
// primary node knows is unavailable, or offline if that node is marked offline.
var instanceFields = append(commonFields("instance", "Instance", CompareHostName), []Field[ObjectItem]{
	field("admin_state", "InstanceState", Text, "Whether it is meant to run", stored("admin_state")),
	field("admin_state_source", "InstanceStateSource", Text, "Who wants it that way", stored("admin_state_source")),
	field("admin_up", "Autostart", Bool, "Whether it is meant to be up", func(t *ObjectItem) Value { return normal(t.Object.Text("admin_state") == "up") }),
	field("beparams", "BackendParameters", Other, "Backend parameters in force", objectValue(backend)),
	field("custom_beparams", "CustomBackendParameters", Other, "Backend parameters that are set for this instance", storedOr("beparams", "{}")),
	field("hvparams", "HypervisorParameters", Other, "Hypervisor parameters in force", objectValue(hypervisor)),
	field("custom_hvparams", "CustomHypervisorParameters", Other, "Hypervisor parameters that are set for this instance", storedOr("hvparams", "{}")),
	field("osparams", "OpSysParameters", Other, "Parameters of its operating system in force", objectValue(systemParameters)),
	field("custom_osparams", "CustomOpSysParameters", Other, "Parameters of its operating system that are set for this instance", storedOr("osparams", "{}")),
	field("vcpus", "ConfigVCPUs", Number, "How many processors it has", memberOf(backend, "vcpus")),
	field("console", "Console", Other, "How to reach its console", liveOnPrimary),
	field("oper_ram", "Memory", Unit, "Memory that it has now", liveOnPrimary),
	field("oper_state", "Running", Bool, "Whether it runs", liveOnPrimary),
	field("oper_vcpus", "VCPUs", Number, "Processors that it has now", liveOnPrimary),
	field("status", "Status", Text, "How it is, compared with how it is meant to be", liveOnPrimary),
	field("disk_template", "Disk_template", Text, "Kind of its disks", instanceTemplate),
	field("disk_usage", "DiskUsage", Unit, "Storage that its disks take on each node", liveOnPrimary),
	field("disks_active", "DisksActive", Bool, "Whether its disks are meant to be active", storedOr("disks_active", "false")),
	field("forthcoming", "Forthcoming", Bool, "Whether it is only planned", storedOr("forthcoming", "false")),
	field("hypervisor", "Hypervisor", Text, "Kind of its virtual machine", stored("hypervisor")),
	field("network_port", "Network_port", Other, "Port of its console", stored("network_port")),
	field("os", "OS", Text, "Its operating system", stored("os")),
	hostNameField(field("pnode", "Primary_node", Text, "Node on which it runs", primaryMember("name"))),
	field("pnode.group", "PrimaryNodeGroup", Text, "Name of that node's group", func(t *ObjectItem) Value { return textOrUnavailable(t.groupName(t.primary().Text("group"))) }),
	field("pnode.group.uuid", "PrimaryNodeGroupUUID", Text, "UUID of that node's group", primaryMember("group")),
	field("snodes", "Secondary_Nodes", Other, "Nodes with a copy of its disks", nameList(func(t *ObjectItem) []string { return t.nodeNames(t.secondaries()) })),
	field("snodes.group", "SecondaryNodesGroups", Other, "Names of these nodes' groups", nameList(secondaryGroups)),
	field("snodes.group.uuid", "SecondaryNodesGroupsUUID", Other, "UUIDs of these nodes' groups", nameList(secondaryGroupUUIDs)),
}...)

// liveOnPrimary is a field that only the primary node of an instance knows. Nodes are not asked.
func liveOnPrimary(t *ObjectItem) Value {
	if t.primary().Flag("offline") {
		return Value{Status: Offline}
	}
	return unavailable()
}

func (t *ObjectItem) primary() config.Object { return t.Document.Node(t.Object.Text("primary_node")) }

func primaryMember(key string) func(*ObjectItem) Value {
	return func(t *ObjectItem) Value { return member(t.primary(), key) }
}

// secondaries are the UUIDs of the nodes with a copy of the disks.
func (t *ObjectItem) secondaries() []string {
	i, known := t.Document.Resources.Instance(t.UUID)
	if !known {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(i.Nodes), func(uuid string) bool { return uuid == i.Primary })
}

func secondaryGroups(t *ObjectItem) []string {
	groups := secondaryGroupUUIDs(t)
	for i, uuid := range groups {
		groups[i] = t.groupName(uuid)
	}
	return groups
}

// secondaryGroupUUIDs returns each group once.
func secondaryGroupUUIDs(t *ObjectItem) []string {
	var groups []string
	for _, uuid := range t.secondaries() {
		if group := t.Document.Node(uuid).Text("group"); !slices.Contains(groups, group) {
			groups = append(groups, group)
		}
	}
	return groups
}

func instanceTemplate(t *ObjectItem) Value {
	i, known := t.Document.Resources.Instance(t.UUID)
	if !known {
		return unavailable()
	}
	return normal(i.Template)
}

func backend(t *ObjectItem) config.Object {
	return t.cached("beparams", func() config.Object {
		return config.Merged(t.Document.Cluster.Object("beparams").Object("default"), t.Object.Object("beparams"))
	})
}

func hypervisor(t *ObjectItem) config.Object {
	return t.cached("hvparams", func() config.Object {
		name := t.Object.Text("hypervisor")
		return config.Merged(t.Document.Cluster.Object("hvparams").Object(name),
			t.Document.Cluster.Object("os_hvp").Object(t.Object.Text("os")).Object(name), t.Object.Object("hvparams"))
	})
}

func systemParameters(t *ObjectItem) config.Object {
	return t.cached("osparams", func() config.Object {
		return config.Merged(t.Document.Cluster.Object("osparams").Object(t.Object.Text("os")), t.Object.Object("osparams"))
	})
}

func (t *ObjectItem) diskList() []config.Object {
	if t.disks == nil {
		t.disks = t.Document.DisksOf(t.Object)
	}
	return t.disks
}

// nicList are the interfaces, each with all effective parameters among its values.
func (t *ObjectItem) nicList() []config.Object {
	if t.nics != nil {
		return t.nics
	}
	t.nics = []config.Object{}
	defaults := t.Document.Cluster.Object("nicparams").Object("default")
	for _, raw := range t.Object.List("nics") {
		nic := config.Object{}
		if json.Unmarshal(raw, &nic) != nil {
			nic = config.Object{}
		}
		t.nics = append(t.nics, config.Merged(nic, defaults, nic.Object("nicparams")))
	}
	return t.nics
}

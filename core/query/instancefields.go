package query

import (
	"encoding/json"
	"slices"

	"lockstep/core/config"
)

// instanceFields are those of instances, but for single disks, interfaces and parameters. What only the node can tell on
// which an instance runs is unavailable, and offline where that is.
var instanceFields = append(stamped("instance", "Instance", HostName), []Field[Thing]{
	field("admin_state", "InstanceState", Text, "Whether it is meant to run", as("admin_state")),
	field("admin_state_source", "InstanceStateSource", Text, "Who wants it that way", as("admin_state_source")),
	field("admin_up", "Autostart", Bool, "Whether it is meant to be up", func(t *Thing) Value { return normal(t.Object.Text("admin_state") == "up") }),
	field("beparams", "BackendParameters", Other, "Backend parameters in force", whole(backend)),
	field("custom_beparams", "CustomBackendParameters", Other, "Backend parameters that are set for this instance", asOr("beparams", "{}")),
	field("hvparams", "HypervisorParameters", Other, "Hypervisor parameters in force", whole(hypervisor)),
	field("custom_hvparams", "CustomHypervisorParameters", Other, "Hypervisor parameters that are set for this instance", asOr("hvparams", "{}")),
	field("osparams", "OpSysParameters", Other, "Parameters of its operating system in force", whole(systemParameters)),
	field("custom_osparams", "CustomOpSysParameters", Other, "Parameters of its operating system that are set for this instance", asOr("osparams", "{}")),
	field("vcpus", "ConfigVCPUs", Number, "How many processors it has", inObject(backend, "vcpus")),
	field("console", "Console", Other, "How to reach its console", ofPrimary),
	field("oper_ram", "Memory", Unit, "Memory that it has now", ofPrimary),
	field("oper_state", "Running", Bool, "Whether it runs", ofPrimary),
	field("oper_vcpus", "VCPUs", Number, "Processors that it has now", ofPrimary),
	field("status", "Status", Text, "How it is, compared with how it is meant to be", ofPrimary),
	field("disk_template", "Disk_template", Text, "Kind of its disks", instanceTemplate),
	field("disk_usage", "DiskUsage", Unit, "Storage that its disks take on each node", ofPrimary),
	field("disks_active", "DisksActive", Bool, "Whether its disks are meant to be active", asOr("disks_active", "false")),
	field("forthcoming", "Forthcoming", Bool, "Whether it is only planned", asOr("forthcoming", "false")),
	field("hypervisor", "Hypervisor", Text, "Kind of its virtual machine", as("hypervisor")),
	field("network_port", "Network_port", Other, "Port of its console", as("network_port")),
	field("os", "OS", Text, "Its operating system", as("os")),
	hosted(field("pnode", "Primary_node", Text, "Node on which it runs", inPrimary("name"))),
	field("pnode.group", "PrimaryNodeGroup", Text, "Name of that node's group", func(t *Thing) Value { return textOr(t.groupName(t.primary().Text("group"))) }),
	field("pnode.group.uuid", "PrimaryNodeGroupUUID", Text, "UUID of that node's group", inPrimary("group")),
	field("snodes", "Secondary_Nodes", Other, "Nodes with a copy of its disks", list(func(t *Thing) []string { return t.nodeNames(t.secondaries()) })),
	field("snodes.group", "SecondaryNodesGroups", Other, "Names of these nodes' groups", list(secondaryGroups)),
	field("snodes.group.uuid", "SecondaryNodesGroupsUUID", Other, "UUIDs of these nodes' groups", list(secondaryGroupUUIDs)),
}...)

// ofPrimary is a field that only the node can tell on which an instance runs, which nobody asks.
func ofPrimary(t *Thing) Value {
	if t.primary().Flag("offline") {
		return Value{Status: Offline}
	}
	return unavailable()
}

func (t *Thing) primary() config.Object { return t.In.Nodes[t.Object.Text("primary_node")] }

func inPrimary(key string) func(*Thing) Value {
	return func(t *Thing) Value { return part(t.primary(), key) }
}

// secondaries are the UUIDs of the nodes with a copy of the disks.
func (t *Thing) secondaries() []string {
	i, known := t.In.Resources.Instance(t.UUID)
	if !known {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(i.Nodes), func(uuid string) bool { return uuid == i.Primary })
}

func secondaryGroups(t *Thing) []string {
	groups := secondaryGroupUUIDs(t)
	for i, uuid := range groups {
		groups[i] = t.groupName(uuid)
	}
	return groups
}

// secondaryGroupUUIDs names each group once.
func secondaryGroupUUIDs(t *Thing) []string {
	var groups []string
	for _, uuid := range t.secondaries() {
		if group := t.In.Nodes[uuid].Text("group"); !slices.Contains(groups, group) {
			groups = append(groups, group)
		}
	}
	return groups
}

func instanceTemplate(t *Thing) Value {
	i, known := t.In.Resources.Instance(t.UUID)
	if !known {
		return unavailable()
	}
	return normal(i.Template)
}

func backend(t *Thing) config.Object {
	return t.once("beparams", func() config.Object {
		return config.Filled(t.In.Cluster.Object("beparams").Object("default"), t.Object.Object("beparams"))
	})
}

func hypervisor(t *Thing) config.Object {
	return t.once("hvparams", func() config.Object {
		name := t.Object.Text("hypervisor")
		return config.Filled(t.In.Cluster.Object("hvparams").Object(name),
			t.In.Cluster.Object("os_hvp").Object(t.Object.Text("os")).Object(name), t.Object.Object("hvparams"))
	})
}

func systemParameters(t *Thing) config.Object {
	return t.once("osparams", func() config.Object {
		return config.Filled(t.In.Cluster.Object("osparams").Object(t.Object.Text("os")), t.Object.Object("osparams"))
	})
}

func (t *Thing) diskList() []config.Object {
	if t.disks == nil {
		t.disks = t.In.DisksOf(t.Object)
	}
	return t.disks
}

// nicList are the interfaces, each with all parameters in force as values of its own.
func (t *Thing) nicList() []config.Object {
	if t.nics != nil {
		return t.nics
	}
	t.nics = []config.Object{}
	usual := t.In.Cluster.Object("nicparams").Object("default")
	for _, raw := range t.Object.List("nics") {
		nic := config.Object{}
		if json.Unmarshal(raw, &nic) != nil {
			nic = config.Object{}
		}
		t.nics = append(t.nics, config.Filled(nic, usual, nic.Object("nicparams")))
	}
	return t.nics
}

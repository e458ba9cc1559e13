package query

import (
	"cmp"
	"encoding/json"
	"slices"

	"lockstep/core/config"
)

// instanceFields are the fields of instances, without single disks, interfaces and parameters.
var instanceFields = append(commonFields("instance", "Instance", CompareHostName), []Field[ObjectItem]{
	field("admin_state", "InstanceState", Text, "Whether it is meant to run", stored("admin_state")),
	field("admin_state_source", "InstanceStateSource", Text, "Who wants it that way", stored("admin_state_source")),
	field("admin_up", "Autostart", Bool, "Whether it is meant to be up",
		func(t *ObjectItem) Value { return normal(t.Object.Text("admin_state") == "up") }),
	field("beparams", "BackendParameters", Other, "Backend parameters in force",
		objectValue(backend, "minmem", "maxmem", "vcpus", "auto_balance", "always_failover", "spindle_use")),
	field("custom_beparams", "CustomBackendParameters", Other, "Backend parameters that are set for this instance",
		storedOr("beparams", "{}")),
	field("hvparams", "HypervisorParameters", Other, "Hypervisor parameters in force", objectValue(hypervisor)),
	field("custom_hvparams", "CustomHypervisorParameters", Other, "Hypervisor parameters that are set for this instance",
		storedOr("hvparams", "{}")),
	field("osparams", "OpSysParameters", Other, "Parameters of its operating system in force", objectValue(systemParameters)),
	field("custom_osparams", "CustomOpSysParameters", Other, "Parameters of its operating system that are set for this instance",
		storedOr("osparams", "{}")),
	field("vcpus", "ConfigVCPUs", Number, "How many processors it has", memberOf(backend, "vcpus")),
	liveField(LiveConsole, field("console", "Console", Other, "How to reach its console", liveOnPrimary(instanceConsole))),
	liveField(LiveState, field("oper_ram", "Memory", Unit, "Memory that it has now", ifSeen(instanceMemory))),
	liveField(LiveState, field("oper_state", "Running", Bool, "Whether it runs", liveOnPrimary(instanceRuns))),
	liveField(LiveState, field("oper_vcpus", "VCPUs", Number, "Processors that it has now", ifSeen(instanceVCPUs))),
	liveField(LiveState, field("status", "Status", Text, "How it is, compared with how it is meant to be", liveOnPrimary(instanceStatus))),
	field("disk_template", "Disk_template", Text, "Kind of its disks", instanceTemplate),
	field("disk_usage", "DiskUsage", Unit, "Storage that its disks take on each node", instanceDiskUsage),
	field("disks_active", "DisksActive", Bool, "Whether its disks are meant to be active", storedOr("disks_active", "false")),
	field("forthcoming", "Forthcoming", Bool, "Whether it is only planned", storedOr("forthcoming", "false")),
	field("hypervisor", "Hypervisor", Text, "Kind of its virtual machine", stored("hypervisor")),
	field("network_port", "Network_port", Other, "Port of its console", stored("network_port")),
	field("os", "OS", Text, "Its operating system", stored("os")),
	hostNameField(field("pnode", "Primary_node", Text, "Node on which it runs", primaryMember("name"))),
	field("pnode.group", "PrimaryNodeGroup", Text, "Name of that node's group",
		func(t *ObjectItem) Value { return textOrUnavailable(t.groupName(t.primary().Text("group"))) }),
	field("pnode.group.uuid", "PrimaryNodeGroupUUID", Text, "UUID of that node's group", primaryMember("group")),
	field("snodes", "Secondary_Nodes", Other, "Nodes with a copy of its disks",
		nameList(func(t *ObjectItem) []string { return t.nodeNames(t.secondaries()) })),
	field("snodes.group", "SecondaryNodesGroups", Other, "Names of these nodes' groups", nameList(secondaryGroups)),
	field("snodes.group.uuid", "SecondaryNodesGroupsUUID", Other, "UUIDs of these nodes' groups", nameList(secondaryGroupUUIDs)),
}...)

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

// templateDRBD is the disk template whose disks have copies and metadata.
const templateDRBD = "drbd"

// drbdMetadata is the storage that DRBD takes for each disk, in MiB.
const drbdMetadata = 128

// instanceTemplate is the type of the disks: diskless without one, mixed if there are several types.
func instanceTemplate(t *ObjectItem) Value {
	template := ""
	for _, disk := range t.diskList() {
		switch kind := disk.Text("dev_type"); {
		case kind == "":
		case template == "":
			template = kind
		case template != kind:
			return normal("mixed")
		}
	}
	return normal(cmp.Or(template, "diskless"))
}

// instanceDiskUsage is the sum of the sizes of the disks in MiB, with DRBD's metadata. Block devices are not the cluster's storage and do
// not count.
func instanceDiskUsage(t *ObjectItem) Value {
	var sum int64
	for _, disk := range t.diskList() {
		var size int64
		if json.Unmarshal(disk["size"], &size) != nil {
			continue // a forthcoming disk may have none
		}
		switch disk.Text("dev_type") {
		case "blockdev", "diskless":
		case templateDRBD:
			sum += size + drbdMetadata
		default:
			sum += size
		}
	}
	return normal(sum)
}

func backend(t *ObjectItem) config.Object {
	return t.cached("beparams", func() config.Object {
		return config.Merged(t.Document.Cluster.Object("beparams").Object("default"), t.Object.Object("beparams"))
	})
}

// globalHypervisorParameters are parameters of the cluster that no instance has.
var globalHypervisorParameters = []string{"migration_bandwidth", "migration_mode", "migration_port", "xen_cmd"}

// hypervisor are the hypervisor parameters in force that belong to instances: without the global ones.
func hypervisor(t *ObjectItem) config.Object {
	return t.cached("hvparams", func() config.Object {
		own := hypervisorWithGlobals(t)
		for _, name := range globalHypervisorParameters {
			delete(own, name)
		}
		return own
	})
}

func hypervisorWithGlobals(t *ObjectItem) config.Object {
	name := t.Object.Text("hypervisor")
	return config.Merged(t.Document.Cluster.Object("hvparams").Object(name),
		t.Document.Cluster.Object("os_hvp").Object(t.Object.Text("os")).Object(name), t.Object.Object("hvparams"))
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

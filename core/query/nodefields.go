package query

import (
	"lockstep/core/config"
	"lockstep/core/noded"
)

// nodeFields are the fields of nodes, without single node parameters.
var nodeFields = append(commonFields("node", "Node", CompareHostName), []Field[ObjectItem]{
	liveField(LiveBoot, field("bootid", "BootID", Text, "Names the node's present boot", liveOnNode(bootID))),
	hypervisorField("cnodes", "CNodes", Number, "Memory nodes of its processors",
		func(f *noded.HypervisorFacts) *int64 { return f.CPUNodes }),
	hypervisorField("cnos", "CNOs", Number, "Processors that the node's own system uses",
		func(f *noded.HypervisorFacts) *int64 { return f.CPUOwn }),
	hypervisorField("csockets", "CSockets", Number, "Processor sockets",
		func(f *noded.HypervisorFacts) *int64 { return f.CPUSockets }),
	hypervisorField("ctotal", "CTotal", Number, "Processors",
		func(f *noded.HypervisorFacts) *int64 { return f.CPUTotal }),
	liveField(LiveStorage, field("dfree", "DFree", Unit, "Free storage", ofStorage(false, storageFree))),
	liveField(LiveStorage, field("dtotal", "DTotal", Unit, "Storage in all", ofStorage(false, storageSize))),
	hypervisorField("mfree", "MFree", Unit, "Memory for further instances",
		func(f *noded.HypervisorFacts) *int64 { return f.MemoryFree }),
	hypervisorField("mnode", "MNode", Unit, "Memory of the node's own system",
		func(f *noded.HypervisorFacts) *int64 { return f.MemoryNode }),
	hypervisorField("mtotal", "MTotal", Unit, "Memory in all",
		func(f *noded.HypervisorFacts) *int64 { return f.MemoryTotal }),
	liveField(LiveStorage, field("spfree", "SpFree", Number, "Free spindles", ofStorage(true, storageFree))),
	liveField(LiveStorage, field("sptotal", "SpTotal", Number, "Spindles in all", ofStorage(true, storageSize))),
	field("custom_ndparams", "CustomNodeParameters", Other, "Node parameters that are set for this node", storedOr("ndparams", "{}")),
	field("ndparams", "NodeParameters", Other, "Node parameters in force", objectValue(nodeParameters, nodeParameterOrder...)),
	field("disk_state", "DiskState", Other, "Always unavailable, as in Ganeti", never),
	field("hv_state", "HypervisorState", Other, "Always unavailable, as in Ganeti", never),
	field("drained", "Drained", Bool, "Whether no instance is to be put there", storedOr("drained", "false")),
	field("offline", "Offline", Bool, "Whether the node is not to be spoken to", storedOr("offline", "false")),
	field("master", "IsMaster", Bool, "Whether it is the master node", func(t *ObjectItem) Value { return normal(t.isMaster()) }),
	field("master_candidate", "MasterC", Bool, "Whether it has a copy of the configuration, to become master",
		storedOr("master_candidate", "false")),
	field("master_capable", "MasterCapable", Bool, "Whether it may become a master candidate", storedOr("master_capable", "true")),
	field("vm_capable", "VMCapable", Bool, "Whether it may run instances", storedOr("vm_capable", "true")),
	field("powered", "Powered", Bool, "Whether it is thought to have power", nodePowered),
	field("role", "Role", Text, `"M" for the master, "C" for a candidate, "D" for drained, "O" for offline, "R" for the rest`,
		nodeRole),
	field("group", "Group", Text, "Name of its group",
		func(t *ObjectItem) Value { return textOrUnavailable(t.groupName(t.Object.Text("group"))) }),
	field("group.uuid", "GroupUUID", Text, "UUID of its group", stored("group")),
	field("pip", "PrimaryIP", Text, "Address by which the cluster knows it", stored("primary_ip")),
	field("sip", "SecondaryIP", Text, "Address for copies of disks", stored("secondary_ip")),
	field("pinst_cnt", "Pinst", Number, "How many instances run there", nameCount(nodePrimaries)),
	field("pinst_list", "PriInstances", Other, "Which instances run there", nameList(nodePrimaries)),
	field("sinst_cnt", "Sinst", Number, "How many instances have a copy of their disks there", nameCount(nodeSecondaries)),
	field("sinst_list", "SecInstances", Other, "Which instances have a copy of their disks there", nameList(nodeSecondaries)),
}...)

// exportFields are the fields of exports. Only a node knows whether instances are exported to it.
var exportFields = []Field[ObjectItem]{
	hostNameField(field("node", "Node", Text, "Node with the export", stored("name"))),
	liveField(LiveExports, field("export", "Export", Text, "Name of the export", exportName)),
}

func never(*ObjectItem) Value { return unavailable() }

func (t *ObjectItem) isMaster() bool { return t.UUID == t.Document.Resources.Master() }

func (t *ObjectItem) groupName(uuid string) string { return t.Document.Group(uuid).Text("name") }

// nodePowered is known only of nodes whose power can be switched.
func nodePowered(t *ObjectItem) Value {
	if nodeParameters(t).Text("oob_program") == "" {
		return unavailable()
	}
	return member(t.Object, "powered")
}

func nodeRole(t *ObjectItem) Value {
	role := "R"
	switch {
	case t.isMaster():
		role = "M"
	case t.Object.Flag("drained"):
		role = "D"
	case t.Object.Flag("offline"):
		role = "O"
	case t.Object.Flag("master_candidate"):
		role = "C"
	}
	return normal(role)
}

func nodeParameters(t *ObjectItem) config.Object {
	return t.cached("ndparams", func() config.Object {
		group := t.Document.Group(t.Object.Text("group"))
		return config.Merged(t.Document.Cluster.Object("ndparams"), group.Object("ndparams"), t.Object.Object("ndparams"))
	})
}

// nodeParameterOrder is Ganeti's order of node parameters.
var nodeParameterOrder = []string{
	"oob_program",
	"spindle_count",
	"exclusive_storage",
	"ovs",
	"ovs_name",
	"ovs_link",
	"ssh_port",
	"cpu_speed",
}

func nodePrimaries(t *ObjectItem) []string {
	n, known := t.Document.Resources.Node(t.UUID)
	if !known {
		return nil
	}
	return n.Primaries()
}

func nodeSecondaries(t *ObjectItem) []string {
	n, known := t.Document.Resources.Node(t.UUID)
	if !known {
		return nil
	}
	return n.Secondaries()
}

// ndpFields are the single node parameters, of nodes and groups.
func ndpFields(parameters func(*ObjectItem) config.Object) []Field[ObjectItem] {
	of := func(name, title string, kind FieldType, doc string) Field[ObjectItem] {
		return field("ndp/"+name, title, kind, doc, memberOf(parameters, name))
	}
	return []Field[ObjectItem]{
		of("cpu_speed", "ndp/cpu_speed", Float, "Speed of the processors, compared with others"),
		of("exclusive_storage", "ExclusiveStorage", Bool, "Whether instances have disks for themselves"),
		of("oob_program", "OutOfBandProgram", Other, "Program that switches the power"),
		of("ovs", "OpenvSwitch", Bool, "Whether there is an Open vSwitch"),
		of("ovs_link", "OpenvSwitchLink", Other, "Interface that connects the Open vSwitch"),
		of("ovs_name", "OpenvSwitchName", Other, "Name of the Open vSwitch"),
		of("spindle_count", "SpindleCount", Number, "Spindles"),
		of("ssh_port", "ndp/ssh_port", Number, "Port of the SSH server"),
	}
}

package query

import (
	"lockstep/core/config"
)

// nodeFields are those of nodes, but for single node parameters. What a node itself would have to be asked is
// unavailable, and offline where the node is.
var nodeFields = append(stamped("node", "Node", HostName), []Field[Thing]{
	field("bootid", "BootID", Text, "Names the node's present boot", ofNode),
	field("cnodes", "CNodes", Number, "Memory nodes of its processors", ofNode),
	field("cnos", "CNOs", Number, "Processors that the node's own system uses", ofNode),
	field("csockets", "CSockets", Number, "Processor sockets", ofNode),
	field("ctotal", "CTotal", Number, "Processors", ofNode),
	field("dfree", "DFree", Unit, "Free storage", ofNode),
	field("dtotal", "DTotal", Unit, "Storage in all", ofNode),
	field("mfree", "MFree", Unit, "Memory for further instances", ofNode),
	field("mnode", "MNode", Unit, "Memory of the node's own system", ofNode),
	field("mtotal", "MTotal", Unit, "Memory in all", ofNode),
	field("spfree", "SpFree", Number, "Free spindles", ofNode),
	field("sptotal", "SpTotal", Number, "Spindles in all", ofNode),
	field("custom_ndparams", "CustomNodeParameters", Other, "Node parameters that are set for this node", asOr("ndparams", "{}")),
	field("ndparams", "NodeParameters", Other, "Node parameters in force", whole(nodeParameters)),
	field("disk_state", "DiskState", Other, "What is set of the state of its disks", as("disk_state_static")),
	field("hv_state", "HypervisorState", Other, "What is set of the state of its hypervisors", as("hv_state_static")),
	field("drained", "Drained", Bool, "Whether no instance is to be put there", asOr("drained", "false")),
	field("offline", "Offline", Bool, "Whether the node is not to be spoken to", asOr("offline", "false")),
	field("master", "IsMaster", Bool, "Whether it is the master node", func(t *Thing) Value { return normal(t.isMaster()) }),
	field("master_candidate", "MasterC", Bool, "Whether it has a copy of the configuration, to become master", asOr("master_candidate", "false")),
	field("master_capable", "MasterCapable", Bool, "Whether it may become a master candidate", asOr("master_capable", "true")),
	field("vm_capable", "VMCapable", Bool, "Whether it may run instances", asOr("vm_capable", "true")),
	field("powered", "Powered", Bool, "Whether it is thought to have power", nodePowered),
	field("role", "Role", Text, `"M" for the master, "C" for a candidate, "D" for drained, "O" for offline, "R" for the rest`, nodeRole),
	field("group", "Group", Text, "Name of its group", func(t *Thing) Value { return textOr(t.groupName(t.Object.Text("group"))) }),
	field("group.uuid", "GroupUUID", Text, "UUID of its group", as("group")),
	field("pip", "PrimaryIP", Text, "Address by which the cluster knows it", as("primary_ip")),
	field("sip", "SecondaryIP", Text, "Address for copies of disks", as("secondary_ip")),
	field("pinst_cnt", "Pinst", Number, "How many instances run there", count(nodePrimaries)),
	field("pinst_list", "PriInstances", Other, "Which instances run there", list(nodePrimaries)),
	field("sinst_cnt", "Sinst", Number, "How many instances have a copy of their disks there", count(nodeSecondaries)),
	field("sinst_list", "SecInstances", Other, "Which instances have a copy of their disks there", list(nodeSecondaries)),
}...)

// exportFields: whether instances are exported to a node only the node knows.
var exportFields = []Field[Thing]{
	hosted(field("node", "Node", Text, "Node with the export", as("name"))),
	field("export", "Export", Text, "Name of the export", ofNode),
}

// ofNode is a field that only a node can tell, which nobody asks.
func ofNode(t *Thing) Value {
	if t.Object.Flag("offline") {
		return Value{Status: Offline}
	}
	return unavailable()
}

func (t *Thing) isMaster() bool { return t.UUID == t.In.Resources.Master() }

func (t *Thing) groupName(uuid string) string { return t.In.Groups[uuid].Text("name") }

// nodePowered is known only of nodes whose power can be switched.
func nodePowered(t *Thing) Value {
	if nodeParameters(t).Text("oob_program") == "" {
		return unavailable()
	}
	return part(t.Object, "powered")
}

func nodeRole(t *Thing) Value {
	role := "R"
	switch {
	case t.isMaster():
		role = "M"
	case t.Object.Flag("master_candidate"):
		role = "C"
	case t.Object.Flag("drained"):
		role = "D"
	case t.Object.Flag("offline"):
		role = "O"
	}
	return normal(role)
}

func nodeParameters(t *Thing) config.Object {
	return t.once("ndparams", func() config.Object {
		group := t.In.Groups[t.Object.Text("group")]
		return config.Filled(t.In.Cluster.Object("ndparams"), group.Object("ndparams"), t.Object.Object("ndparams"))
	})
}

func nodePrimaries(t *Thing) []string {
	n, known := t.In.Resources.Node(t.UUID)
	if !known {
		return nil
	}
	return n.Primaries
}

func nodeSecondaries(t *Thing) []string {
	n, known := t.In.Resources.Node(t.UUID)
	if !known {
		return nil
	}
	return n.Secondaries
}

// ndpFields are the single node parameters, of nodes and groups.
func ndpFields(parameters func(*Thing) config.Object) []Field[Thing] {
	of := func(name, title string, kind FieldType, doc string) Field[Thing] {
		return field("ndp/"+name, title, kind, doc, inObject(parameters, name))
	}
	return []Field[Thing]{
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

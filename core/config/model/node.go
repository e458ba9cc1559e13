package model

// Node is a node (config.md 2.3).
type Node struct {
	Name, PrimaryIP, SecondaryIP      string
	MasterCandidate, Offline, Drained bool
	Group                             string
	MasterCapable, VMCapable          bool
	NDParams                          NDParams
	Powered                           bool
	HVState, DiskState                Params
	Stamp
	Tags []string
}

var nodeTable = newTable([]field[Node]{
	required("name", text, func(n *Node) *string { return &n.Name }),
	required("primary_ip", text, func(n *Node) *string { return &n.PrimaryIP }),
	required("secondary_ip", text, func(n *Node) *string { return &n.SecondaryIP }),
	required("master_candidate", boolean, func(n *Node) *bool { return &n.MasterCandidate }),
	required("offline", boolean, func(n *Node) *bool { return &n.Offline }),
	required("drained", boolean, func(n *Node) *bool { return &n.Drained }),
	required("group", text, func(n *Node) *string { return &n.Group }),
	required("master_capable", boolean, func(n *Node) *bool { return &n.MasterCapable }),
	required("vm_capable", boolean, func(n *Node) *bool { return &n.VMCapable }),
	required("ndparams", ndParams.codec(true), func(n *Node) *NDParams { return &n.NDParams }),
	required("powered", boolean, func(n *Node) *bool { return &n.Powered }),
	unlessEmpty("hv_state_static", params, func(n *Node) *Params { return &n.HVState }),
	unlessEmpty("disk_state_static", params, func(n *Node) *Params { return &n.DiskState }),
}, stamps(func(n *Node) *Stamp { return &n.Stamp }), tags(func(n *Node) *[]string { return &n.Tags }))

// NodeGroup is a node group. Members is unused: Node.Group determines membership.
type NodeGroup struct {
	Name               string
	Members            []string
	NDParams           NDParams
	AllocPolicy        string
	IPolicy            IPolicy
	DiskParams         Dict[Params]
	Networks           Dict[NicParams] // by the uuids of the networks
	HVState, DiskState Params
	Stamp
	Tags []string
}

var groupTable = newTable([]field[NodeGroup]{
	required("name", text, func(g *NodeGroup) *string { return &g.Name }),
	withDefault("members", list(text), nil, func(g *NodeGroup) *[]string { return &g.Members }),
	required("ndparams", ndParams.codec(true), func(g *NodeGroup) *NDParams { return &g.NDParams }),
	required("alloc_policy", enum("AllocPolicy", "preferred", "last_resort", "unallocable"),
		func(g *NodeGroup) *string { return &g.AllocPolicy }),
	required("ipolicy", partialIPolicy, func(g *NodeGroup) *IPolicy { return &g.IPolicy }),
	required("diskparams", dict(params), func(g *NodeGroup) *Dict[Params] { return &g.DiskParams }),
	required("networks", dict(nicParams.codec(true)), func(g *NodeGroup) *Dict[NicParams] { return &g.Networks }),
	unlessEmpty("hv_state_static", params, func(g *NodeGroup) *Params { return &g.HVState }),
	unlessEmpty("disk_state_static", params, func(g *NodeGroup) *Params { return &g.DiskState }),
}, stamps(func(g *NodeGroup) *Stamp { return &g.Stamp }), tags(func(g *NodeGroup) *[]string { return &g.Tags }))

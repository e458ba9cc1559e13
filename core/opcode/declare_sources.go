package opcode

import (
	"lockstep/core/config"
	"lockstep/core/lock"
)

// named is the locks of what the parameters name, each a string or a list of such.
func named(nameOfLock func(*config.Resources, string) string, params ...string) source {
	return func(g *given) lock.Want {
		var names []string
		for _, param := range params {
			names = g.appendTexts(names, param)
		}
		for i, name := range names {
			names[i] = nameOfLock(g.known, name)
		}
		return lock.Of(names...)
	}
}

func instances(params ...string) source { return named(instanceLock, params...) }
func groups(params ...string) source    { return named(groupLock, params...) }
func nodes(params ...string) source     { return named(nodeLock, params...) }
func networks(params ...string) source  { return named(networkLock, params...) }

// fresh is the locks of what will have a UUID that nobody knows yet. The name stands for it, and meets no other lock.
func fresh(param string) source {
	return named(func(_ *config.Resources, name string) string { return name }, param)
}

func instanceLock(r *config.Resources, name string) string {
	if i, known := r.Instance(name); known && i.Name != "" {
		return i.Name
	}
	return name
}

func groupLock(r *config.Resources, name string) string {
	if g, known := r.Group(name); known {
		return g.UUID
	}
	return name
}

func nodeLock(r *config.Resources, name string) string {
	if n, known := r.Node(name); known {
		return n.UUID
	}
	return name
}

func networkLock(r *config.Resources, name string) string {
	if n, known := r.Network(name); known {
		return n.UUID
	}
	return name
}

// look finds the names of what lies behind the thing of a name, false if that thing is unknown.
type look func(r *config.Resources, name string) ([]string, bool)

func ofInstance(list func(*config.Instance) []string) look {
	return func(r *config.Resources, name string) ([]string, bool) {
		if i, known := r.Instance(name); known {
			return list(i), true
		}
		return nil, false
	}
}

func ofGroup(list func(*config.Group) []string) look {
	return func(r *config.Resources, name string) ([]string, bool) {
		if g, known := r.Group(name); known {
			return list(g), true
		}
		return nil, false
	}
}

// behind is what lies behind locks: the nodes of instances, the groups of nodes and so on. Behind something that the
// cluster does not know is something unknown.
func behind(of source, find look) source {
	return func(g *given) lock.Want {
		front := of(g)
		if front.Known != lock.SharedSet {
			return front
		}
		var all []string
		for _, name := range front.Names {
			names, known := find(g.known, name)
			switch {
			case !known:
				return some(g)
			case len(front.Names) == 1:
				return these(names)
			}
			all = append(all, names...)
		}
		return lock.Of(all...)
	}
}

// nodesOf is the nodes of instances, primary and secondary.
func nodesOf(of source) source {
	return behind(of, ofInstance(func(i *config.Instance) []string { return i.Nodes }))
}

// primariesOf is the primary nodes of instances.
func primariesOf(of source) source {
	return behind(of, func(r *config.Resources, name string) ([]string, bool) {
		i, known := r.Instance(name)
		if !known || i.Primary == "" {
			return nil, false
		}
		return []string{i.Primary}, true
	})
}

// networksOf is the networks of instances.
func networksOf(of source) source {
	return behind(of, ofInstance(func(i *config.Instance) []string { return i.Networks }))
}

// groupsOf is the groups of nodes.
func groupsOf(of source) source {
	return behind(of, func(r *config.Resources, name string) ([]string, bool) {
		n, known := r.Node(name)
		if !known || n.Group == "" {
			return nil, false
		}
		return []string{n.Group}, true
	})
}

// nodesIn is the members of groups.
func nodesIn(of source) source {
	return behind(of, ofGroup(func(g *config.Group) []string { return g.Nodes }))
}

// What opcodes name under the usual names, and what lies behind it.
var (
	theInstance     = instances("instance_name")
	instanceNodes   = nodesOf(theInstance)
	instancePrimary = primariesOf(theInstance)
	instanceGroups  = groupsOf(instanceNodes)

	theNode    = nodes("node_name")
	theNetwork = networks("network_name")

	theGroup       = groups("group_name")
	groupMembers   = nodesIn(theGroup)
	groupInstances = behind(theGroup, ofGroup(func(g *config.Group) []string { return g.Instances }))
	// The nodes of those instances, and the groups of these nodes: mirrors may be in other groups.
	groupReach  = behind(theGroup, ofGroup(func(g *config.Group) []string { return g.InstanceNodes }))
	groupsReach = behind(theGroup, ofGroup(func(g *config.Group) []string { return g.InstanceGroups }))
)

// masterNode is where the cluster's master runs.
func masterNode(g *given) lock.Want {
	if master := g.known.Master(); master != "" {
		return lock.Of(master)
	}
	return some(g)
}

// mirroredHere is the instances with a mirror of their disks that have one half on the node.
func mirroredHere(g *given) lock.Want {
	n, known := g.known.Node(g.text("node_name"))
	if !known {
		return some(g)
	}
	var names []string
	for _, name := range n.Primaries {
		if i, known := g.known.Instance(name); known && len(i.Nodes) > 1 {
			names = append(names, name)
		}
	}
	return lock.Of(append(names, n.Secondaries...)...)
}

// evacuated is the instances that have to leave the node.
func evacuated(g *given) lock.Want {
	n, known := g.known.Node(g.text("node_name"))
	if !known {
		return some(g)
	}
	switch g.text("mode") {
	case "primary-only":
		return these(n.Primaries)
	case "secondary-only":
		return these(n.Secondaries)
	}
	return these(n.Primaries).Join(these(n.Secondaries))
}

// listedNodes is the nodes that the opcodes within OP_INSTANCE_MULTI_ALLOC name.
func listedNodes(g *given) lock.Want {
	var want lock.Want
	for inner := range elements(g.value("instances")) {
		want = want.Join(nodes("pnode", "snode")(give(inner, g.known)))
	}
	return want
}

// unplaced: some instance of OP_INSTANCE_MULTI_ALLOC has no node yet.
func unplaced(g *given) bool {
	for inner := range elements(g.value("instances")) {
		if give(inner, g.known).text("pnode") == "" {
			return true
		}
	}
	return false
}

// externallyMirrored: the instance can move to any node. Of an unknown one nobody can say.
func externallyMirrored(g *given) bool {
	i, known := g.known.Instance(g.text("instance_name"))
	return known && config.ExternallyMirrored(i.Template)
}

// mayDemote: what OP_NODE_SET_PARAMS sets may cost the node its place among the master candidates.
func mayDemote(g *given) bool {
	return !g.flag("master_candidate", true) || !g.flag("master_capable", true) ||
		g.flag("offline", false) || g.flag("drained", false)
}

package demand

import (
	"lockstep/core/config"
	"lockstep/core/lock"
	"lockstep/core/rawjson"
)

// named is the locks of the objects in the parameters, each of which is a string or a list of strings.
func named(nameOfLock func(*config.Resources, string) string, params ...string) lockSource {
	return func(g *Params) lock.Demand {
		var names []string
		for _, param := range params {
			names = g.appendTexts(names, param)
		}
		for i, name := range names {
			names[i] = nameOfLock(g.resources, name)
		}
		return lock.SharedSetOf(names...)
	}
}

func instances(params ...string) lockSource { return named(instanceLock, params...) }
func groups(params ...string) lockSource    { return named(groupLock, params...) }
func nodes(params ...string) lockSource     { return named(nodeLock, params...) }
func networks(params ...string) lockSource  { return named(networkLock, params...) }

// newName is the lock of an object that does not exist yet and has no UUID. The lock has its name, and conflicts with
// no other lock.
func newName(param string) lockSource {
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

// relationFunc finds the names of the objects that the named object refers to, false if that object is unknown.
type relationFunc func(r *config.Resources, name string) ([]string, bool)

func ofInstance(list func(*config.Instance) []string) relationFunc {
	return func(r *config.Resources, name string) ([]string, bool) {
		if i, known := r.Instance(name); known {
			return list(i), true
		}
		return nil, false
	}
}

func ofGroup(list func(*config.Group) []string) relationFunc {
	return func(r *config.Resources, name string) ([]string, bool) {
		if g, known := r.Group(name); known {
			return list(g), true
		}
		return nil, false
	}
}

// related is the locks of the objects to which locked objects refer: the nodes of instances, the groups of nodes and so on. An object
// that the cluster does not know refers to unknown locks. A demand that is not a set of names is returned as it is.
func related(of lockSource, find relationFunc) lockSource {
	return func(g *Params) lock.Demand {
		named := of(g)
		if named.Kind != lock.SharedSet {
			return named
		}
		var all []string
		for _, name := range named.Names {
			names, known := find(g.resources, name)
			switch {
			case !known:
				return unknownLocks(g)
			case len(named.Names) == 1:
				return sortedNames(names)
			}
			all = append(all, names...)
		}
		return lock.SharedSetOf(all...)
	}
}

// nodesOf is the nodes of instances, primary and secondary.
func nodesOf(of lockSource) lockSource {
	return related(of, ofInstance(func(i *config.Instance) []string { return i.Nodes }))
}

// primariesOf is the primary nodes of instances.
func primariesOf(of lockSource) lockSource {
	return related(of, func(r *config.Resources, name string) ([]string, bool) {
		i, known := r.Instance(name)
		if !known || i.Primary == "" {
			return nil, false
		}
		return []string{i.Primary}, true
	})
}

// networksOf is the networks of instances.
func networksOf(of lockSource) lockSource {
	return related(of, ofInstance(func(i *config.Instance) []string { return i.Networks }))
}

// groupsOf is the groups of nodes.
func groupsOf(of lockSource) lockSource {
	return related(of, func(r *config.Resources, name string) ([]string, bool) {
		n, known := r.Node(name)
		if !known || n.Group == "" {
			return nil, false
		}
		return []string{n.Group}, true
	})
}

// nodesIn is the members of groups.
func nodesIn(of lockSource) lockSource {
	return related(of, ofGroup(func(g *config.Group) []string { return g.Nodes() }))
}

// The objects that opcodes name in their usual parameters, and those to which these refer.
var (
	theInstance     = instances("instance_name")
	instanceNodes   = nodesOf(theInstance)
	instancePrimary = primariesOf(theInstance)
	instanceGroups  = groupsOf(instanceNodes)

	theNode    = nodes("node_name")
	theNetwork = networks("network_name")

	theGroup       = groups("group_name")
	groupMembers   = nodesIn(theGroup)
	groupInstances = related(theGroup, ofGroup(func(g *config.Group) []string { return g.Instances() }))
	// The nodes of those instances, and the groups of these nodes: mirrors may be in other groups.
	groupInstanceNodes  = related(theGroup, ofGroup(func(g *config.Group) []string { return g.InstanceNodes() }))
	groupInstanceGroups = related(theGroup, ofGroup(func(g *config.Group) []string { return g.InstanceGroups() }))
)

// masterNode is where the cluster's master runs.
func masterNode(g *Params) lock.Demand {
	if master := g.resources.Master(); master != "" {
		return lock.SharedSetOf(master)
	}
	return unknownLocks(g)
}

// mirroredOnNode is the instances with mirrored disks of which one copy is on the node.
func mirroredOnNode(g *Params) lock.Demand {
	n, known := g.resources.Node(g.text("node_name"))
	if !known {
		return unknownLocks(g)
	}
	var names []string
	for _, name := range n.Primaries() {
		if i, known := g.resources.Instance(name); known && len(i.Nodes) > 1 {
			names = append(names, name)
		}
	}
	return lock.SharedSetOf(append(names, n.Secondaries()...)...)
}

// evacuated demands the instances that an evacuation of the node moves away, by its mode: primary, secondary or all ones.
func evacuated(g *Params) lock.Demand {
	n, known := g.resources.Node(g.text("node_name"))
	if !known {
		return unknownLocks(g)
	}
	switch g.text("mode") {
	case "primary-only":
		return sortedNames(n.Primaries())
	case "secondary-only":
		return sortedNames(n.Secondaries())
	}
	return sortedNames(n.Primaries()).Join(sortedNames(n.Secondaries()))
}

// listedNodes is the nodes that the opcodes within OP_INSTANCE_MULTI_ALLOC name.
func listedNodes(g *Params) lock.Demand {
	var want lock.Demand
	for inner := range rawjson.Elements(g.Value("instances")) {
		want = want.Join(nodes("pnode", "snode")(Read(inner, g.resources)))
	}
	return want
}

// someUnplaced reports whether an instance of OP_INSTANCE_MULTI_ALLOC has no node yet.
func someUnplaced(g *Params) bool {
	for inner := range rawjson.Elements(g.Value("instances")) {
		if Read(inner, g.resources).text("pnode") == "" {
			return true
		}
	}
	return false
}

// externallyMirrored reports whether the instance can move to any node. It is false for an unknown instance.
func externallyMirrored(g *Params) bool {
	i, known := g.resources.Instance(g.text("instance_name"))
	return known && config.ExternallyMirrored(i.Template)
}

// mayDemote reports whether the parameters of OP_NODE_SET_PARAMS may remove the node from the master candidates.
func mayDemote(g *Params) bool {
	return !g.flag("master_candidate", true) || !g.flag("master_capable", true) ||
		g.flag("offline", false) || g.flag("drained", false)
}

package demand

import "lockstep/core/lock"

// lockTable is the table of queue.md 8.3: the locks that Ganeti's logical units take. An opcode that does not want the
// big lock exclusively takes it shared, which the table omits. The row of an opcode that only submits jobs has its own
// locks, not those of the submitted jobs.
//
// Opportunistic locks are unknown locks, because it cannot be predicted which will be free.
var lockTable = map[string][]tableEntry{
	"OP_CLUSTER_POST_INIT":            bgl,
	"OP_CLUSTER_DESTROY":              bgl,
	"OP_CLUSTER_RENAME":               bgl,
	"OP_CLUSTER_ACTIVATE_MASTER_IP":   bgl,
	"OP_CLUSTER_DEACTIVATE_MASTER_IP": bgl,
	"OP_NODE_ADD":                     bgl,
	"OP_NODE_REMOVE":                  bgl,
	"OP_TEST_ALLOCATOR":               bgl,

	"OP_CLUSTER_QUERY":        {},
	"OP_CLUSTER_CONFIG_QUERY": {},
	"OP_CLUSTER_VERIFY":       {},
	"OP_CLUSTER_VERIFY_CONFIG": {
		shared(allLocks, lock.Instance, lock.NodeGroup, lock.Node, lock.NodeRes, lock.Network),
	},
	"OP_CLUSTER_VERIFY_GROUP": {
		shared(theGroup, lock.NodeGroup),
		shared(groupInstances, lock.Instance),
		shared(unionOf(groupMembers, groupInstanceNodes), lock.Node),
	},
	"OP_CLUSTER_VERIFY_DISKS": {shared(orAllLocks(theGroup), lock.NodeGroup)},
	"OP_GROUP_VERIFY_DISKS": {
		shared(either(isNotFalse("is_strict"), groupInstances, unknownLocks), lock.Instance),
		shared(unionOf(theGroup, groupInstanceGroups), lock.NodeGroup),
		shared(either(isNotFalse("is_strict"), unionOf(groupMembers, groupInstanceNodes), unknownLocks), lock.Node),
	},
	"OP_CLUSTER_REPAIR_DISK_SIZES": {
		exclusive(orAllLocks(instances("instances")), lock.Instance),
		shared(orAllLocks(primariesOf(instances("instances"))), lock.NodeRes),
	},
	"OP_CLUSTER_SET_PARAMS":   {shared(allLocks, lock.Instance, lock.NodeGroup, lock.Node)},
	"OP_CLUSTER_REDIST_CONF":  {shared(allLocks, lock.Node)},
	"OP_CLUSTER_RENEW_CRYPTO": {exclusive(allLocks, lock.Node)},

	"OP_QUERY":        {},
	"OP_QUERY_FIELDS": {},

	"OP_OOB_COMMAND": {exclusive(orAllLocks(nodes("node_names")), lock.Node)},
	"OP_RESTRICTED_COMMAND": {
		shared(unless(isTrue("use_locking"), nodes("nodes")), lock.Node),
		exclusive(when(isTrue("use_locking"), nodes("nodes")), lock.Node),
	},

	"OP_NODE_QUERYVOLS":      {shared(orAllLocks(nodes("nodes")), lock.Node)},
	"OP_NODE_QUERY_STORAGE":  {shared(orAllLocks(nodes("nodes")), lock.Node)},
	"OP_NODE_MODIFY_STORAGE": {exclusive(theNode, lock.Node)},
	"OP_REPAIR_NODE_STORAGE": {exclusive(theNode, lock.Node)},
	"OP_NODE_SET_PARAMS": {
		exclusive(either(allOf(isTrue("auto_promote"), mayDemote), allLocks, theNode), lock.Node, lock.NodeRes),
		shared(when(isSet("secondary_ip"), mirroredOnNode), lock.Instance),
	},
	"OP_NODE_POWERCYCLE": {},
	"OP_NODE_MIGRATE":    {shared(theNode, lock.Node)},
	"OP_NODE_EVACUATE": {
		shared(evacuated, lock.Instance),
		shared(groupsOf(evacuationNodes), lock.NodeGroup),
		shared(evacuationNodes, lock.Node),
	},

	"OP_INSTANCE_CREATE": {
		exclusive(theInstance, lock.Instance),
		shared(groupsOf(creationNodes(allLocks)), lock.NodeGroup),
		exclusive(creationNodes(either(isTrue("opportunistic_locking"), unknownLocks, allLocks)), lock.Node, lock.NodeRes),
	},
	"OP_INSTANCE_MULTI_ALLOC": {
		shared(either(anyOf(isSet("iallocator"), someUnplaced),
			either(isTrue("opportunistic_locking"), unknownLocks, allLocks),
			listedNodes), lock.Node, lock.NodeRes),
	},
	"OP_INSTANCE_REINSTALL": {exclusive(theInstance, lock.Instance)},
	"OP_INSTANCE_SHUTDOWN":  {exclusive(theInstance, lock.Instance)},
	"OP_INSTANCE_REBOOT":    {exclusive(theInstance, lock.Instance)},
	"OP_INSTANCE_STARTUP":   {exclusive(theInstance, lock.Instance)},
	"OP_INSTANCE_REMOVE": {
		exclusive(theInstance, lock.Instance),
		exclusive(instanceNodes, lock.Node, lock.NodeRes),
	},
	"OP_INSTANCE_RENAME": {exclusive(instances("instance_name", "new_name"), lock.Instance)},
	"OP_INSTANCE_REPLACE_DISKS": {
		exclusive(theInstance, lock.Instance),
		shared(when(allocatesMirror, instanceGroups), lock.NodeGroup),
		exclusive(either(allocatesMirror,
			nodesIn(instanceGroups),
			unionOf(nodes("remote_node"), instanceNodes)), lock.Node, lock.NodeRes),
	},
	"OP_INSTANCE_FAILOVER": movingLocks,
	"OP_INSTANCE_MIGRATE":  movingLocks,
	"OP_INSTANCE_MOVE": {
		exclusive(theInstance, lock.Instance),
		exclusive(unionOf(instancePrimary, nodes("target_node")), lock.Node, lock.NodeRes),
	},
	"OP_INSTANCE_CONSOLE": {shared(theInstance, lock.Instance)},
	"OP_INSTANCE_ACTIVATE_DISKS": {
		exclusive(theInstance, lock.Instance),
		exclusive(instanceNodes, lock.Node),
	},
	"OP_INSTANCE_DEACTIVATE_DISKS": {
		exclusive(theInstance, lock.Instance),
		exclusive(instanceNodes, lock.Node),
	},
	"OP_INSTANCE_RECREATE_DISKS": {
		exclusive(theInstance, lock.Instance),
		shared(when(allOf(not(isSet("nodes")), isSet("iallocator")), groupsOf(instancePrimary)), lock.NodeGroup),
		exclusive(either(isSet("nodes"), nodes("nodes"),
			either(isSet("iallocator"), nodesIn(groupsOf(instancePrimary)),
				instanceNodes)), lock.Node, lock.NodeRes),
	},
	"OP_INSTANCE_QUERY_DATA": {
		shared(queried(instances("instances")), lock.Instance),
		shared(queried(groupsOf(nodesOf(instances("instances")))), lock.NodeGroup),
		shared(queried(nodesOf(instances("instances"))), lock.Node),
		shared(queried(networksOf(instances("instances"))), lock.Network),
	},
	"OP_INSTANCE_SET_PARAMS": {
		exclusive(theInstance, lock.Instance),
		shared(instanceGroups, lock.NodeGroup),
		exclusive(conversionNodes, lock.Node),
		exclusive(when(isSet("disk_template"), conversionNodes), lock.NodeRes),
	},
	"OP_INSTANCE_GROW_DISK": {
		exclusive(theInstance, lock.Instance),
		exclusive(instanceNodes, lock.Node, lock.NodeRes),
	},
	"OP_INSTANCE_CHANGE_GROUP": {
		shared(theInstance, lock.Instance),
		shared(changedGroups, lock.NodeGroup),
		shared(unionOf(nodesIn(changedGroups), instanceNodes), lock.Node),
	},

	"OP_GROUP_ADD": {exclusive(newName("group_name"), lock.NodeGroup)},
	"OP_GROUP_ASSIGN_NODES": {
		exclusive(unionOf(theGroup, groupsOf(nodes("nodes"))), lock.NodeGroup),
		exclusive(nodes("nodes"), lock.Node),
	},
	"OP_GROUP_SET_PARAMS": {
		exclusive(theGroup, lock.NodeGroup),
		shared(groupInstances, lock.Instance),
	},
	"OP_GROUP_REMOVE": {exclusive(theGroup, lock.NodeGroup)},
	"OP_GROUP_RENAME": {exclusive(theGroup, lock.NodeGroup)},
	"OP_GROUP_EVACUATE": {
		shared(groupInstances, lock.Instance),
		shared(evacuationGroups, lock.NodeGroup),
		shared(unionOf(nodesIn(evacuationGroups), groupInstanceNodes), lock.Node),
	},

	"OP_OS_DIAGNOSE":          {},
	"OP_EXT_STORAGE_DIAGNOSE": {},
	"OP_BACKUP_PREPARE":       {exclusive(theInstance, lock.Instance)},
	"OP_BACKUP_EXPORT": {
		exclusive(theInstance, lock.Instance),
		exclusive(unless(is("mode", "remote"), allLocks), lock.Node),
	},
	"OP_BACKUP_REMOVE": {exclusive(allLocks, lock.Node)},

	"OP_TAGS_GET": {
		shared(when(allOf(isTrue("use_locking"), is("kind", "instance")), instances("name")), lock.Instance),
		shared(when(allOf(isTrue("use_locking"), is("kind", "nodegroup")), groups("name")), lock.NodeGroup),
		shared(when(allOf(isTrue("use_locking"), is("kind", "node")), nodes("name")), lock.Node),
		shared(when(allOf(isTrue("use_locking"), is("kind", "network")), networks("name")), lock.Network),
	},
	"OP_TAGS_SET":    taggingLocks,
	"OP_TAGS_DEL":    taggingLocks,
	"OP_TAGS_SEARCH": {},

	"OP_NETWORK_ADD": {
		exclusive(newName("network_name"), lock.Network),
		shared(when(isNotFalse("conflicts_check"), allLocks), lock.Node),
	},
	"OP_NETWORK_REMOVE": {
		exclusive(theNetwork, lock.Network),
		shared(allLocks, lock.NodeGroup),
	},
	"OP_NETWORK_RENAME":     {exclusive(theNetwork, lock.Network)},
	"OP_NETWORK_SET_PARAMS": {exclusive(theNetwork, lock.Network)},
	"OP_NETWORK_CONNECT": {
		exclusive(theGroup, lock.NodeGroup),
		shared(when(isNotFalse("conflicts_check"), groupInstances), lock.Instance),
		shared(when(isNotFalse("conflicts_check"), theNetwork), lock.Network),
	},
	"OP_NETWORK_DISCONNECT": {
		exclusive(theGroup, lock.NodeGroup),
		shared(groupInstances, lock.Instance),
	},

	"OP_TEST_DELAY": {
		exclusive(unless(isNotFalse("no_locks"), // unlike in Ganeti this parameter has an effect (design.md "Differences")
			unionOf(nodes("on_nodes"), when(isNotFalse("on_master"), masterNode))), lock.Node),
	},
	"OP_TEST_JQUEUE":    {exclusive(masterNode, lock.Node)},
	"OP_TEST_OS_PARAMS": {},
	"OP_TEST_DUMMY":     {}, // never executed
}

// Entries that several rows share, or that need an explanation.
var (
	movingLocks = []tableEntry{
		exclusive(theInstance, lock.Instance),
		exclusive(either(externallyMirrored,
			either(isSet("target_node"), unionOf(instancePrimary, nodes("target_node")), allLocks),
			instanceNodes), lock.Node, lock.NodeRes),
	}

	taggingLocks = []tableEntry{
		exclusive(when(is("kind", "instance"), instances("name")), lock.Instance),
		exclusive(when(is("kind", "nodegroup"), groups("name")), lock.NodeGroup),
		exclusive(when(is("kind", "node"), nodes("name")), lock.Node),
		exclusive(when(is("kind", "network"), networks("name")), lock.Network),
	}

	evacuationNodes = unionOf(theNode,
		either(isSet("remote_node"), nodes("remote_node"), nodesIn(groupsOf(theNode))))

	evacuationGroups = either(isSet("target_groups"), unionOf(theGroup, groups("target_groups"), groupInstanceGroups), allLocks)

	changedGroups = either(isSet("target_groups"), unionOf(groups("target_groups"), instanceGroups), allLocks)

	// allocatesMirror: an allocator, the cluster's own if none is named, chooses the new secondary node.
	allocatesMirror = anyOf(isSet("iallocator"),
		allOf(is("mode", "replace_new_secondary"), not(isSet("remote_node"))))

	conversionNodes = unionOf(instanceNodes,
		when(isSet("disk_template"), nodes("remote_node")),
		when(allOf(is("disk_template", "drbd"), not(isSet("remote_node"))), nodesIn(instanceGroups)))
)

// queried is the locks for a query of some or all instances. A query that the configuration can answer needs none.
func queried(listed lockSource) lockSource {
	return unless(allOf(isTrue("static"), not(isTrue("use_locking"))), either(isSet("instances"), listed, allLocks))
}

// creationNodes is the nodes of an instance to be created: the planned nodes, the nodes from which an allocator chooses
// (the cluster's default allocator if neither an allocator nor a node is named), or the named nodes; and the node with
// its image.
func creationNodes(chosen lockSource) lockSource {
	return either(isTrue("commit"), instanceNodes,
		either(anyOf(isSet("iallocator"), not(isSet("pnode"))), chosen,
			unionOf(nodes("pnode", "snode"), when(is("mode", "import"), orAllLocks(nodes("src_node"))))))
}

// Listed reports whether the lock table has the opcode. It has all of Ganeti 3.0, and one of a later Ganeti.
func Listed(opcode string) bool {
	_, listed := lockTable[opcode]
	return listed
}

package opcode

import "lockstep/core/lock"

// lockTable is the table of queue.md 8.3, row by row: what Ganeti's logical units really take. Whoever does not want
// the big lock exclusively has it shared, which is said nowhere here. An opcode that only submits jobs has a row for its
// own locks; those of the jobs are theirs.
//
// Opportunistic locks are some of all: which ones will be free cannot be told.
var lockTable = map[string][]claim{
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
		shared(all, lock.Instance, lock.NodeGroup, lock.Node, lock.NodeRes, lock.Network),
	},
	"OP_CLUSTER_VERIFY_GROUP": {
		shared(theGroup, lock.NodeGroup),
		shared(groupInstances, lock.Instance),
		shared(together(groupMembers, groupReach), lock.Node),
	},
	"OP_CLUSTER_VERIFY_DISKS": {shared(orAll(theGroup), lock.NodeGroup)},
	"OP_GROUP_VERIFY_DISKS": {
		shared(either(isntFalse("is_strict"), groupInstances, some), lock.Instance),
		shared(together(theGroup, groupsReach), lock.NodeGroup),
		shared(either(isntFalse("is_strict"), together(groupMembers, groupReach), some), lock.Node),
	},
	"OP_CLUSTER_REPAIR_DISK_SIZES": {
		exclusive(orAll(instances("instances")), lock.Instance),
		shared(orAll(primariesOf(instances("instances"))), lock.NodeRes),
	},
	"OP_CLUSTER_SET_PARAMS":   {shared(all, lock.Instance, lock.NodeGroup, lock.Node)},
	"OP_CLUSTER_REDIST_CONF":  {shared(all, lock.Node)},
	"OP_CLUSTER_RENEW_CRYPTO": {exclusive(all, lock.Node)},

	"OP_QUERY":        {},
	"OP_QUERY_FIELDS": {},

	"OP_OOB_COMMAND": {exclusive(orAll(nodes("node_names")), lock.Node)},
	"OP_RESTRICTED_COMMAND": {
		shared(unless(isTrue("use_locking"), nodes("nodes")), lock.Node),
		exclusive(when(isTrue("use_locking"), nodes("nodes")), lock.Node),
	},

	"OP_NODE_QUERYVOLS":      {shared(orAll(nodes("nodes")), lock.Node)},
	"OP_NODE_QUERY_STORAGE":  {shared(orAll(nodes("nodes")), lock.Node)},
	"OP_NODE_MODIFY_STORAGE": {exclusive(theNode, lock.Node)},
	"OP_REPAIR_NODE_STORAGE": {exclusive(theNode, lock.Node)},
	"OP_NODE_SET_PARAMS": {
		exclusive(either(allOf(isTrue("auto_promote"), mayDemote), all, theNode), lock.Node, lock.NodeRes),
		shared(when(isSet("secondary_ip"), mirroredHere), lock.Instance),
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
		shared(groupsOf(creationNodes(all)), lock.NodeGroup),
		exclusive(creationNodes(either(isTrue("opportunistic_locking"), some, all)), lock.Node, lock.NodeRes),
	},
	"OP_INSTANCE_MULTI_ALLOC": {
		shared(either(anyOf(isSet("iallocator"), unplaced),
			either(isTrue("opportunistic_locking"), some, all),
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
			together(nodes("remote_node"), instanceNodes)), lock.Node, lock.NodeRes),
	},
	"OP_INSTANCE_FAILOVER": moving,
	"OP_INSTANCE_MIGRATE":  moving,
	"OP_INSTANCE_MOVE": {
		exclusive(theInstance, lock.Instance),
		exclusive(together(instancePrimary, nodes("target_node")), lock.Node, lock.NodeRes),
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
		shared(together(nodesIn(changedGroups), instanceNodes), lock.Node),
	},

	"OP_GROUP_ADD": {exclusive(fresh("group_name"), lock.NodeGroup)},
	"OP_GROUP_ASSIGN_NODES": {
		exclusive(together(theGroup, groupsOf(nodes("nodes"))), lock.NodeGroup),
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
		shared(together(nodesIn(evacuationGroups), groupReach), lock.Node),
	},

	"OP_OS_DIAGNOSE":          {},
	"OP_EXT_STORAGE_DIAGNOSE": {},
	"OP_BACKUP_PREPARE":       {exclusive(theInstance, lock.Instance)},
	"OP_BACKUP_EXPORT": {
		exclusive(theInstance, lock.Instance),
		exclusive(unless(is("mode", "remote"), all), lock.Node),
	},
	"OP_BACKUP_REMOVE": {exclusive(all, lock.Node)},

	"OP_TAGS_GET": {
		shared(when(allOf(isTrue("use_locking"), is("kind", "instance")), instances("name")), lock.Instance),
		shared(when(allOf(isTrue("use_locking"), is("kind", "nodegroup")), groups("name")), lock.NodeGroup),
		shared(when(allOf(isTrue("use_locking"), is("kind", "node")), nodes("name")), lock.Node),
		shared(when(allOf(isTrue("use_locking"), is("kind", "network")), networks("name")), lock.Network),
	},
	"OP_TAGS_SET":    tagging,
	"OP_TAGS_DEL":    tagging,
	"OP_TAGS_SEARCH": {},

	"OP_NETWORK_ADD": {
		exclusive(fresh("network_name"), lock.Network),
		shared(when(isntFalse("conflicts_check"), all), lock.Node),
	},
	"OP_NETWORK_REMOVE": {
		exclusive(theNetwork, lock.Network),
		shared(all, lock.NodeGroup),
	},
	"OP_NETWORK_RENAME":     {exclusive(theNetwork, lock.Network)},
	"OP_NETWORK_SET_PARAMS": {exclusive(theNetwork, lock.Network)},
	"OP_NETWORK_CONNECT": {
		exclusive(theGroup, lock.NodeGroup),
		shared(when(isntFalse("conflicts_check"), groupInstances), lock.Instance),
		shared(when(isntFalse("conflicts_check"), theNetwork), lock.Network),
	},
	"OP_NETWORK_DISCONNECT": {
		exclusive(theGroup, lock.NodeGroup),
		shared(groupInstances, lock.Instance),
	},

	"OP_TEST_DELAY": {
		exclusive(unless(isntFalse("no_locks"), // which has an effect here (design.md 8)
			together(nodes("on_nodes"), when(isntFalse("on_master"), masterNode))), lock.Node),
	},
	"OP_TEST_JQUEUE":    {exclusive(masterNode, lock.Node)},
	"OP_TEST_OS_PARAMS": {},
	"OP_TEST_DUMMY":     {}, // nothing executes it
}

// Entries that several rows have in common, or that need a word of explanation.
var (
	moving = []claim{
		exclusive(theInstance, lock.Instance),
		exclusive(either(externallyMirrored,
			either(isSet("target_node"), together(instancePrimary, nodes("target_node")), all),
			instanceNodes), lock.Node, lock.NodeRes),
	}

	tagging = []claim{
		exclusive(when(is("kind", "instance"), instances("name")), lock.Instance),
		exclusive(when(is("kind", "nodegroup"), groups("name")), lock.NodeGroup),
		exclusive(when(is("kind", "node"), nodes("name")), lock.Node),
		exclusive(when(is("kind", "network"), networks("name")), lock.Network),
	}

	evacuationNodes = together(theNode,
		either(isSet("remote_node"), nodes("remote_node"), nodesIn(groupsOf(theNode))))

	evacuationGroups = either(isSet("target_groups"), together(theGroup, groups("target_groups"), groupsReach), all)

	changedGroups = either(isSet("target_groups"), together(groups("target_groups"), instanceGroups), all)

	// allocatesMirror: an allocator, the cluster's own if none is named, chooses the new secondary node.
	allocatesMirror = anyOf(isSet("iallocator"),
		allOf(is("mode", "replace_new_secondary"), not(isSet("remote_node"))))

	conversionNodes = together(instanceNodes,
		when(isSet("disk_template"), nodes("remote_node")),
		when(allOf(is("disk_template", "drbd"), not(isSet("remote_node"))), nodesIn(instanceGroups)))
)

// queried is the locks for a question about some instances, or about all of them, and none if the configuration alone can
// answer it.
func queried(listed source) source {
	return unless(allOf(isTrue("static"), not(isTrue("use_locking"))), either(isSet("instances"), listed, all))
}

// creationNodes is the nodes of an instance that shall be: those it is planned for, those that an allocator chooses from
// (the cluster's own if neither one nor a node is named), or those that are named; and where its image comes from.
func creationNodes(chosen source) source {
	return either(isTrue("commit"), instanceNodes,
		either(anyOf(isSet("iallocator"), not(isSet("pnode"))), chosen,
			together(nodes("pnode", "snode"), when(is("mode", "import"), orAll(nodes("src_node"))))))
}

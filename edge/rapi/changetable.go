package rapi

import (
	"encoding/json"
	"net/http"
	"strings"
)

// changes are all operations that submit one opcode (queue.md 6.5).
var changes = append([]change{
	{http.MethodPost, "/2/instances", "create-instance", "OP_INSTANCE_CREATE", "instances", "Create an instance", parameters,
		map[string]string{"os": "os_type", "name": "instance_name"}, []fixedParameter{dryRun}, adaptCreation},
	{http.MethodPost, "/2/instances-multi-alloc", "create-instances", "OP_INSTANCE_MULTI_ALLOC", "instances_multi_alloc",
		"Create several instances", parameters,
		nil, []fixedParameter{dryRun}, adaptCreations},
	{http.MethodDelete, "/2/instances/{name}", "delete-instance", "OP_INSTANCE_REMOVE", "instances_name",
		"Remove an instance", parameters,
		nil, []fixedParameter{instanceName, constant("ignore_failures", "false"), dryRun}, nil},
	{http.MethodGet, "/2/instances/{name}/info", "instance-info", "OP_INSTANCE_QUERY_DATA", "instances_name_info",
		"Submit a job that describes an instance", noParameters,
		nil, []fixedParameter{inList("instances"), flagged("static")}, nil},
	ofInstance(http.MethodPost, "reboot", "OP_INSTANCE_REBOOT", "Restart an instance",
		parameters, rebootType, flagged("ignore_secondaries"), dryRun),
	ofInstance(http.MethodPut, "startup", "OP_INSTANCE_STARTUP", "Start an instance",
		noParameters, flagged("force"), dryRun, flagged("no_remember")),
	ofInstance(http.MethodPut, "shutdown", "OP_INSTANCE_SHUTDOWN", "Stop an instance", parameters, flagged("no_remember"), dryRun),
	adapted(ofInstance(http.MethodPost, "replace-disks", "OP_INSTANCE_REPLACE_DISKS", "Replace disks of an instance", parameters), adaptDisks),
	ofInstance(http.MethodPut, "activate-disks", "OP_INSTANCE_ACTIVATE_DISKS", "Activate the disks of an instance",
		noParameters, flagged("ignore_size")),
	ofInstance(http.MethodPut, "deactivate-disks", "OP_INSTANCE_DEACTIVATE_DISKS", "Deactivate the disks of an instance",
		noParameters, flagged("force")),
	ofInstance(http.MethodPost, "recreate-disks", "OP_INSTANCE_RECREATE_DISKS", "Make the disks of an instance again", parameters),
	ofInstance(http.MethodPut, "prepare-export", "OP_BACKUP_PREPARE", "Prepare the export of an instance", noParameters, textOf("mode")),
	renaming(ofInstance(http.MethodPut, "export", "OP_BACKUP_EXPORT", "Export an instance", parameters), "destination", "target_node"),
	ofInstance(http.MethodPut, "migrate", "OP_INSTANCE_MIGRATE", "Move a running instance to its other node", parameters),
	ofInstance(http.MethodPut, "failover", "OP_INSTANCE_FAILOVER", "Start an instance on its other node", parameters),
	ofInstance(http.MethodPut, "rename", "OP_INSTANCE_RENAME", "Rename an instance", parameters),
	adapted(renaming(ofInstance(http.MethodPut, "modify", "OP_INSTANCE_SET_PARAMS", "Change an instance", parameters),
		"custom_beparams", "beparams", "custom_hvparams", "hvparams"), adaptDevices),
	{http.MethodPost, "/2/instances/{name}/disk/{disk}/grow", "grow-disk", "OP_INSTANCE_GROW_DISK", "instances_name_disk_grow",
		"Enlarge a disk of an instance", parameters,
		nil, []fixedParameter{instanceName, {"disk", func(c *call) (raw, error) {
			return raw(strings.TrimLeft(c.params["disk"], "0") + onlyZeros(c.params["disk"])), nil
		}}}, nil},

	ofNode("powercycle", "OP_NODE_POWERCYCLE", "Restart a node hard", flagged("force")),
	ofNode("evacuate", "OP_NODE_EVACUATE", "Move the instances of a node away", dryRun),
	adapted(ofNode("migrate", "OP_NODE_MIGRATE", "Move the running instances of a node"), adaptNodeMigration),
	ofNode("modify", "OP_NODE_SET_PARAMS", "Change a node"),
	{http.MethodPut, "/2/nodes/{name}/role", "set-node-role", "OP_NODE_SET_PARAMS", "nodes_name_role",
		"Set the role of a node", noParameters,
		nil, append([]fixedParameter{nodeName, flagged("force"), flagOf("auto_promote", "auto-promote")}, roleParameters...), nil},
	{http.MethodGet, "/2/nodes/{name}/storage", "node-storage", "OP_NODE_QUERY_STORAGE", "nodes_name_storage",
		"Submit a job that lists the storage of a node", noParameters,
		nil, []fixedParameter{inList("nodes"), textOf("storage_type"), {"output_fields", outputFields}}, nil},
	{http.MethodPut, "/2/nodes/{name}/storage/modify", "modify-node-storage", "OP_NODE_MODIFY_STORAGE", "nodes_name_storage_modify",
		"Change a storage of a node", noParameters,
		nil, []fixedParameter{nodeName, textOf("storage_type"), requiredText("name"), {"changes", storageChanges}}, nil},
	{http.MethodPut, "/2/nodes/{name}/storage/repair", "repair-node-storage", "OP_REPAIR_NODE_STORAGE", "nodes_name_storage_repair",
		"Repair a storage of a node", noParameters,
		nil, []fixedParameter{nodeName, textOf("storage_type"), requiredText("name")}, nil},

	{http.MethodPost, "/2/groups", "create-group", "OP_GROUP_ADD", "groups", "Create a node group", parameters,
		map[string]string{"name": "group_name"}, []fixedParameter{dryRun}, nil},
	{http.MethodDelete, "/2/groups/{name}", "delete-group", "OP_GROUP_REMOVE", "groups_name", "Remove a node group", noParameters,
		nil, []fixedParameter{inPath("group_name"), dryRun}, nil},
	renaming(ofGroup("modify", "OP_GROUP_SET_PARAMS", "Change a node group"),
		"custom_ndparams", "ndparams", "custom_ipolicy", "ipolicy", "custom_diskparams", "diskparams"),
	ofGroup("rename", "OP_GROUP_RENAME", "Rename a node group", dryRun),
	ofGroup("assign-nodes", "OP_GROUP_ASSIGN_NODES", "Assign nodes to a node group", dryRun, flagged("force")),

	{http.MethodPost, "/2/networks", "create-network", "OP_NETWORK_ADD", "networks", "Create a network", parameters,
		map[string]string{"name": "network_name"}, []fixedParameter{dryRun}, nil},
	{http.MethodDelete, "/2/networks/{name}", "delete-network", "OP_NETWORK_REMOVE", "networks_name",
		"Remove a network", parameters,
		nil, []fixedParameter{inPath("network_name"), dryRun}, nil},
	ofNetwork("connect", "OP_NETWORK_CONNECT", "Connect a network to a node group", dryRun),
	ofNetwork("disconnect", "OP_NETWORK_DISCONNECT", "Disconnect a network from a node group", dryRun),
	ofNetwork("modify", "OP_NETWORK_SET_PARAMS", "Change a network"),
}, tagChanges()...)

var instanceName, nodeName = inPath("instance_name"), inPath("node_name")

func ofInstance(method, verb, opcode, doc string, body bodyUse, fixed ...fixedParameter) change {
	handler := "instances_name_" + strings.ReplaceAll(verb, "-", "_")
	return change{method, "/2/instances/{name}/" + verb, verb + "-instance", opcode, handler, doc, body,
		nil, append([]fixedParameter{instanceName}, fixed...), nil}
}

func ofNode(verb, opcode, doc string, fixed ...fixedParameter) change {
	return change{http.MethodPost, "/2/nodes/{name}/" + verb, verb + "-node", opcode, "nodes_name_" + verb, doc, parameters,
		nil, append([]fixedParameter{nodeName}, fixed...), nil}
}

func ofGroup(verb, opcode, doc string, fixed ...fixedParameter) change {
	handler := "groups_name_" + strings.ReplaceAll(verb, "-", "_")
	return change{http.MethodPut, "/2/groups/{name}/" + verb, verb + "-group", opcode, handler, doc, parameters,
		nil, append([]fixedParameter{inPath("group_name")}, fixed...), nil}
}

func ofNetwork(verb, opcode, doc string, fixed ...fixedParameter) change {
	handler := "networks_name_" + verb
	return change{http.MethodPut, "/2/networks/{name}/" + verb, verb + "-network", opcode, handler, doc, parameters,
		nil, append([]fixedParameter{inPath("network_name")}, fixed...), nil}
}

// renaming returns the change with names of parameters in pairs: the client's, and the opcode's.
func renaming(ch change, names ...string) change {
	ch.renamed = map[string]string{}
	for i := 0; i < len(names); i += 2 {
		ch.renamed[names[i]] = names[i+1]
	}
	return ch
}

func adapted(ch change, adapt func(*call, jsonObject) error) change {
	ch.adapt = adapt
	return ch
}

// tagChanges add and delete the tags that the query lists.
func tagChanges() (all []change) {
	for _, kind := range []string{"cluster", "instance", "node", "nodegroup", "network"} {
		path := tagPaths[kind]
		handler := strings.ReplaceAll(strings.ReplaceAll(strings.TrimPrefix(path, "/2/"), "{name}", "name"), "/", "_")
		fixed := []fixedParameter{constant("kind", `"`+kind+`"`), dryRun, {"tags", func(c *call) (raw, error) {
			tags := c.URL.Query()["tag"]
			return json.Marshal(append([]string{}, tags...))
		}}}
		if kind != "cluster" {
			fixed = append(fixed, inPath("name"))
		}
		all = append(all,
			change{http.MethodPut, path, tagName("add", path), "OP_TAGS_SET", handler,
				"Add tags", noParameters, nil, fixed, nil},
			change{http.MethodDelete, path, tagName("delete", path), "OP_TAGS_DEL", handler,
				"Delete tags", noParameters, nil, fixed, nil})
	}
	return all
}

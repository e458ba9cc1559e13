// Package config reads and changes the cluster configuration in Ganeti's format, the content of config.data (locks.md
// 5), and lockstep's own settings. From the bytes of a file it computes the values that the queue needs, the resources
// of the cluster and their relations, the answers for clients, the bytes after a change, or what is wrong with the
// file. It is pure.
package config

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"

	"lockstep/core/rawjson"
)

// Version is the configuration format written and understood: Ganeti 3.0.
const Version = 3000000

// Defaults of the queue's parameters (queue.md 7).
const (
	DefaultMaxRunningJobs = 20
	DefaultMaxTrackedJobs = 25
)

// clusterDefaults are the cluster parameters of a new Ganeti cluster, without its identity. Ganeti's clients read most
// of them and fail if one is missing.
//
//go:embed cluster.json
var clusterDefaults []byte

// Identity is the values that distinguish one single-node cluster from another. UUIDs are lower-case 8-4-4-4-12; Now is
// in seconds since the epoch.
type Identity struct {
	ClusterName string
	ClusterUUID string
	NodeName    string
	NodeUUID    string
	NodeIP      string
	GroupUUID   string
	Now         float64
}

// New is the configuration of a new cluster of one node.
func New(id Identity) ([]byte, error) {
	var cluster map[string]any
	if err := json.Unmarshal(clusterDefaults, &cluster); err != nil {
		return nil, fmt.Errorf("built-in cluster parameters: %w", err)
	}
	for key, value := range map[string]any{
		"cluster_name": id.ClusterName, "uuid": id.ClusterUUID,
		"master_node": id.NodeUUID, "master_ip": id.NodeIP,
		"candidate_certs": map[string]string{}, "rsahostkeypub": "", "dsahostkeypub": "",
		"max_running_jobs": DefaultMaxRunningJobs, "max_tracked_jobs": DefaultMaxTrackedJobs,
		"ctime": id.Now, "mtime": id.Now, "serial_no": 1,
	} {
		cluster[key] = value
	}
	node := map[string]any{
		"name": id.NodeName, "uuid": id.NodeUUID, "primary_ip": id.NodeIP, "secondary_ip": id.NodeIP,
		"group": id.GroupUUID, "master_candidate": true, "master_capable": true, "vm_capable": true,
		"offline": false, "drained": false, "powered": true, "ndparams": map[string]any{},
		"ctime": id.Now, "mtime": id.Now, "serial_no": 1, "tags": []string{},
	}
	group := map[string]any{
		"name": "default", "uuid": id.GroupUUID, "members": []string{}, "alloc_policy": "preferred",
		"ndparams": map[string]any{}, "ipolicy": map[string]any{}, "diskparams": map[string]any{},
		"networks": map[string]any{}, "ctime": id.Now, "mtime": id.Now, "serial_no": 1, "tags": []string{},
	}
	none := map[string]any{}
	data, err := json.Marshal(map[string]any{
		"version": Version, "cluster": cluster,
		"nodes":      map[string]any{id.NodeUUID: node},
		"nodegroups": map[string]any{id.GroupUUID: group},
		"instances":  none, "networks": none, "disks": none, "filters": none,
		"ctime": id.Now, "mtime": id.Now, "serial_no": 1,
	})
	return append(data, '\n'), err
}

// Cluster is the part of a configuration that the queue needs.
type Cluster struct {
	Name           string
	MasterName     string
	MaxRunningJobs int
}

// Decode reads a configuration. Errors name what is wrong with it.
func Decode(data []byte) (Cluster, error) {
	var version, slots int
	var name, masterUUID, masterName string
	var cluster, nodes json.RawMessage
	if err := decodeMembers(data, map[string]any{"version": &version, "cluster": &cluster, "nodes": &nodes}); err != nil {
		return Cluster{}, err
	}
	if len(cluster) == 0 || string(cluster) == "null" {
		return Cluster{}, fmt.Errorf("not a cluster configuration: no \"cluster\" in it")
	}
	if version/10000 != Version/10000 {
		return Cluster{}, fmt.Errorf("configuration format %d, this program understands %d", version, Version)
	}
	if err := decodeMembers(cluster, map[string]any{"cluster_name": &name, "master_node": &masterUUID, "max_running_jobs": &slots}); err != nil {
		return Cluster{}, err
	}
	var master json.RawMessage
	if err := decodeMembers(nodes, map[string]any{masterUUID: &master}); err != nil {
		return Cluster{}, err
	}
	if master == nil {
		return Cluster{}, fmt.Errorf("master node %q is not among the nodes", masterUUID)
	}
	if err := decodeMembers(master, map[string]any{"name": &masterName}); err != nil {
		return Cluster{}, err
	}
	if slots < 1 {
		return Cluster{}, fmt.Errorf("max_running_jobs is %d, must be at least 1", slots)
	}
	return Cluster{Name: name, MasterName: masterName, MaxRunningJobs: slots}, nil
}

// decodeMembers decodes the given members of an object of a configuration in one pass. A *json.RawMessage gets a part
// of data. Targets of missing members and of null do not change, nor does any target if the object is missing.
func decodeMembers(data []byte, into map[string]any) error {
	if isAbsent(data) {
		return nil
	}
	var bad error
	err := rawjson.ReadObject(data, func(key, value []byte) {
		target := into[string(key)]
		if raw, is := target.(*json.RawMessage); is {
			*raw = value
		} else if target != nil && bad == nil {
			if err := json.Unmarshal(value, target); err != nil {
				bad = fmt.Errorf("%s: %w", key, err)
			}
		}
	})
	if err = cmp.Or(err, bad); err != nil {
		return fmt.Errorf("not a cluster configuration: %w", err)
	}
	return nil
}

// Package config answers the questions of lockstep's actors about the cluster configuration (package model), and makes
// lockstep's own changes of it: cluster parameters, filter rules, the master. It also reads and changes lockstep's own settings.
// It is pure.
package config

import (
	_ "embed"
	"encoding/json"
	"fmt"

	"lockstep/core/config/model"
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

// New returns the configuration of a new cluster that has one node, which is the master.
func New(id Identity) (*model.Config, error) {
	var cluster map[string]any
	if err := json.Unmarshal(clusterDefaults, &cluster); err != nil {
		return nil, fmt.Errorf("decode the built-in cluster parameters: %w", err)
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
	if err != nil {
		return nil, err
	}
	return model.Decode(data)
}

// Cluster is the part of a configuration that the queue needs.
type Cluster struct {
	Name           string
	MasterName     string
	MaxRunningJobs int
}

// ClusterOf returns the part of a configuration that the queue needs. The error names what is missing or invalid in the configuration.
func ClusterOf(c *model.Config) (Cluster, error) {
	cluster := &c.Cluster.Value
	master, found := c.Nodes.Get(cluster.MasterNode)
	switch {
	case c.Version/10000 != Version/10000:
		return Cluster{}, fmt.Errorf("configuration format %d, this program understands %d", c.Version, Version)
	case !found:
		return Cluster{}, fmt.Errorf("master node %q is not among the nodes", cluster.MasterNode)
	case cluster.MaxRunningJobs < 1:
		return Cluster{}, fmt.Errorf("max_running_jobs is %d, must be at least 1", cluster.MaxRunningJobs)
	}
	return Cluster{Name: cluster.Name, MasterName: master.Value.Name, MaxRunningJobs: int(cluster.MaxRunningJobs)}, nil
}

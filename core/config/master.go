package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// Master is the new master. UUID is used if the configuration does not have a node with its name. IP is the address at
// which other nodes reach it.
type Master struct {
	Name string
	UUID string
	IP   string
}

// SetMaster makes a node the master, and a candidate. It adds an unknown node, in the group of the former master. It
// returns the same bytes if the node is already the master.
func SetMaster(data []byte, now float64, m Master) ([]byte, error) {
	doc, err := decodeObject(data)
	if err != nil {
		return nil, fmt.Errorf("not a cluster configuration: %w", err)
	}
	var nodes map[string]Object
	if err := json.Unmarshal(doc["nodes"], &nodes); err != nil {
		return nil, fmt.Errorf("nodes: %w", err)
	}
	old := Object(doc).Object("cluster").Text("master_node")
	uuid := m.UUID
	known := slices.IndexFunc(slices.Sorted(maps.Keys(nodes)), func(id string) bool { return nodes[id].Text("name") == m.Name })
	if known >= 0 {
		uuid = slices.Sorted(maps.Keys(nodes))[known]
	} else if nodes[uuid], err = newNode(nodes[old], now, m); err != nil {
		return nil, err
	}
	if known >= 0 && uuid == old {
		return data, nil
	}
	nodes[uuid]["master_candidate"] = json.RawMessage("true")
	if doc["nodes"], err = json.Marshal(nodes); err != nil {
		return nil, err
	}
	quoted, err := json.Marshal(uuid)
	if err != nil {
		return nil, err
	}
	edited, err := json.Marshal(doc)
	if err != nil {
		return nil, err
	}
	return Edit(edited, now, ConfigChange{Cluster: map[string][]byte{"master_node": quoted}})
}

// newNode is a copy of a node with another name and address.
func newNode(template Object, now float64, m Master) (Object, error) {
	node := Object{}
	values := map[string]any{"name": m.Name, "uuid": m.UUID, "primary_ip": m.IP, "secondary_ip": m.IP,
		"master_candidate": true, "master_capable": true, "vm_capable": true, "offline": false, "drained": false, "powered": true,
		"ndparams": map[string]any{}, "ctime": now, "mtime": now, "serial_no": 1, "tags": []string{}}
	for key, value := range values {
		encoded, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		node[key] = encoded
	}
	node["group"] = bytes.Clone(template["group"])
	return node, nil
}

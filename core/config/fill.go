package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// Fill adds the required values that a configuration lacks: the parameters of a new cluster, and the plain defaults of nodes and
// groups. Earlier programs accepted configurations without them. Present values do not change, also those that are not valid.
// Equal inputs have equal results.
func Fill(data []byte) ([]byte, error) {
	doc, err := decodeObject(data)
	if err != nil {
		return nil, fmt.Errorf("not a cluster configuration: %w", err)
	}
	if !Object(doc).Has("cluster") {
		return nil, fmt.Errorf("not a cluster configuration: no \"cluster\" in it")
	}
	defaults, err := decodeObject(clusterDefaults)
	if err != nil {
		return nil, fmt.Errorf("decode the built-in cluster parameters: %w", err)
	}
	maps.Copy(defaults, map[string]json.RawMessage{"candidate_certs": raw(`{}`), "rsahostkeypub": raw(`""`), "uuid": raw(`""`),
		"serial_no": raw(`1`), "master_ip": raw(`""`)})
	doc["cluster"] = filled(doc["cluster"], defaults)
	none := raw(`{}`)
	doc = filledMembers(doc, map[string]json.RawMessage{"nodes": none, "nodegroups": none, "instances": none, "networks": none,
		"disks": none, "filters": none, "serial_no": raw(`1`)})
	doc["nodegroups"] = filledObjects(doc["nodegroups"], map[string]json.RawMessage{"alloc_policy": raw(`"preferred"`),
		"ndparams": none, "ipolicy": none, "diskparams": none, "networks": none, "serial_no": raw(`1`)}, "name")
	no, yes := raw(`false`), raw(`true`)
	doc["nodes"] = filledObjects(doc["nodes"], map[string]json.RawMessage{"primary_ip": raw(`""`), "secondary_ip": raw(`""`),
		"group": onlyGroup(doc["nodegroups"]), "master_candidate": yes, "master_capable": yes, "vm_capable": yes, "offline": no,
		"drained": no, "powered": yes, "ndparams": none, "serial_no": raw(`1`)}, "name")
	doc["filters"] = filledObjects(doc["filters"], map[string]json.RawMessage{"watermark": raw(`0`), "priority": raw(`0`),
		"predicates": raw(`[]`), "reason_trail": raw(`[]`)}, "")
	return json.Marshal(doc)
}

func raw(s string) json.RawMessage { return json.RawMessage(s) }

// filled returns an object with defaults. Members that are objects on both sides are filled too. Another value does not change.
func filled(data json.RawMessage, defaults map[string]json.RawMessage) json.RawMessage {
	object, err := decodeObject(data)
	if err != nil {
		return data
	}
	return Object(filledMembers(object, defaults)).JSON()
}

func filledMembers(object, defaults map[string]json.RawMessage) map[string]json.RawMessage {
	for name, value := range defaults {
		if !Object(object).Has(name) {
			object[name] = value
		} else if slices.Contains(nested, name) {
			inner, err := decodeObject(value)
			if err == nil {
				object[name] = filled(object[name], inner)
			}
		}
	}
	return object
}

// nested are the parameters whose own values are required, with the names of their groups.
var nested = []string{"beparams", "nicparams", "ndparams", "ipolicy", "default", "std"}

// filledObjects fills the objects of a container. A missing uuid, and a missing name if nameKey is its key, is the key of the
// object.
func filledObjects(data json.RawMessage, defaults map[string]json.RawMessage, nameKey string) json.RawMessage {
	objects, err := decodeObject(data)
	if err != nil {
		return data
	}
	for key, object := range objects {
		quoted, err := json.Marshal(key)
		if err != nil {
			continue // a string has an encoding
		}
		own := maps.Clone(defaults)
		own["uuid"] = quoted
		if nameKey != "" {
			own[nameKey] = quoted
		}
		objects[key] = filled(object, own)
	}
	return Object(objects).JSON()
}

// onlyGroup returns the uuid of the group as a JSON string if there is exactly one group, else the empty string.
func onlyGroup(groups json.RawMessage) json.RawMessage {
	objects, err := decodeObject(groups)
	if err != nil || len(objects) != 1 {
		return raw(`""`)
	}
	for key := range objects {
		if quoted, err := json.Marshal(key); err == nil {
			return quoted
		}
	}
	return raw(`""`)
}

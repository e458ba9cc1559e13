package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"lockstep/core/rawjson"
)

// ConfigChange is a change of a part of the configuration. Values are JSON.
type ConfigChange struct {
	Cluster  map[string][]byte // cluster parameters by name
	RuleUUID string            // uuid of a filter rule, or ""
	Rule     []byte            // its new form; empty: it is deleted
}

// NoSuchRule is the error for a filter rule that does not exist.
type NoSuchRule struct{ UUID string }

func (e *NoSuchRule) Error() string { return "There is no filter rule " + e.UUID }

// Edit is the configuration after a change, with new serial numbers and times of change. now is in seconds since the
// epoch.
func Edit(data []byte, now float64, c ConfigChange) ([]byte, error) {
	doc, err := decodeObject(data)
	if err != nil {
		return nil, fmt.Errorf("not a cluster configuration: %w", err)
	}
	if len(c.Cluster) > 0 {
		if err := editCluster(doc, now, c.Cluster); err != nil {
			return nil, err
		}
	}
	if c.RuleUUID != "" {
		if err := editFilters(doc, c.RuleUUID, c.Rule); err != nil {
			return nil, err
		}
	}
	countChange(doc, now)
	edited, err := json.Marshal(doc)
	if err != nil {
		return nil, err
	}
	edited = append(edited, '\n')
	if string(c.Cluster["master_node"]) == `""` {
		return edited, nil // a cluster without a master
	}
	_, err = Decode(edited)
	return edited, err
}

// FilterRules are the filter rules of a configuration, by uuid.
func FilterRules(data []byte) (map[string]json.RawMessage, error) {
	doc, err := decodeObject(data)
	if err != nil {
		return nil, fmt.Errorf("not a cluster configuration: %w", err)
	}
	filters, err := decodeObject(doc["filters"])
	if err != nil {
		return nil, fmt.Errorf("filters: %w", err)
	}
	return filters, nil
}

func editCluster(doc map[string]json.RawMessage, now float64, values map[string][]byte) error {
	cluster, err := decodeObject(doc["cluster"])
	if err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		cluster[name] = values[name]
	}
	countChange(cluster, now)
	doc["cluster"], err = json.Marshal(cluster)
	return err
}

func editFilters(doc map[string]json.RawMessage, uuid string, rule []byte) error {
	filters, err := decodeObject(doc["filters"])
	if err != nil {
		return fmt.Errorf("filters: %w", err)
	}
	if len(rule) > 0 {
		filters[uuid] = rule
	} else if _, there := filters[uuid]; there {
		delete(filters, uuid)
	} else {
		return &NoSuchRule{uuid}
	}
	doc["filters"], err = json.Marshal(filters)
	return err
}

// countChange updates the serial number and the time of change of an object.
func countChange(object map[string]json.RawMessage, now float64) {
	serial, err := strconv.ParseInt(string(object["serial_no"]), 10, 64)
	if err != nil {
		serial = 0 // the stored number is not valid
	}
	object["serial_no"] = strconv.AppendInt(nil, serial+1, 10)
	object["mtime"] = strconv.AppendFloat(nil, now, 'f', 6, 64)
}

// decodeObject splits an object into its values, which lie in data. A missing object and null are empty objects.
func decodeObject(data []byte) (map[string]json.RawMessage, error) {
	object := map[string]json.RawMessage{}
	if isAbsent(data) {
		return object, nil
	}
	err := rawjson.ReadObject(data, func(key, value []byte) { object[string(key)] = value })
	return object, err
}

// isAbsent reports whether there is no object, or null.
func isAbsent(data []byte) bool {
	trimmed := bytes.TrimSpace(data)
	return len(trimmed) == 0 || string(trimmed) == "null"
}

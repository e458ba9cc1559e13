package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// Verify is the list of errors in a configuration (verifyConfig of locks.md 2.3). It checks the keys of objects and the
// references between them.
func Verify(data []byte) []string {
	if _, err := Decode(data); err != nil {
		return []string{err.Error()}
	}
	type object struct {
		UUID        string   `json:"uuid"`
		Group       string   `json:"group"`
		PrimaryNode string   `json:"primary_node"`
		Disks       []string `json:"disks"`
	}
	doc := map[string]json.RawMessage{}
	if err := json.Unmarshal(data, &doc); err != nil {
		return []string{err.Error()}
	}
	var problems []string
	kinds := map[string]map[string]object{}
	for _, kind := range []string{"nodes", "nodegroups", "instances", "networks", "disks", "filters"} {
		objects := map[string]object{}
		if err := json.Unmarshal(doc[kind], &objects); err != nil {
			problems = append(problems, fmt.Sprintf("%s: %v", kind, err))
		}
		kinds[kind] = objects
		for _, uuid := range slices.Sorted(maps.Keys(objects)) {
			if objects[uuid].UUID != uuid {
				problems = append(problems, fmt.Sprintf("%s: %s is called %s inside", kind, uuid, objects[uuid].UUID))
			}
		}
	}
	refers := func(kind, from, to, uuid string) {
		if _, known := kinds[to][uuid]; !known && uuid != "" {
			problems = append(problems, fmt.Sprintf("%s: %s refers to %s, which is not among the %s", kind, from, uuid, to))
		}
	}
	for _, uuid := range slices.Sorted(maps.Keys(kinds["nodes"])) {
		refers("nodes", uuid, "nodegroups", kinds["nodes"][uuid].Group)
	}
	for _, uuid := range slices.Sorted(maps.Keys(kinds["instances"])) {
		refers("instances", uuid, "nodes", kinds["instances"][uuid].PrimaryNode)
		for _, disk := range kinds["instances"][uuid].Disks {
			refers("instances", uuid, "disks", disk)
		}
	}
	return problems
}

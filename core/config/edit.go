package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"lockstep/core/config/model"
	"lockstep/core/rawjson"
)

// ConfigChange is lockstep's own change of a part of the configuration. Values are JSON.
type ConfigChange struct {
	Cluster  map[string][]byte // cluster parameters by name
	RuleUUID string            // uuid of a filter rule, or ""
	Rule     []byte            // its new form; empty: it is deleted
}

// NoSuchRule is the error for a filter rule that does not exist.
type NoSuchRule struct{ UUID string }

func (e *NoSuchRule) Error() string { return "There is no filter rule " + e.UUID }

// Edit is the configuration after a change, with new serial numbers and times of change.
func Edit(c *model.Config, now model.Time, change ConfigChange) (*model.Config, error) {
	e := c.Edit()
	if err := change.Apply(e, now); err != nil {
		return nil, err
	}
	edited, _ := e.Commit(now)
	return edited, nil
}

// Apply makes the change in an edit. After an error the edit must not be committed.
func (c ConfigChange) Apply(e *model.Edit, now model.Time) error {
	if len(c.Cluster) > 0 {
		if err := editCluster(e, now, c.Cluster); err != nil {
			return err
		}
	}
	if c.RuleUUID != "" {
		if err := editFilters(e, c.RuleUUID, c.Rule); err != nil {
			return err
		}
	}
	_, err := ClusterOf(e.Config())
	return err
}

func editCluster(e *model.Edit, now model.Time, values map[string][]byte) error {
	object := decoded(e.Config().Cluster.JSON())
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if err := rawjson.Check(values[name]); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		object[name] = values[name]
	}
	cluster, err := model.Clusters.Decode(object.JSON())
	if err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	changed := cluster.Value
	changed.Serial++
	changed.MTime = now
	e.SetCluster(changed)
	return nil
}

func editFilters(e *model.Edit, uuid string, rule []byte) error {
	if len(rule) == 0 {
		if !e.Config().Filters.Has(uuid) {
			return &NoSuchRule{uuid}
		}
		model.Filters.Delete(e, uuid)
		return nil
	}
	if err := rawjson.Check(rule); err != nil {
		return fmt.Errorf("filter rule: %w", err)
	}
	o, err := model.Filters.Decode(bytes.TrimSpace(rule))
	if err != nil {
		return fmt.Errorf("filter rule: %w", err)
	}
	model.Filters.Put(e, uuid, o.Value)
	return nil
}

// FilterRules are the filter rules of a configuration, by uuid.
func FilterRules(c *model.Config) map[string]json.RawMessage {
	rules := map[string]json.RawMessage{}
	for uuid, rule := range c.Filters.All() {
		rules[uuid] = rule.JSON()
	}
	return rules
}

// decodeObject splits an object into its values, which lie in data. A missing object and null are empty objects.
func decodeObject(data []byte) (map[string]json.RawMessage, error) {
	object := map[string]json.RawMessage{}
	if trimmed := bytes.TrimSpace(data); len(trimmed) == 0 || string(trimmed) == "null" {
		return object, nil
	}
	err := rawjson.ReadObject(data, func(key, value []byte) { object[string(key)] = value })
	return object, err
}

package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"lockstep/core/config/model"
	"lockstep/core/config/ownrules"
	"lockstep/core/rawjson"
)

// ConfigChange is lockstep's own change of a part of the configuration. Values are JSON.
type ConfigChange struct {
	Cluster  map[string][]byte // cluster parameters by name
	RuleUUID string            // uuid of a filter rule, or ""
	Rule     []byte            // its new form; empty: it is deleted
	Own      bool              // Ganeti's programs cannot read the rule: it is not for config.data
	// If is the present form of a rule that is deleted; empty: any. Another rule stays, without an error.
	If []byte
}

// NoSuchRule is the error for a filter rule that does not exist.
type NoSuchRule struct{ UUID string }

func (e *NoSuchRule) Error() string { return "There is no filter rule " + e.UUID }

// Edit applies one of lockstep's own changes and returns the new configuration, with higher serial numbers and new times of change. The
// configuration c stays as it is.
func Edit(c *model.Config, now model.Time, change ConfigChange) (*model.Config, error) {
	e := c.Edit()
	if _, err := change.Apply(e, ownrules.Rules{}, now); err != nil {
		return nil, err
	}
	edited, _ := e.Commit(now)
	return edited, nil
}

// Apply makes the change in an edit and in lockstep's own rules. After an error the edit must not be committed.
func (c ConfigChange) Apply(e *model.Edit, own ownrules.Rules, now model.Time) (_ ownrules.Rules, err error) {
	if len(c.Cluster) > 0 {
		if err := editCluster(e, now, c.Cluster); err != nil {
			return own, err
		}
	}
	if c.RuleUUID != "" {
		if own, err = c.editFilters(e, own); err != nil {
			return own, err
		}
	}
	_, err = ClusterOf(e.Config())
	return own, err
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
		return fmt.Errorf("the cluster cannot have these parameters: %w", err)
	}
	changed := cluster.Value
	changed.Serial++
	changed.MTime = now
	e.SetCluster(changed)
	return nil
}

// editFilters adds, replaces or deletes the rule RuleUUID, which is either in config.data or among the own rules, and returns the own
// rules after the change. A deletion with If does nothing unless the rule equals If; without If an absent rule is a *NoSuchRule.
func (c ConfigChange) editFilters(e *model.Edit, own ownrules.Rules) (ownrules.Rules, error) {
	uuid := c.RuleUUID
	present := ruleOf(e.Config(), own, uuid)
	switch {
	case len(c.Rule) == 0 && present == nil && len(c.If) == 0:
		return own, &NoSuchRule{uuid}
	case len(c.Rule) == 0 && len(c.If) > 0 && !bytes.Equal(present, c.If):
		return own, nil
	}
	if e.Config().Filters.Has(uuid) && (len(c.Rule) == 0 || c.Own) {
		model.Filters.Delete(e, uuid)
	}
	own = own.Delete(uuid)
	if len(c.Rule) == 0 {
		return own, nil
	}
	if err := rawjson.Check(c.Rule); err != nil {
		return own, fmt.Errorf("filter rule: %w", err)
	}
	if c.Own {
		return own.Put(uuid, c.Rule)
	}
	o, err := model.Filters.Decode(bytes.TrimSpace(c.Rule))
	if err != nil {
		return own, fmt.Errorf("filter rule: %w", err)
	}
	model.Filters.Put(e, uuid, o.Value)
	return own, nil
}

// ruleOf is the JSON of the filter rule with a uuid, from config.data or else from the own rules; nil if there is none.
func ruleOf(c *model.Config, own ownrules.Rules, uuid string) json.RawMessage {
	if o, found := c.Filters.Get(uuid); found {
		return o.JSON()
	}
	return own.Get(uuid)
}

// FilterRules are the filter rules of a configuration and lockstep's own, by uuid. A rule in config.data wins over an own one: another
// program has made it while lockstep did not run.
func FilterRules(c *model.Config, own ownrules.Rules) map[string]json.RawMessage {
	rules := map[string]json.RawMessage{}
	maps.Copy(rules, own.All())
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

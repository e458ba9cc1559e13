// Package ownrules has the filter rules that are not in config.data, because Ganeti's programs refuse a whole configuration with such a
// rule: rules with lockstep's own predicates, and rules with an end (config.md 12.25). They are in config.extra. Pure.
package ownrules

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"lockstep/core/config/tree"
)

// Rules are the filter rules of lockstep that config.data cannot have, because Ganeti's programs would refuse it: their JSON by UUID.
// They are immutable.
type Rules struct{ all tree.Map[string] }

// Patch is a change of rules, by UUID. Without JSON the rule is removed. To apply a patch again changes nothing.
type Patch map[string]json.RawMessage

// Has reports whether there is a rule with a UUID.
func (r Rules) Has(uuid string) bool { return r.all.Has(uuid) }

// Get returns a rule, nil if there is none.
func (r Rules) Get(uuid string) json.RawMessage {
	rule, found := r.all.Get(uuid)
	if !found {
		return nil
	}
	return json.RawMessage(rule)
}

// All returns all rules, as the patch that makes them of none. It is nil if there are none.
func (r Rules) All() Patch {
	var all Patch
	for uuid, rule := range r.all.All() {
		if all == nil {
			all = Patch{}
		}
		all[uuid] = json.RawMessage(rule)
	}
	return all
}

// Put returns the rules with one more, which replaces one with the same UUID. The error is about a rule that is no JSON object.
func (r Rules) Put(uuid string, rule json.RawMessage) (Rules, error) {
	var text bytes.Buffer
	if err := json.Compact(&text, rule); err != nil {
		return r, fmt.Errorf("filter rule %s: %w", uuid, err)
	}
	if text.Len() == 0 || text.Bytes()[0] != '{' {
		return r, fmt.Errorf("filter rule %s is no JSON object", uuid)
	}
	return Rules{r.all.Put(uuid, text.String())}, nil
}

// Delete returns the rules without one. It is r itself if there is no such rule.
func (r Rules) Delete(uuid string) Rules {
	if !r.all.Has(uuid) {
		return r
	}
	return Rules{r.all.Delete(uuid)}
}

// Apply returns the rules after a change. After an error nothing is applied.
func (r Rules) Apply(p Patch) (Rules, error) {
	after := r
	for _, uuid := range slices.Sorted(maps.Keys(p)) {
		if p[uuid] == nil || string(p[uuid]) == "null" {
			after = after.Delete(uuid)
			continue
		}
		var err error
		if after, err = after.Put(uuid, p[uuid]); err != nil {
			return r, err
		}
	}
	return after, nil
}

// Changes returns the patch that leads from the rules before to these. It is nil if they are the same.
func (r Rules) Changes(before Rules) Patch {
	if r == before {
		return nil
	}
	was, is := before.All(), r.All()
	p := Patch{}
	for uuid, rule := range is {
		if string(was[uuid]) != string(rule) {
			p[uuid] = rule
		}
	}
	for uuid := range was {
		if is[uuid] == nil {
			p[uuid] = nil
		}
	}
	if len(p) == 0 {
		return nil
	}
	return p
}

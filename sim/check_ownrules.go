package sim

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// ruleChanging: a client sends a change of a rule.
type ruleChanging struct{ uuid string }

// ruleChanged: a client has the answer to a change of a rule. With an end the rule may end at this time at the earliest.
type ruleChanged struct {
	uuid string
	end  time.Time // zero: the change gives the rule none
	err  error
}

// checkOwnRules: a rule with an end, of which a client was told, is on the disk until its end comes or a client changes it. The checker
// that waits for the end of all jobs sees that the rule ends then, because no client deletes a rule with an end. A rule is not judged after
// two changes that were on their way at the same time, or a change without an answer: which one came last is not known.
type checkOwnRules struct {
	ends   map[string]time.Time
	open   map[string]int  // changes on their way
	mixed  map[string]bool // rules with several of them
	stored storedConfig
}

func (*checkOwnRules) Name() string { return "rules with an end" }

func (c *checkOwnRules) See(w *World, event any) error {
	if c.ends == nil {
		c.ends, c.open, c.mixed = map[string]time.Time{}, map[string]int{}, map[string]bool{}
	}
	switch e := event.(type) {
	case ruleChanging:
		delete(c.ends, e.uuid)
		c.mixed[e.uuid] = c.mixed[e.uuid] || c.open[e.uuid] > 0
		c.open[e.uuid]++
	case ruleChanged:
		c.changed(e)
	case changeAnswered, deciderStarted:
		return c.check(w)
	}
	return nil
}

func (c *checkOwnRules) changed(e ruleChanged) {
	if e.err != nil {
		return // it counts as one on its way
	}
	if !c.mixed[e.uuid] && !e.end.IsZero() {
		c.ends[e.uuid] = e.end
	}
	if c.open[e.uuid]--; c.open[e.uuid] == 0 {
		delete(c.mixed, e.uuid)
	}
}

func (c *checkOwnRules) check(w *World) error {
	if len(c.ends) == 0 || c.stored.read(w.disk) == nil {
		return nil
	}
	rules := c.stored.filterRules()
	for _, uuid := range slices.Sorted(maps.Keys(c.ends)) {
		end := c.ends[uuid]
		if !w.Now().Before(end) {
			delete(c.ends, uuid)
		} else if rules[uuid] == nil {
			return fmt.Errorf("rule %s ends at %s, and is not on the disk at %s", uuid, end.Format(time.TimeOnly), w.Now().Format(time.TimeOnly))
		}
	}
	return nil
}

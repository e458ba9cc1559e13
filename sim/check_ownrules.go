package sim

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// ruleChanging: a client sends a change of a rule.
type ruleChanging struct{ uuid string }

// ruleLasts: a client was told that a rule is in force, which may end at this time at the earliest.
type ruleLasts struct {
	uuid string
	end  time.Time
}

// checkOwnRules: a rule with an end, of which a client was told, is on the disk until its end comes or somebody changes it. That it ends
// then is seen by those who wait for the end of all jobs: nobody deletes such a rule.
type checkOwnRules struct {
	ends   map[string]time.Time
	stored storedConfig
}

func (*checkOwnRules) Name() string { return "rules with an end" }

func (c *checkOwnRules) See(w *World, event any) error {
	switch e := event.(type) {
	case ruleChanging:
		delete(c.ends, e.uuid)
	case ruleLasts:
		if c.ends == nil {
			c.ends = map[string]time.Time{}
		}
		c.ends[e.uuid] = e.end
	case changeAnswered, deciderStarted:
		return c.check(w)
	}
	return nil
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

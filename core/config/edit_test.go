package config_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	. "lockstep/core/config"
	"lockstep/core/config/configtest"
	"lockstep/core/config/model"
	"lockstep/core/config/ownrules"
)

const now = 1800000000.25

func clusterChange(name, value string) ConfigChange {
	return ConfigChange{Cluster: map[string][]byte{name: []byte(value)}}
}

func TestEditOfTheCluster(t *testing.T) {
	before := configtest.New(t)
	after, err := Edit(before, now, clusterChange("max_running_jobs", "7"))
	require.NoError(t, err)
	want := before.Cluster.Value
	want.MaxRunningJobs, want.Serial, want.MTime = 7, 2, now
	require.Equal(t, want, after.Cluster.Value)
	require.Equal(t, int64(2), after.Serial)
	require.Equal(t, model.Time(now), after.MTime)
	require.Equal(t, before.Nodes, after.Nodes)
	cluster, err := ClusterOf(after)
	require.NoError(t, err)
	require.Equal(t, 7, cluster.MaxRunningJobs)
}

func TestEditOfFilters(t *testing.T) {
	c := configtest.New(t, configtest.Rule("f-1", ""), configtest.Rule("f-2", ""), configtest.Rule("f-1", `"priority":3`))
	rules := FilterRules(c, ownrules.Rules{})
	require.Len(t, rules, 2)
	require.JSONEq(t, string(configtest.Rule("f-1", `"priority":3`).Rule), string(rules["f-1"]))
	require.Equal(t, int64(1), c.Cluster.Value.Serial) // another object
	require.Equal(t, int64(4), c.Serial)
	require.Same(t, c, configtest.Edit(t, c, configtest.Rule("f-2", "")), "the rule is there")
	c, err := Edit(c, now, ConfigChange{RuleUUID: "f-1"})
	require.NoError(t, err)
	require.Equal(t, map[string]json.RawMessage{"f-2": rules["f-2"]}, FilterRules(c, ownrules.Rules{}))
	_, err = Edit(c, now, ConfigChange{RuleUUID: "f-1"})
	var unknown *NoSuchRule
	require.ErrorAs(t, err, &unknown)
	require.Equal(t, "There is no filter rule f-1", unknown.Error())
}

func TestEditRefuses(t *testing.T) {
	for text, change := range map[string]ConfigChange{
		`Superfluous dictionary keys: ["new"]`:                       clusterChange("new", "1"),
		"max_running_jobs is 0":                                      clusterChange("max_running_jobs", "0"),
		"max_running_jobs: ":                                         clusterChange("max_running_jobs", "nonsense"),
		"Can't parse value for 'max_running_jobs': Unable to read":   clusterChange("max_running_jobs", `"x"`),
		`master node "gone" is not among`:                            clusterChange("master_node", `"gone"`),
		"filter rule: ":                                              {RuleUUID: "f", Rule: []byte("nonsense")},
		"filter rule: key 'watermark' not found, object contains on": {RuleUUID: "f", Rule: []byte(`{"uuid":"f"}`)},
	} {
		_, err := Edit(configtest.New(t), now, change)
		require.ErrorContains(t, err, text)
	}
}

// A rule is in one place: a replacement moves it to where Ganeti's programs can, or cannot, see it.
func TestOwnRules(t *testing.T) {
	c := configtest.New(t, configtest.Rule("f-1", ""))
	stored := configtest.Rule("f-1", "").Rule
	apply := func(own ownrules.Rules, change ConfigChange) (ownrules.Rules, error) {
		e := c.Edit()
		own, err := change.Apply(e, own, now)
		if err == nil {
			c, _ = e.Commit(now)
		}
		return own, err
	}
	own, err := apply(ownrules.Rules{}, ConfigChange{RuleUUID: "f-1", Own: true, Rule: []byte(`{"uuid": "f-1", "until": 5}`)})
	require.NoError(t, err)
	require.Zero(t, c.Filters.Len())
	require.Equal(t, map[string]json.RawMessage{"f-1": json.RawMessage(`{"uuid":"f-1","until":5}`)}, FilterRules(c, own))

	same, err := apply(own, ConfigChange{RuleUUID: "f-1", If: []byte(`{"uuid":"f-1","until":6}`)})
	require.NoError(t, err)
	require.Equal(t, own, same, "another rule stays")

	back, err := apply(own, ConfigChange{RuleUUID: "f-1", Rule: stored})
	require.NoError(t, err)
	require.Nil(t, back.All())
	require.Equal(t, 1, c.Filters.Len())
	require.JSONEq(t, string(stored), string(FilterRules(c, own)["f-1"]), "the one in config.data wins")

	_, err = apply(own, ConfigChange{RuleUUID: "f-1"})
	require.NoError(t, err)
	require.Zero(t, c.Filters.Len())
	gone, err := apply(own, ConfigChange{RuleUUID: "f-1", If: []byte(`{"uuid":"f-1","until":5}`)})
	require.NoError(t, err)
	require.Nil(t, gone.All())
	_, err = apply(gone, ConfigChange{RuleUUID: "f-1"})
	require.ErrorAs(t, err, new(*NoSuchRule))
	_, err = apply(gone, ConfigChange{RuleUUID: "f-1", If: []byte(`{}`)})
	require.NoError(t, err, "it has ended already")
	_, err = apply(gone, ConfigChange{RuleUUID: "f-1", Own: true, Rule: []byte(`[`)})
	require.Error(t, err)
}

package config

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const now = 1800000000.25

// part is the value at a path of keys.
func part(t *testing.T, data []byte, path ...string) string {
	t.Helper()
	for _, key := range path {
		var object map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(data, &object))
		data = object[key]
	}
	return string(data)
}

func newConfig(t *testing.T) []byte {
	data, err := New(identity)
	require.NoError(t, err)
	return data
}

func TestEditOfTheCluster(t *testing.T) {
	before := newConfig(t)
	after, err := Edit(before, now, ConfigChange{Cluster: map[string][]byte{"max_running_jobs": []byte("7"), "new": []byte(`{"a": [1]}`)}})
	require.NoError(t, err)
	require.Equal(t, "7", part(t, after, "cluster", "max_running_jobs"))
	require.JSONEq(t, `{"a":[1]}`, part(t, after, "cluster", "new"))
	require.Equal(t, "2", part(t, after, "cluster", "serial_no"))
	require.Equal(t, "2", part(t, after, "serial_no"))
	require.Equal(t, "1800000000.250000", part(t, after, "cluster", "mtime"))
	require.Equal(t, "1800000000.250000", part(t, after, "mtime"))
	require.Equal(t, part(t, before, "cluster", "ctime"), part(t, after, "cluster", "ctime"))
	for _, same := range []string{"nodes", "nodegroups", "filters", "version", "ctime"} {
		require.Equal(t, part(t, before, same), part(t, after, same), same)
	}
	require.True(t, strings.HasSuffix(string(after), "}\n"))
	cluster, err := Decode(after)
	require.NoError(t, err)
	require.Equal(t, 7, cluster.MaxRunningJobs)
}

func TestEditOfFilters(t *testing.T) {
	data := newConfig(t)
	data, err := Edit(data, now, ConfigChange{RuleUUID: "f-1", Rule: []byte(`{"uuid":"f-1"}`)})
	require.NoError(t, err)
	data, err = Edit(data, now, ConfigChange{RuleUUID: "f-2", Rule: []byte(`{"uuid":"f-2"}`)})
	require.NoError(t, err)
	data, err = Edit(data, now, ConfigChange{RuleUUID: "f-1", Rule: []byte(`{"uuid":"f-1","priority":3}`)})
	require.NoError(t, err)
	require.JSONEq(t, `{"f-1":{"uuid":"f-1","priority":3},"f-2":{"uuid":"f-2"}}`, part(t, data, "filters"))
	require.Equal(t, "1", part(t, data, "cluster", "serial_no")) // another object
	require.Equal(t, "4", part(t, data, "serial_no"))
	data, err = Edit(data, now, ConfigChange{RuleUUID: "f-1"})
	require.NoError(t, err)
	require.JSONEq(t, `{"f-2":{"uuid":"f-2"}}`, part(t, data, "filters"))
	_, err = Edit(data, now, ConfigChange{RuleUUID: "f-1"})
	var unknown *NoSuchRule
	require.ErrorAs(t, err, &unknown)
	require.Equal(t, "There is no filter rule f-1", unknown.Error())
}

// An edit keeps all other values of a file that Ganeti has written.
func TestEditOfARealConfiguration(t *testing.T) {
	golden, err := os.ReadFile("testdata/config.data.json")
	require.NoError(t, err)
	edited, err := Edit(golden, now, ConfigChange{Cluster: map[string][]byte{"max_running_jobs": []byte("7")}})
	require.NoError(t, err)
	var before, after map[string]any
	require.NoError(t, json.Unmarshal(golden, &before))
	require.NoError(t, json.Unmarshal(edited, &after))
	for _, object := range []map[string]any{before, before["cluster"].(map[string]any)} {
		object["serial_no"] = object["serial_no"].(float64) + 1
		object["mtime"] = now
	}
	before["cluster"].(map[string]any)["max_running_jobs"] = 7.0
	require.Equal(t, before, after)
	require.Empty(t, Verify(edited))
}

func TestEditRefuses(t *testing.T) {
	good := string(newConfig(t))
	for text, c := range map[string]struct {
		data   string
		change ConfigChange
	}{
		"not a cluster configuration":        {data: "{"},
		"not a cluster configuration: value": {data: "[]"},
		`no "cluster"`:                       {data: "null", change: ConfigChange{RuleUUID: "f", Rule: []byte("{}")}},
		"cluster: value":                     {data: `{"cluster":[]}`, change: ConfigChange{Cluster: map[string][]byte{"a": []byte("1")}}},
		"filters: value":                     {data: strings.Replace(good, `"filters":{}`, `"filters":3`, 1), change: ConfigChange{RuleUUID: "f"}},
		"invalid character":                  {data: good, change: ConfigChange{RuleUUID: "f", Rule: []byte("nonsense")}},
		"max_running_jobs is 0":              {data: good, change: ConfigChange{Cluster: map[string][]byte{"max_running_jobs": []byte("0")}}},
		`master node "gone" is not among`:    {data: good, change: ConfigChange{Cluster: map[string][]byte{"master_node": []byte(`"gone"`)}}},
		"There is no filter rule f":          {data: strings.Replace(good, `"filters":{}`, `"filters":null`, 1), change: ConfigChange{RuleUUID: "f"}},
		"max_running_jobs: json: cannot unm": {data: good, change: ConfigChange{Cluster: map[string][]byte{"max_running_jobs": []byte(`"x"`)}}},
	} {
		_, err := Edit([]byte(c.data), now, c.change)
		require.ErrorContains(t, err, text)
	}
}

// A destroyed cluster has no master.
func TestEditGivesAClusterUp(t *testing.T) {
	data := newConfig(t)
	for range 2 { // a repeated edit has the same result
		var err error
		data, err = Edit(data, now, ConfigChange{Cluster: map[string][]byte{"master_node": []byte(`""`)}})
		require.NoError(t, err)
	}
	_, err := Decode(data)
	require.ErrorContains(t, err, `master node "" is not among the nodes`)
}

// Missing objects are created.
func TestEditOfALittle(t *testing.T) {
	good := string(newConfig(t))
	for _, data := range []string{
		strings.Replace(good, `"filters":{}`, `"filters":null`, 1),
		strings.Replace(good, `"filters":{},`, ``, 1),
		strings.Replace(good, `"serial_no":1`, `"serial_no":"many"`, 1),
	} {
		require.NotEqual(t, good, data)
		edited, err := Edit([]byte(data), now, ConfigChange{RuleUUID: "f", Rule: []byte(`{"uuid":"f"}`)})
		require.NoError(t, err)
		require.JSONEq(t, `{"f":{"uuid":"f"}}`, part(t, edited, "filters"))
	}
}

func TestFilters(t *testing.T) {
	good := string(newConfig(t))
	for filters, want := range map[string]map[string]json.RawMessage{
		`{}`: {}, `null`: {}, `{"f":{"uuid":"f"}}`: {"f": json.RawMessage(`{"uuid":"f"}`)},
	} {
		found, err := FilterRules([]byte(strings.Replace(good, `"filters":{}`, `"filters":`+filters, 1)))
		require.NoError(t, err)
		require.Equal(t, want, found)
	}
	_, err := FilterRules([]byte("["))
	require.ErrorContains(t, err, "not a cluster configuration")
	_, err = FilterRules([]byte(`{"filters":[]}`))
	require.ErrorContains(t, err, "filters: ")
}

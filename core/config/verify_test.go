package config

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestVerifyFindsNothingWrong(t *testing.T) {
	golden, err := os.ReadFile("testdata/config.data.json")
	require.NoError(t, err)
	require.Empty(t, Verify(golden))
	require.Empty(t, Verify(newConfig(t)))
}

func TestVerifyNamesWhatIsWrong(t *testing.T) {
	good := string(newConfig(t))
	put := func(kind, objects string) string {
		return strings.Replace(good, `"`+kind+`":{}`, `"`+kind+`":`+objects, 1)
	}
	for data, faults := range map[string][]string{
		"{}": {`not a cluster configuration: no "cluster" in it`},
		"":   {"not a cluster configuration: "},
		strings.Replace(good, `"uuid":"`+identity.NodeUUID, `"uuid":"other`, 1): {"nodes: " + identity.NodeUUID + " is called other inside"},
		strings.Replace(good, `"group":"`+identity.GroupUUID, `"group":"other`, 1): {
			"nodes: " + identity.NodeUUID + " refers to other, which is not among the nodegroups"},
		put("instances", `{"i":{"uuid":"i","primary_node":"n","disks":["d","e"]},"a":{"uuid":"a","primary_node":"`+identity.NodeUUID+`","disks":[]}}`): {
			"instances: i refers to n, which is not among the nodes",
			"instances: i refers to d, which is not among the disks",
			"instances: i refers to e, which is not among the disks"},
		put("disks", `{"d":{}}`):                                {"disks: d is called  inside"},
		put("filters", `{"g":{"uuid":"f"},"b":{}}`):             {"filters: b is called  inside", "filters: g is called f inside"},
		strings.Replace(good, `"disks":{},`, ``, 1):             {"disks: "},
		put("networks", `3`):                                    {"networks: json: cannot unmarshal number"},
		put("instances", `{"i":{"uuid":"i","primary_node":3}}`): {"instances: json: cannot unmarshal number"},
	} {
		require.NotEqual(t, good, data)
		found := Verify([]byte(data))
		require.Len(t, found, len(faults))
		for n, fault := range faults {
			require.True(t, strings.HasPrefix(found[n], fault), found[n])
		}
	}
}

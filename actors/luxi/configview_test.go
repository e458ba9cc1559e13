package luxi_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/actors/config/clusterconfig"
	"lockstep/core/answer"
	"lockstep/core/config/configtest"
	"lockstep/core/config/history"
	"lockstep/core/config/model"
	"lockstep/core/paths"
	"lockstep/messages"
)

// publish answers the question for the configuration.
func (c *core) publish(current *model.Config) {
	c.Helper()
	m := asked[*messages.PublishConfig](c.client, c.cluster)
	c.Tell(&clusterconfig.ConfigPublished{Request: m.Request, Config: current})
}

// The daemon redacts, also parameters that the catalogue declares as secret.
func TestConfigShow(t *testing.T) {
	withCore(t, func(t *testing.T, c *core) {
		c.Call("LockstepConfigShow", `["instances/inst1/osparams_private", false]`)
		c.publish(configtest.Config())
		require.JSONEq(t, `{"serial_no": 100, "mtime": 1700000000.5, "path": "instances/inst1.gold.example/osparams_private",
			"value": {"root_password": "<redacted>"}}`, c.succeeded())

		changed, _ := configtest.Change(configtest.Config(), 5, func(e *model.Edit) {
			configtest.Put(e, model.Instances, configtest.Inst1, func(i *model.Instance) {
				i.OSParams = model.Dict[string]{{Key: "osparams_secret", Value: "xyzzy"}, {Key: "x", Value: "open"}}
			})
		})
		c.Call("LockstepConfigShow", `["", false]`)
		c.publish(changed)
		whole := c.succeeded()
		require.Contains(t, whole, `"osparams":{"osparams_secret":"<redacted>","x":"open"}`)
		for _, secret := range append([]string{"xyzzy"}, configtest.Secrets...) {
			require.NotContains(t, whole, secret)
		}

		c.Call("LockstepConfigShow", `["nodes", true]`)
		c.publish(configtest.Config())
		var part answer.ConfigPart
		require.NoError(t, json.Unmarshal([]byte(c.succeeded()), &part))
		require.Len(t, part.Table.Rows, 4)

		c.Call("LockstepConfigShow", `["nodes/gone", true]`)
		c.publish(configtest.Config())
		class, text := c.failed()
		require.Equal(t, "OpPrereqError", class)
		require.Equal(t, "nodes/gone: there is no object with this name or uuid", text)
	})
}

func TestConfigCheck(t *testing.T) {
	withCore(t, func(t *testing.T, c *core) {
		c.Call("LockstepConfigCheck", `[]`)
		c.publish(configtest.Config())
		require.JSONEq(t, `{"serial_no": 100, "errors": [], "warnings": ["Not enough master candidates: actual 2, target 3"]}`, c.succeeded())
	})
}

// historyFiles answers the reads of the files of the history.
func (c *core) historyFiles(current, older []byte) {
	c.Helper()
	c.storeGives(paths.ConfigHistoryPath, string(current))
	c.storeGives(paths.ConfigHistoryOlderPath, string(older))
}

func TestConfigHistory(t *testing.T) {
	var files [][]byte
	l := history.Open(nil, nil)
	for i := range 4 {
		files = append(files, l.Append(history.Entry{Serial: int64(i + 1), Time: float64(i), Method: "updateNode", Objects: []history.Difference{}}).Line)
	}
	withCore(t, func(t *testing.T, c *core) {
		serials := func() (all []int64) {
			var a answer.ConfigHistory
			require.NoError(t, json.Unmarshal([]byte(c.succeeded()), &a))
			for _, e := range a.Entries {
				all = append(all, e.Serial)
			}
			return all
		}
		c.Call("LockstepConfigHistory", `[{"from": 2, "to": 3}]`)
		c.historyFiles(slices.Concat(files[2:]...), slices.Concat(files[:2]...))
		require.Equal(t, []int64{2, 3}, serials())

		c.Call("LockstepConfigHistory", `[{}]`) // a rotation between the reads
		c.historyFiles(slices.Concat(files[2:]...), slices.Concat(files[2:]...))
		require.Equal(t, []int64{3, 4}, serials())

		c.Call("LockstepConfigHistory", `[{}]`)
		c.historyFiles(nil, nil)
		require.JSONEq(t, `{"entries": [], "oldest": 0, "damaged": 0}`, c.succeeded())

		c.Call("LockstepConfigHistory", `[{}]`)
		m := asked[*messages.AccessStore](c.client, c.store)
		c.Tell(&messages.AccessStoreResult{Request: m.Request, What: &messages.AccessStoreResult_Read{
			Read: &messages.ReadFileResult{Failure: messages.GenericFailure("input/output error")}}})
		class, text := c.failed()
		require.Equal(t, "GenericError", class)
		require.Equal(t, "input/output error", text)
	})
}

func TestConfigCallsWithWrongArguments(t *testing.T) {
	for method, args := range map[string]string{"LockstepConfigShow": `[null, true]`, "LockstepConfigCheck": `[1]`, "LockstepConfigHistory": `[[]]`} {
		withCore(t, func(t *testing.T, c *core) {
			c.Call(method, args)
			class, text := c.failed()
			require.Empty(t, class)
			require.Contains(t, text, method)
		})
	}
}

// The configuration of a new queue can be shown and has no findings.
func TestConfigOfANewQueue(t *testing.T) {
	withCore(t, func(t *testing.T, c *core) {
		c.configured(7, "")
		c.Call("LockstepConfigCheck", `[]`)
		require.JSONEq(t, `{"serial_no": 2, "errors": [], "warnings": []}`, c.succeeded())
		c.Call("LockstepConfigShow", `["cluster/max_running_jobs", true]`)
		require.Contains(t, c.succeeded(), `"value":7`)
	})
}

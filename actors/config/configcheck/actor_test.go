package configcheck_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/config/clusterconfig"
	"lockstep/actors/config/configcheck"
	"lockstep/actors/kittest"
	"lockstep/core/config/configtest"
	"lockstep/core/config/model"
	"lockstep/messages"
)

const summary = "configuration has findings; lockstep config check shows all of them"

// Findings are in the log once for each change of their set, and no answer waits for them.
func TestFindingsAreLoggedOnce(t *testing.T) {
	kittest.Run(t, func(t *testing.T, e *kittest.Env) {
		cluster := e.Probe("clusterconfig")
		pid := e.Start("configcheck", configcheck.Props(configcheck.Config{Env: e.Env, ClusterConfig: cluster.PID}))
		kittest.Expect[*messages.PublishConfig](cluster)
		publish := func(c *model.Config) { e.Send(pid, &clusterconfig.ConfigPublished{Config: c}); e.Settle() }
		good := configtest.New(t)
		publish(good)
		require.Empty(t, e.Logged(summary))

		bad, _ := configtest.Change(good, 5, func(e *model.Edit) {
			c := good.Cluster.Value
			c.MasterNode = "gone"
			e.SetCluster(c)
		})
		publish(bad)
		require.Empty(t, e.Logged(summary), "checks have a pause")
		e.Advance(time.Second)
		require.Len(t, e.Logged(summary), 1)
		require.NotEmpty(t, e.Logged("configuration has an error"))

		same, _ := configtest.Change(bad, 6, func(e *model.Edit) {
			c := bad.Cluster.Value
			c.MACPrefix = "aa:00:07"
			e.SetCluster(c)
		})
		publish(same)
		e.Advance(time.Minute)
		require.Len(t, e.Logged(summary), 1, "the set is the same")
		publish(good)
		e.Advance(time.Minute)
		require.Len(t, e.Logged("configuration has no findings any longer"), 1)

		many, _ := configtest.Change(good, 7, func(e *model.Edit) {
			for i := range 100 {
				model.Instances.Put(e, fmt.Sprint("i", i), model.Instance{Name: model.Some(strings.Repeat("other", 400) + fmt.Sprint(i))})
			}
		})
		publish(many)
		e.Advance(time.Minute)
		require.Len(t, e.Logged(summary), 2)
		require.LessOrEqual(t, len(e.Logged("configuration has an error"))+len(e.Logged("configuration has a warning")), 20+20)
		longest := 0
		for _, fields := range e.Logged("configuration has an error") {
			longest = max(longest, len(fields["err"].(string)))
		}
		require.Equal(t, 1000, longest, "the name of an instance is longer")
	})
}

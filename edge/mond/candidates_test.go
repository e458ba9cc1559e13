package mond_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	logrustest "github.com/sirupsen/logrus/hooks/test"
	"github.com/stretchr/testify/require"

	"lockstep/actors/kit"
	actormonitor "lockstep/actors/monitor"
	"lockstep/core/confd"
	"lockstep/core/config/configtest"
	"lockstep/core/config/model"
	"lockstep/core/monitor"
	edgeconfd "lockstep/edge/confd"
	"lockstep/edge/gather"
	"lockstep/edge/mond"
)

const confdKey = "0123456789abcdef0123456789abcdef01234567\n"

// candidate is a ConfD with a configuration.
func candidate(t *testing.T, c *model.Config) *edgeconfd.Server {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "hmac.key"), []byte(confdKey), 0o400))
	log, _ := logrustest.NewNullLogger()
	s, err := edgeconfd.Listen(edgeconfd.Config{Log: log, Address: "127.0.0.1:0", DataDir: dir})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	s.Use(confd.NewSnapshot(c, func() []string { return nil }))
	return s
}

// settings is the configuration of the tests with this setting of diskstats, and so many later changes.
func settings(t *testing.T, active bool, changes int) *model.Config {
	t.Helper()
	c, _ := configtest.Change(configtest.Config(), 5, func(e *model.Edit) {
		configtest.Cluster(e, func(v *model.Cluster) {
			v.DataCollectors = model.Dict[model.Collector]{{Key: monitor.DiskStats, Value: model.Collector{Active: active, Interval: 1_000_000}}}
		})
	})
	for i := range changes {
		c = configtest.Edit(t, c, configtest.Slots(i+7))
	}
	return c
}

// A MonD without a data directory takes its settings from the freshest candidate. A dead candidate delays nothing, no request
// waits, and the last known settings stay when all are gone.
func TestAMonDWithoutADataDirectory(t *testing.T) {
	env := kit.New(kit.Options{Clock: kit.RealClock()})
	dead, err := net.ListenPacket("udp", "127.0.0.1:0") // it never answers
	require.NoError(t, err)
	defer dead.Close()
	stale, fresh := candidate(t, settings(t, true, 1)), candidate(t, settings(t, false, 3))
	node := ""
	for _, n := range configtest.Config().Nodes.All() {
		node = n.Value.Name
	}
	s := newServer(t)
	candidates := &mond.Candidates{System: env.System(), Key: func() ([]byte, error) { return []byte(confdKey), nil },
		Addresses: func() []string {
			return []string{dead.LocalAddr().String(), stale.Address().String(), fresh.Address().String()}
		}}
	pid, done, err := env.SpawnRoot(actormonitor.Props(actormonitor.Config{Env: env, Sources: gather.New(gather.Config{System: env.System(), Proc: "/proc"}), Board: s.board,
		Node: node, Candidates: candidates, Started: time.Now()}), "monitor")
	require.NoError(t, err)
	listing := func() string {
		begin := time.Now()
		_, text := s.get("/1/list/collectors", "")
		require.Less(t, time.Since(begin), 2*time.Second)
		return text
	}
	require.Eventually(t, func() bool {
		text := listing()
		first := strings.Contains(text, "queue") // what newServer shows before the monitor does
		return !first && !strings.Contains(text, "diskstats") && strings.Contains(text, "cpu-avg-load")
	}, 20*time.Second, 20*time.Millisecond)
	require.NoError(t, stale.Close())
	require.NoError(t, fresh.Close())
	require.NotContains(t, listing(), "diskstats")
	require.NotContains(t, listing(), "queue")
	env.System().Root.Stop(pid)
	<-done
}

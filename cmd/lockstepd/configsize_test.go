package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/config/journal"
	"lockstep/core/config/model"
	"lockstep/core/ownership"
	"lockstep/core/paths"
	"lockstep/core/wire"
	"lockstep/edge/luxiclient"
	"lockstep/persistence"
)

var configMegabytes = flag.Int("config.megabytes", 20, "size of the configuration of TestALargeConfiguration; make check has 100")

// A large configuration is served and changed. A request with it is refused if it is longer than max-frame, and accepted otherwise. With
// one of 100 MB, max-frame is the default.
func TestALargeConfiguration(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	require.Zero(t, d.stop())
	path := d.path("lib", paths.ConfigPath)
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	c, _, err := journal.DecodeConfig(content)
	require.NoError(t, err)
	e, cluster := c.Edit(), c.Cluster.Value
	for i := range *configMegabytes {
		cluster.Tags = append(cluster.Tags, fmt.Sprintf("%03d%s", i, strings.Repeat("x", 1<<20)))
	}
	e.SetCluster(cluster)
	large, _ := e.Commit(c.MTime)
	require.NoError(t, os.WriteFile(path, large.JSON(), 0o640))

	livelock, err := persistence.CreateLivelock(persistence.LivelockDir(d.path("run")), "large", ownership.Rules{})
	require.NoError(t, err)
	defer func() { require.NoError(t, livelock.Release()) }()
	owner := []any{"large", livelock.Path(), os.Getpid()}
	dial := func() *luxiclient.Client {
		l, err := luxiclient.Dial(context.Background(), d.path("run", "socket", "ganeti-wconfd"), luxiclient.Options{AnswerTimeout: time.Minute, MaxFrame: 256 << 20})
		require.NoError(t, err)
		t.Cleanup(func() { _ = l.Close() })
		return l
	}
	read := func() []byte {
		var answer json.RawMessage
		require.NoError(t, dial().Call(context.Background(), "readConfig", []any{}, &answer))
		return answer
	}
	write := func() error {
		l := dial()
		require.NoError(t, l.Call(context.Background(), "lockConfig", []any{owner, false}, nil))
		var isWritten bool
		if err := l.Call(context.Background(), "writeConfigAndUnlock", []any{owner, json.RawMessage(large.JSON())}, &isWritten); err != nil {
			return err
		}
		require.True(t, isWritten)
		return nil
	}
	frameMax := *configMegabytes << 20 * 64 / 100
	d.start("--max-frame", fmt.Sprint(frameMax))
	require.True(t, bytes.Equal(large.JSON(), read()))
	err = write()
	require.ErrorContains(t, err, fmt.Sprintf("Failed to parse request: frame is larger than %d bytes", frameMax))
	require.True(t, bytes.Equal(large.JSON(), read()), "nothing has changed")
	require.NoError(t, dial().Call(context.Background(), "unlockConfig", []any{owner}, nil))
	var port int64
	require.NoError(t, dial().Call(context.Background(), "allocatePort", []any{}, &port))
	require.Zero(t, d.stop())
	content, err = os.ReadFile(path)
	require.NoError(t, err)
	folded, err := model.Decode(content)
	require.NoError(t, err)
	require.NoFileExists(t, d.path("lib", paths.ConfigJournalPath))
	require.Equal(t, port, folded.Cluster.Value.HighestUsedPort)
	require.Equal(t, large.Serial+1, folded.Serial)

	d.start("--max-frame", fmt.Sprint(*configMegabytes<<21))
	e, cluster = folded.Edit(), folded.Cluster.Value
	cluster.Tags = append([]string{"written"}, cluster.Tags...)
	e.SetCluster(cluster)
	large, _ = e.Commit(c.MTime)
	require.NoError(t, write())
	require.Zero(t, d.stop())
	content, err = os.ReadFile(path)
	require.NoError(t, err)
	folded, err = model.Decode(content)
	require.NoError(t, err)
	require.True(t, slices.Contains(folded.Cluster.Value.Tags, "written"))
	require.Equal(t, large.Serial+1, folded.Serial)
}

// A configuration that is not UTF-8 stops the start, and a request with it changes nothing.
func TestAConfigurationThatIsNotUTF8(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	c := d.wconfd()
	var whole json.RawMessage
	c.call("readConfig", &whole)
	damaged := bytes.Replace(whole, []byte(`"tags":[]`), []byte("\"tags\":[\"\xff\"]"), 1)
	require.NotEqual(t, len(whole), len(damaged))
	owner := `["tool","` + d.path("run", "livelocks", "none") + `",7]`
	for _, call := range []string{`"updateCluster","args":[{"cluster_name":"` + "\xff" + `"}]`, `"writeConfig","args":[` + owner + `,` + string(damaged) + `]`} {
		answer := d.wconfdFrame(`{"method":` + call + `}`)
		require.Contains(t, answer, `"success":false`)
		require.Contains(t, answer, "UTF-8")
		var now json.RawMessage
		c.call("readConfig", &now)
		require.Equal(t, string(whole), string(now))
	}
	require.Zero(t, d.stop())
	path := d.path("lib", paths.ConfigPath)
	require.NoError(t, os.WriteFile(path, damaged, 0o640))
	d.launch()
	select {
	case <-d.done:
	case <-time.After(patience):
		t.Fatal("the daemon runs")
	}
	require.NotZero(t, d.cmd.ProcessState.ExitCode())
	d.cmd = nil
	require.Contains(t, d.logged(), paths.ConfigPath+": Invalid UTF-8")
	kept, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, damaged, kept)
}

// wconfdFrame sends one frame to the socket for locks and the configuration, and returns the answer.
func (d *daemon) wconfdFrame(request string) string {
	d.t.Helper()
	conn, err := net.Dial("unix", d.path("run", "socket", "ganeti-wconfd"))
	require.NoError(d.t, err)
	defer conn.Close()
	require.NoError(d.t, conn.SetDeadline(time.Now().Add(patience)))
	_, err = conn.Write(append([]byte(request), wire.Terminator))
	require.NoError(d.t, err)
	answer, err := wire.NewReader(conn, wire.MaxFrame).ReadFrame()
	require.NoError(d.t, err)
	return string(answer)
}

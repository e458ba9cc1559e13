package configstore_test

import (
	"encoding/json"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/config/configstore"
	"lockstep/actors/kittest"
	"lockstep/core/config/history"
	"lockstep/core/config/model"
	"lockstep/core/paths"
	"lockstep/sim/simdisk"
)

// historyNames returns the names of the cluster that the changes in the history have set, in order. A line of an interrupted write counts as none.
func (b *bench) historyNames() []string {
	b.Helper()
	entries, _ := history.Read([]byte(b.content(paths.ConfigHistoryOlderPath)), []byte(b.content(paths.ConfigHistoryPath)))
	var names []string
	for _, e := range entries {
		for _, p := range e.Objects[0].Paths {
			if p.Path == "cluster_name" {
				var name string
				require.NoError(b, json.Unmarshal(p.New, &name))
				names = append(names, name)
			}
		}
	}
	return names
}

// requireHistory requires that the history has each change that led to the state once, and no other one.
func (b *bench) requireHistory() {
	b.Helper()
	var want []string
	for name := b.name(); b.parents[name] != ""; name = b.parents[name] {
		want = append(want, name)
	}
	slices.Reverse(want)
	require.Equal(b, want, b.historyNames())
}

// The history says who has changed what, and how. Its file is written again after a failure.
func TestHistory(t *testing.T) {
	onBench(t, func(b *bench) {
		b.change()
		b.change()
		require.Empty(t, b.content(paths.ConfigHistoryPath), "no answer waits for the history")
		b.Advance(100 * time.Millisecond)
		b.requireHistory()
		entries, _ := history.Read([]byte(b.content(paths.ConfigHistoryPath)))
		require.Equal(t, []int64{43, 44}, []int64{entries[0].Before, entries[1].Before})
		require.Equal(t, "updateCluster", entries[0].Method)

		b.disk.Fail(simdisk.Fault{Op: "config-history", Nth: 1, Times: 1, Err: syscall.EIO})
		b.change()
		b.Advance(time.Second)
		b.change()
		require.Nil(t, b.flush())
		b.requireHistory()
		b.reboot(nil)
		b.load()
		b.change()
		require.Nil(t, b.flush())
		b.requireHistory()
		b.agree()
	})
}

// A full file takes the place of the older one before the next entry.
func TestHistoryRotates(t *testing.T) {
	onBench(t, func(b *bench) {
		first := history.Entry{Serial: 1, Time: 1, Method: strings.Repeat("x", history.MaxSize/2)}.Line()
		b.overwrite(paths.ConfigHistoryPath, first)
		b.overwrite(paths.ConfigHistoryOlderPath, []byte("{}\n"))
		b.change()
		b.change()
		require.Nil(t, b.flush())
		require.Equal(t, len(first), len(b.content(paths.ConfigHistoryOlderPath)))
		require.Equal(t, 2, strings.Count(b.content(paths.ConfigHistoryPath), "\n"))
	})
}

// No secret is in the file, also none that an operator has declared.
func TestHistoryHasNoSecrets(t *testing.T) {
	onBench(t, func(b *bench) {
		b.secrets = []string{"console_token"}
		b.reboot(nil)
		b.load()
		b.send(b.recordOf(func(c *model.Cluster) {
			c.OSParams = model.Dict[model.Dict[string]]{{Key: "debian", Value: model.Dict[string]{{Key: "console_token", Value: "hush1"}, {Key: "os_version", Value: "13"}}}}
			c.OSParamsPrivate = model.Dict[model.Dict[string]]{{Key: "debian", Value: model.Dict[string]{{Key: "password", Value: "hush2"}}}}
		}))
		b.expectAppended()
		require.Nil(t, b.flush())
		content := b.content(paths.ConfigHistoryPath)
		require.Contains(t, content, "<redacted>")
		require.Contains(t, content, "os_version")
		require.NotContains(t, content, "hush")
	})
}

// The history tells that foreign content was adopted, and has the changes that it replaces.
func TestHistoryOfAnAdoption(t *testing.T) {
	onBench(t, func(b *bench) {
		b.change()
		name := b.name()
		b.overwrite(paths.ConfigPath, foreign(t))
		b.ask(func(n uint64) any { return &configstore.Adopt{Request: n} })
		require.Nil(t, kittest.Expect[*configstore.ForeignResolved](b.client).Failure)
		entries, _ := history.Read([]byte(b.content(paths.ConfigHistoryPath)))
		require.Len(t, entries, 2)
		require.Contains(t, string(entries[0].Objects[0].Paths[0].New), name)
		require.Equal(t, "lockstepAdoptConfig", entries[1].Method)
		require.EqualValues(t, 9, entries[1].Serial)
		require.True(t, entries[1].Client.Unknown)
	})
}

package features_test

import (
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"lockstep/actors/features"
	"lockstep/actors/kittest"
	"lockstep/actors/store"
	"lockstep/core/paths"
	"lockstep/core/replication"
	"lockstep/messages"
)

type bench struct {
	*testing.T
	*kittest.Env
	disk               *kittest.Disk
	client, replicator *kittest.Probe
	pid                *actor.PID
}

func onBench(t *testing.T, content string, f func(*bench)) {
	t.Helper()
	kittest.Run(t, func(t *testing.T, e *kittest.Env) {
		files := map[string]string{}
		if content != "" {
			files[paths.FeaturesPath] = content
		}
		b := &bench{T: t, Env: e, disk: kittest.NewDisk(files), client: e.Probe("client"), replicator: e.Probe("replicator")}
		pid := e.Start("store", store.Props(store.Config{Env: e.Env, Files: b.disk, Writers: 4, Clients: []*actor.PID{e.PID("above-features/features")}}))
		b.pid = e.Start("features", features.Props(features.Config{Env: e.Env, Store: pid, Replicator: b.replicator.PID}))
		b.Settle()
		f(b)
	})
}

// answer answers the next question to the replicator. states are the features by member, nil for one that does not answer.
func (b *bench) answer(withStates bool, states ...[]string) {
	b.Helper()
	m := kittest.Expect[*messages.GetNodes](b.replicator)
	require.Equal(b, withStates, m.WithStates)
	a := &messages.GetNodesResult{Request: m.Request, Members: []*messages.Member{{Name: "n1"}, {Name: "n2"}}}
	for i, known := range states {
		a.States = append(a.States, &messages.NodeState{Name: a.Members[i].Name, Answers: known != nil, Features: known})
	}
	b.Send(b.pid, a)
	b.Settle()
}

func (b *bench) ask() {
	b.client.Ask(b.pid, &features.Ask{Request: 3, Feature: replication.Grants})
	b.Settle()
}

func (b *bench) lacking() string {
	b.Helper()
	return kittest.Expect[*features.AskResult](b.client).Lacking
}

var all, older = replication.Features(), []string{}

// A member that was replaced by an older version does not know a feature any longer. One that is down keeps what it has stated.
func TestADowngradedMemberKnowsNothing(t *testing.T) {
	onBench(t, "", func(b *bench) {
		b.answer(true, all, nil)
		require.Empty(b, b.disk.Content(paths.FeaturesPath), "n2 may be of an older version, which does not expect the file")
		b.ask()
		b.answer(false)
		b.answer(true, all, nil)
		require.Equal(b, "n2", b.lacking())
		b.ask()
		b.answer(false)
		b.answer(true, all, all)
		require.Empty(b, b.lacking())
		b.ask()
		b.answer(false)
		require.Empty(b, b.lacking(), "no member is asked again")
		b.Advance(features.Every)
		b.answer(true, all, nil)
		b.ask()
		b.answer(false)
		require.Empty(b, b.lacking())
		b.Advance(features.Every)
		b.answer(true, all, older)
		b.ask()
		b.answer(false)
		b.answer(true, all, older)
		require.Equal(b, "n2", b.lacking())
		require.JSONEq(b, `{"nodes": {"n1": ["audit", "grants", "limits", "schedules", "start times", "submitters", "tries"], "n2": []}}`, b.disk.Content(paths.FeaturesPath))
	})
}

// A new master knows what a member has stated that is down.
func TestStatementsOutliveTheMaster(t *testing.T) {
	onBench(t, `{"nodes": {"n1": ["grants", "submitters"], "n2": ["grants"]}}`, func(b *bench) {
		b.answer(true, all, nil)
		b.ask()
		b.answer(false)
		require.Empty(b, b.lacking())
	})
	onBench(t, `{"nodes": `, func(b *bench) {
		b.answer(true, all, nil)
		b.ask()
		b.answer(false)
		b.answer(true, all, nil)
		require.Equal(b, "n2", b.lacking())
	})
}

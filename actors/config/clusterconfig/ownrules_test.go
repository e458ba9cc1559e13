package clusterconfig_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/actors/config/clusterconfig"
	"lockstep/actors/kittest"
	"lockstep/messages"
)

func (b *bench) edit(m *messages.EditConfig) *messages.Failure {
	b.Helper()
	b.number++
	m.Request = b.number
	b.client.Ask(b.cluster, m)
	return kittest.Expect[*messages.EditConfigResult](b.client).Failure
}

// A rule that Ganeti cannot read is published, durable and not in the configuration. It survives a crash of the actor.
func TestAnOwnRule(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.others.Unread()
		before := b.current()
		const rule = `{"uuid":"u","until":5}`
		require.Nil(t, b.edit(&messages.EditConfig{Filter: "u", Rule: []byte(rule), Own: true}))
		published := kittest.Expect[*clusterconfig.ConfigPublished](b.others)
		require.Equal(t, rule, string(published.FilterRules()["u"]))
		require.Equal(t, string(before.JSON()), string(published.Config.JSON()))
		require.Equal(t, rule, string(b.storage.State().Rules.Get("u")))

		b.Crash(b.cluster)
		b.Advance(kittest.Backoff)
		require.Equal(t, rule, string(kittest.Expect[*clusterconfig.ConfigPublished](b.others).FilterRules()["u"]))
		b.locked(nil)

		require.Nil(t, b.edit(&messages.EditConfig{Filter: "u", IfRule: []byte(`{"uuid":"u","until":6}`)}), "it is another rule")
		require.NotNil(t, b.storage.State().Rules.Get("u"))
		require.Nil(t, b.edit(&messages.EditConfig{Filter: "u", IfRule: []byte(rule)}))
		require.Nil(t, b.storage.State().Rules.Get("u"))
	})
}

package filters_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/core/filter"
	"lockstep/messages"
)

// lasting is a request for a rule that pauses all jobs, with an end after so many seconds.
func lasting(request uint64, uuid string, seconds int) *messages.ChangeFilter {
	return &messages.ChangeFilter{Request: request, Change: &messages.ChangeFilter_Replace{Replace: &messages.FilterParts{Uuid: fmt.Appendf(nil, "%q", uuid),
		Priority: []byte("0"), Predicates: []byte("[]"), Action: []byte(`"PAUSE"`), Reason: []byte("[]"), Lasts: fmt.Append(nil, seconds)}}}
}

// pauseFor makes a rule with an end that pauses job 41, and returns its text.
func (b *bench) pauseFor(seconds int) []byte {
	b.sendEvaluate(1, 41)
	b.expectVerdicts(1)
	b.request(lasting(8, uuidA, seconds))
	b.answerSerial(42)
	edit := b.expectEdit()
	require.True(b, edit.Own)
	b.answerEdit(edit)
	kittest.Expect[*messages.VerdictsChanged](b.queue)
	b.expectFilterResult(8)
	return b.own.Get(uuidA)
}

// A rule with an end is one for config.extra. It ends without a client.
func TestARuleEnds(t *testing.T) {
	onReady(t, nil, func(t *testing.T, b *bench) {
		text := b.pauseFor(7200)
		var stored struct{ Until int64 }
		require.NoError(t, json.Unmarshal(text, &stored))
		require.EqualValues(t, 1704067200000000000+7200e9, stored.Until)

		b.Advance(7199 * time.Second)
		b.queue.Quiet()
		b.cluster.Quiet()
		b.Advance(time.Second)
		b.expectChanged(&messages.Verdict{Id: 41})
		edit := b.expectEdit()
		require.Equal(t, uuidA, edit.Filter)
		require.Empty(t, edit.Rule)
		require.JSONEq(t, string(text), string(edit.IfRule))
		b.answerEdit(edit)
		require.Nil(t, b.own.All())
		b.Advance(time.Hour)
		b.cluster.Quiet()
	})
}

// A rule that has ended applies to no job, although it cannot be deleted. The deletion is repeated.
func TestAnEndedRuleThatCannotBeDeleted(t *testing.T) {
	onReady(t, nil, func(t *testing.T, b *bench) {
		b.pauseFor(60)
		b.Advance(time.Minute)
		b.expectChanged(&messages.Verdict{Id: 41})
		for range 2 {
			edit := b.expectEdit()
			b.cluster.Quiet()
			b.cluster.Ask(b.filters, &messages.EditConfigResult{Request: edit.Request, Failure: messages.GenericFailure("no")})
			b.Settle()
			b.Advance(5 * time.Second)
		}
		b.answerEdit(b.expectEdit())
		require.Nil(t, b.own.All())
		b.client.Ask(b.filters, &messages.ListFilters{Request: 3})
		require.Empty(t, kittest.Expect[*messages.ListFiltersResult](b.client).Rules)
	})
}

// A rule that was replaced in the moment of its end stays.
func TestAnEndedRuleThatIsReplaced(t *testing.T) {
	onReady(t, nil, func(t *testing.T, b *bench) {
		b.pauseFor(60)
		b.request(lasting(9, uuidA, 3600))
		b.answerSerial(42)
		replaced := b.expectEdit()
		b.Advance(time.Minute)
		b.expectChanged(&messages.Verdict{Id: 41})
		ended := b.expectEdit()
		b.answerEdit(replaced)
		b.answerEdit(ended)
		require.NotNil(t, b.own.Get(uuidA))
		b.expectChanged(verdictOf(41, uuidA))
		b.Advance(time.Hour)
		b.expectChanged(&messages.Verdict{Id: 41})
	})
}

func verdictOf(id int64, rule string) *messages.Verdict {
	return &messages.Verdict{Id: id, Rule: rule, Action: int32(filter.Pause)}
}

// A rule whose end came while no daemon ran applies to no job.
func TestARuleThatHasEndedBeforeTheStart(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		var err error
		b.own, err = b.own.Put(uuidA, json.RawMessage(`{"uuid":"`+uuidA+`","watermark":1,"priority":0,"predicates":[],"action":"PAUSE","reason_trail":[],"until":1704067199000000000}`))
		require.NoError(t, err)
		b.configure(nil)
		b.publish()
		b.sendEvaluate(0, 41)
		b.expectVerdicts(0)
		require.Equal(t, uuidA, b.expectEdit().Filter)
	})
}

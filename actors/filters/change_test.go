package filters_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/actors/config/clusterconfig"
	"lockstep/actors/kittest"
	"lockstep/core/config"
	"lockstep/core/filter"
	"lockstep/messages"
)

// replaces is a request to replace a rule.
func replaces(request uint64, uuid string) *messages.ChangeFilter {
	return &messages.ChangeFilter{Request: request, Change: &messages.ChangeFilter_Replace{Replace: &messages.FilterParts{
		Uuid: []byte(uuid), Priority: []byte(`3`), Predicates: []byte(`[["jobid", [">", "id", "watermark"]]]`), Action: []byte(`"REJECT"`),
		Reason: []byte(`[["gnt:user", "drain", 5]]`)}}}
}

func deletes(request uint64, uuid string) *messages.ChangeFilter {
	return &messages.ChangeFilter{Request: request, Change: &messages.ChangeFilter_Delete{Delete: uuid}}
}

func (b *bench) request(m any) { b.client.Ask(b.filters, m); b.Settle() }

func (b *bench) expectFilterResult(request uint64) *messages.ChangeFilterResult {
	b.Helper()
	a := kittest.Expect[*messages.ChangeFilterResult](b.client)
	require.Equal(b, request, a.Request)
	return a
}

// answerSerial answers GetSerial.
func (b *bench) answerSerial(serial int64) {
	b.Helper()
	question := kittest.Expect[*messages.GetSerial](b.queue)
	b.queue.Ask(b.filters, &messages.GetSerialResult{Request: question.Request, Serial: serial})
	b.Settle()
}

func (b *bench) expectEdit() *messages.EditConfig {
	b.Helper()
	return kittest.Expect[*messages.EditConfig](b.cluster)
}

// answerEdit publishes the edited configuration and then answers the edit.
func (b *bench) answerEdit(m *messages.EditConfig) {
	b.Helper()
	b.publishEdit(m)
	b.Settle()
}

// publishEdit is answerEdit without waiting for the consequences.
func (b *bench) publishEdit(m *messages.EditConfig) {
	b.Helper()
	e := b.stored.Edit()
	own, err := config.ConfigChange{RuleUUID: m.Filter, Rule: m.Rule, Own: m.Own, If: m.IfRule}.Apply(e, b.own, 1)
	require.NoError(b, err)
	b.stored, _ = e.Commit(1)
	b.own = own
	b.publish()
	b.cluster.Ask(b.filters, &messages.EditConfigResult{Request: m.Request})
}

func (b *bench) publish() {
	b.cluster.Ask(b.filters, &clusterconfig.ConfigPublished{Config: b.stored, Rules: b.own})
}

// The watermark is the serial, and the queue has the new verdicts before the client has its
// answer.
func TestReplaceFilter(t *testing.T) {
	onReady(t, nil, func(t *testing.T, b *bench) {
		b.sendEvaluate(1, 41, 42, 43)
		b.expectVerdicts(1)
		b.request(replaces(8, `"`+uuidA+`"`))
		b.cluster.Quiet()
		b.answerSerial(42)
		edit := b.expectEdit()
		require.Equal(t, uuidA, edit.Filter)
		require.JSONEq(t, `{"uuid": "`+uuidA+`", "watermark": 42, "priority": 3, "predicates": [["jobid", [">", "id", "watermark"]]],
			"action": "REJECT", "reason_trail": [["gnt:user", "drain", 5], ["luxid", "", 1704067200000000000]]}`, string(edit.Rule))
		b.client.Quiet()

		b.cluster.Ask(b.filters, &messages.EditConfigResult{Request: edit.Request + 1}) // another edit
		b.client.Quiet()
		b.answerEdit(edit)
		b.expectChanged(&messages.Verdict{Id: 43, Rule: uuidA, Action: int32(filter.Reject), Reason: "drain"})
		require.EqualExportedValues(t, &messages.ChangeFilterResult{Request: 8, Uuid: uuidA, Matches: 1, LowestJobs: []int64{43}}, b.expectFilterResult(8))
		b.cluster.Ask(b.filters, &messages.EditConfigResult{Request: edit.Request}) // repeated
		b.client.Quiet()
	})
}

// The verdicts are sent before the answer, so that they are effective for the client's next
// request.
func TestTheQueueHearsBeforeTheClient(t *testing.T) {
	onReady(t, nil, func(t *testing.T, b *bench) {
		b.sendEvaluate(1, 43)
		b.expectVerdicts(1)
		b.client = b.queue // the same mailbox for both messages
		b.request(replaces(8, `"`+uuidA+`"`))
		b.answerSerial(42)
		edit := b.expectEdit()
		b.answerEdit(edit)
		news := b.queue.Unread()
		require.Len(t, news, 2)
		require.IsType(t, &messages.VerdictsChanged{}, news[0])
		require.IsType(t, &messages.ChangeFilterResult{}, news[1])
	})
}

func TestSeveralChangesAtOnce(t *testing.T) {
	onReady(t, nil, func(t *testing.T, b *bench) {
		b.request(replaces(8, `"`+uuidA+`"`))
		b.request(replaces(9, `"`+uuidB+`"`))
		b.answerSerial(1)
		b.answerSerial(2)
		first, second := b.expectEdit(), b.expectEdit()
		require.Contains(t, string(first.Rule), `"watermark":1`)
		require.Contains(t, string(second.Rule), `"watermark":2`)
		b.answerEdit(second)
		require.Equal(t, uuidB, b.expectFilterResult(9).Uuid)
		b.answerEdit(first)
		require.Equal(t, uuidA, b.expectFilterResult(8).Uuid)
	})
}

func TestARefusedRequest(t *testing.T) {
	quoted := `"` + uuidA + `"`
	for name, c := range map[string]struct {
		change    func(*messages.FilterParts)
		malformed bool
		text      string
	}{
		"upper case": {func(m *messages.FilterParts) { m.Uuid = []byte(`"AAAAAAAA-0000-4000-8000-000000000000"`) }, false, "Unable to parse UUID"},
		"no uuid":    {func(m *messages.FilterParts) { m.Uuid = []byte(`"x"`) }, false, "Unable to parse UUID"},
		"a number":   {func(m *messages.FilterParts) { m.Uuid = []byte(`7`) }, true, "uuid: want null or a string"},
		"null":       {func(m *messages.FilterParts) { m.Uuid = []byte(`null`) }, true, "a filter rule needs a uuid"},
		"priority":   {func(m *messages.FilterParts) { m.Priority = []byte(`-1`) }, true, "priority: "},
		"predicates": {func(m *messages.FilterParts) { m.Predicates = []byte(`[["x"]]`) }, true, "predicates[0]"},
		"action":     {func(m *messages.FilterParts) { m.Action = []byte(`["RATE_LIMIT", 0]`) }, true, "action[1]"},
		"reason":     {func(m *messages.FilterParts) { m.Reason = []byte(`[["x"]]`) }, true, "reason[0]"},
	} {
		t.Run(name, func(t *testing.T) {
			onReady(t, nil, func(t *testing.T, b *bench) {
				m := replaces(8, quoted)
				c.change(m.GetReplace())
				b.request(m)
				a := b.expectFilterResult(8)
				require.Equal(t, c.malformed, a.Malformed)
				require.Equal(t, messages.ClassGeneric, a.Failure.Class)
				require.Contains(t, a.Failure.Text, c.text)
				b.queue.Quiet()
				b.cluster.Quiet()
			})
		})
	}
}

// The author of a rule is in its reason trail, whatever the client wrote there, and in the
// verdicts of the rule.
func TestWhoHasMadeARule(t *testing.T) {
	onReady(t, nil, func(t *testing.T, b *bench) {
		b.sendEvaluate(1, 43)
		b.expectVerdicts(1)
		m := replaces(8, `"`+uuidA+`"`)
		m.By, m.GetReplace().Reason = "uid=1000(ada), pid=7", []byte(`[["lockstep:user", "uid=0(root)", 1], ["gnt:user", "drain", 5]]`)
		b.request(m)
		b.answerSerial(42)
		edit := b.expectEdit()
		require.Contains(t, string(edit.Rule), `"reason_trail":[["gnt:user","drain",5],["lockstep:user","uid=1000(ada), pid=7",1704067200000000000],["luxid","",`)
		b.answerEdit(edit)
		b.expectChanged(&messages.Verdict{Id: 43, Rule: uuidA, Action: int32(filter.Reject), Reason: "drain", By: "uid=1000(ada), pid=7"})
	})
}

func TestDeleteFilter(t *testing.T) {
	onReady(t, map[string]string{uuidA: rule(uuidA, 1, `[]`, `"PAUSE"`)}, func(t *testing.T, b *bench) {
		b.sendEvaluate(1, 1)
		b.expectVerdicts(1, verdict(1, uuidA, filter.Pause, 0))
		b.request(deletes(8, uuidA))
		edit := b.expectEdit()
		require.Equal(t, uuidA, edit.Filter)
		require.Empty(t, edit.Rule)
		b.answerEdit(edit)
		b.expectChanged(&messages.Verdict{Id: 1})
		require.Nil(t, b.expectFilterResult(8).Failure)
	})
}

func TestAChangeThatFails(t *testing.T) {
	onReady(t, nil, func(t *testing.T, b *bench) {
		b.request(deletes(8, uuidA))
		failure := messages.GenericFailure("There is no filter rule " + uuidA)
		b.cluster.Ask(b.filters, &messages.EditConfigResult{Request: b.expectEdit().Request, Failure: failure})
		require.EqualExportedValues(t, failure, b.expectFilterResult(8).Failure)
		b.queue.Quiet()
	})
}

// A restarted queue is asked for the serial again.
func TestTheQueueRestartsDuringAChange(t *testing.T) {
	onReady(t, nil, func(t *testing.T, b *bench) {
		b.request(replaces(8, `"`+uuidA+`"`))
		b.request(replaces(9, `"`+uuidB+`"`))
		first := kittest.Expect[*messages.GetSerial](b.queue)
		b.answerSerial(5)
		b.queue.Ask(b.filters, &messages.QueueStarted{Incarnation: 2})
		require.Equal(t, first.Request, kittest.Expect[*messages.GetSerial](b.queue).Request)
		kittest.Expect[*messages.FiltersStarted](b.queue)
		b.queue.Quiet()
		for range 2 { // it has received both requests
			b.queue.Ask(b.filters, &messages.GetSerialResult{Request: first.Request, Serial: 6})
		}
		require.Equal(t, uuidB, b.expectEdit().Filter)
		require.Equal(t, uuidA, b.expectEdit().Filter)
		b.cluster.Unread()
		b.cluster.Quiet()
	})
}

// Open changes are lost in a crash, and late answers to them are ignored.
func TestAChangeThatIsCutOff(t *testing.T) {
	onReady(t, nil, func(t *testing.T, b *bench) {
		b.request(replaces(8, `"`+uuidA+`"`))
		former := kittest.Expect[*messages.GetSerial](b.queue)
		b.Restart(b.filters)
		b.configure(nil)
		b.queue.Ask(b.filters, &messages.GetSerialResult{Request: former.Request, Serial: 7})
		b.request(replaces(9, `"`+uuidB+`"`))
		b.queue.Ask(b.filters, &messages.GetSerialResult{Request: former.Request, Serial: 7})
		b.Settle()
		b.answerSerial(8)
		require.Equal(t, uuidB, b.expectEdit().Filter)
	})
}

// The limit on all rules together is checked before a rule is made.
func TestARuleForWhichThereIsNoRoom(t *testing.T) {
	expensive := `[["opcode", ["=~", "x", "` + strings.Repeat("a{1000}", 99) + `"]]]`
	rules := map[string]string{}
	for i := range 10 {
		uuid := fmt.Sprintf("aaaaaaaa-0000-4000-8000-00000000000%d", i)
		rules[uuid] = rule(uuid, i, expensive, `"PAUSE"`)
	}
	onReady(t, rules, func(t *testing.T, b *bench) {
		m := replaces(8, `"`+uuidB+`"`)
		m.GetReplace().Predicates = []byte(`[["opcode", ["=~", "x", "` + strings.Repeat("a{1000}", 9) + `"]]]`)
		b.request(m)
		b.answerSerial(1)
		a := b.expectFilterResult(8)
		require.True(t, a.Malformed)
		require.Contains(t, a.Failure.Text, "the patterns of all rules together")
		b.cluster.Quiet()
		b.request(replaces(9, `"`+uuidB+`"`))
		b.answerSerial(1)
		require.Equal(t, uuidB, b.expectEdit().Filter)
	})
}

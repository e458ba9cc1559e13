package luxi_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/audit"
	"lockstep/actors/conn/conntest"
	"lockstep/actors/kittest"
	"lockstep/actors/luxi"
	coreaudit "lockstep/core/audit"
	"lockstep/core/opcode"
	"lockstep/messages"
)

// notAudited are the methods that change nothing, or of which other files say who has called them: submissions, whose jobs do. Processes of
// the daemon alone call the last ones.
var notAudited = []string{
	"LockstepAudit", "LockstepAwaitJobs", "LockstepConfigCheck", "LockstepConfigHistory", "LockstepConfigShow", "LockstepDistribution",
	"LockstepEvents", "LockstepGetSettings", "LockstepListFilters", "LockstepListJobs", "LockstepLocks", "LockstepNextJobs", "LockstepNodes",
	"LockstepOpcodes", "LockstepOrder", "LockstepPageJobs", "LockstepPending", "LockstepStatus", "LockstepTestFilter", "LockstepWhy",
	"LockstepListGrants", "LockstepMayOrder", "LockstepSchedules", "LockstepUsage", "LockstepWhoAmI",
	"PickupJob", "Query", "QueryClusterInfo", "QueryConfigValues", "QueryExports", "QueryFields", "QueryFilters", "QueryGroups",
	"QueryInstances", "QueryJobs", "QueryNetworks", "QueryNodes", "QueryTags", "WaitForJobChange",
	"LockstepSubmitJobs", "SubmitJob", "SubmitJobToDrainedQueue", "SubmitManyJobs",
	"LockstepBeginOpcode", "LockstepCheckSession", "LockstepEndSession", "LockstepOpenSession", "LockstepRedeemLink", "LockstepReportJob",
}

// Each method has entries in the audit log, or is known to need none.
func TestWhichMethodsAreAudited(t *testing.T) {
	for _, method := range luxi.Methods() {
		audited := slices.Contains(coreaudit.Methods(), method)
		require.NotEqual(t, audited, slices.Contains(notAudited, method), "%s must be in core/audit or in the list above", method)
	}
}

// audited is a gateway with an audit log that the test plays.
type audited struct {
	*core
	audit *kittest.Probe
}

func withAudit(t *testing.T, f func(*audited)) {
	t.Helper()
	kittest.Run(t, func(t *testing.T, e *kittest.Env) {
		b := &bench{T: t, Env: e, queue: e.Probe("queue"), store: e.Probe("store")}
		b.store.Answer(func(m any) any {
			if _, ok := m.(*messages.AnnounceStore); ok {
				return &messages.StoreStarted{Incarnation: 1}
			}
			return nil
		})
		log := e.Probe("audit")
		b.luxi = e.Start("luxi", luxi.Props(luxi.Config{Env: e.Env, Queue: b.queue.PID, Store: b.store.PID, Audit: log.PID, Catalogue: opcode.Builtin()}))
		f(&audited{&core{client: &client{b, conntest.Connect(t, e, b.luxi)}}, log})
	})
}

func (a *audited) recorded() *audit.Record {
	a.Helper()
	m := asked[*audit.Record](a.client, a.audit)
	a.queue.Quiet()
	return m
}

func (a *audited) order(kind messages.OrderJob_Kind) *messages.OrderJob {
	a.Helper()
	m := asked[*messages.OrderJob](a.client, a.queue)
	require.Equal(a, kind, m.Kind)
	return m
}

var diskFull = messages.GenericFailure("audit: write audit/audit-1: no space left on device")

// A change reaches the queue when its entry is durable.
func TestAnEntryPrecedesTheChange(t *testing.T) {
	withAudit(t, func(a *audited) {
		a.Call("LockstepHoldJob", `[12, true]`)
		m := a.recorded()
		require.True(t, m.Required)
		require.Equal(t, "hold job 12", m.Entry.What)
		require.Equal(t, "LockstepHoldJob", m.Entry.Method)
		require.Empty(t, m.Entry.Refused)
		a.Tell(&audit.Recorded{Request: m.Request})
		order := a.order(messages.OrderJob_HOLD)
		a.Tell(&messages.OrderJobResult{Request: order.Request, Done: true, Text: "held"})
		require.JSONEq(t, `[true, "held"]`, a.succeeded())

		a.Call("QueryJobs", `[[1], ["id"]]`)
		a.audit.Quiet()
	})
}

// Without its entry a change is refused, and the connection serves on.
func TestWithoutItsEntryAChangeIsRefused(t *testing.T) {
	withAudit(t, func(a *audited) {
		a.Call("SetDrainFlag", `[true]`)
		a.Tell(&audit.Recorded{Request: a.recorded().Request, Failure: diskFull})
		_, text := a.failed()
		require.Equal(t, "Nothing was changed, because the audit log cannot be written: "+diskFull.Text, text)
		a.queue.Quiet()

		a.Call("SetDrainFlag", `[true]`)
		a.recorded()
		a.Advance(time.Minute)
		_, text = a.failed()
		require.Contains(t, text, "the write takes too long")
		a.queue.Quiet()
	})
}

// A job can be canceled without the entry: when it cannot be written, and when that takes too long.
func TestACancelGoesOnWithoutItsEntry(t *testing.T) {
	withAudit(t, func(a *audited) {
		a.Call("CancelJob", `[12, true]`)
		m := a.recorded()
		require.False(t, m.Required)
		a.Tell(&audit.Recorded{Request: m.Request, Failure: diskFull})
		order := a.order(messages.OrderJob_KILL)
		a.Tell(&messages.OrderJobResult{Request: order.Request, Done: true, Text: "killed"})
		require.JSONEq(t, `[true, "killed"]`, a.succeeded())

		a.Call("CancelJob", `[12, false]`)
		late := a.recorded()
		a.Advance(5 * time.Second)
		a.Settle()
		order = a.order(messages.OrderJob_CANCEL)
		a.Tell(&audit.Recorded{Request: late.Request})
		a.queue.Quiet()
		a.Tell(&messages.OrderJobResult{Request: order.Request, Done: true, Text: "canceled"})
		require.JSONEq(t, `[true, "canceled"]`, a.succeeded())
	})
}

// After a restart of the log the entry is sent again. The change is made once.
func TestAnEntryIsSentAgainAfterARestart(t *testing.T) {
	withAudit(t, func(a *audited) {
		a.Call("CancelJob", `[12, false]`)
		first := a.recorded()
		a.Send(a.luxi, &audit.Started{})
		a.Settle()
		again := a.recorded()
		require.Equal(t, first, again)
		a.Tell(&audit.Recorded{Request: again.Request})
		order := a.order(messages.OrderJob_CANCEL)
		a.Tell(&audit.Recorded{Request: first.Request})
		a.queue.Quiet()
		a.Tell(&messages.OrderJobResult{Request: order.Request, Done: true, Text: "canceled"})
		a.succeeded()
	})
}

// A refusal by the role of the user has an entry before its answer, with the same text. The client gets it also if there is no entry.
func TestARefusalIsRecorded(t *testing.T) {
	withAudit(t, func(a *audited) {
		a.Call("CancelJob", `[12, true]`)
		a.Tell(&audit.Recorded{Request: a.recorded().Request})
		order := a.order(messages.OrderJob_KILL)
		const why = "job 12 is root's; to kill it needs the role operate, alice has submit"
		a.Tell(&messages.OrderJobResult{Request: order.Request, Refused: messages.PrereqFailure(messages.NotPermitted, why)})
		m := a.recorded()
		require.Equal(t, why, m.Entry.Refused)
		require.Equal(t, "kill job 12", m.Entry.What)
		a.Tell(&audit.Recorded{Request: m.Request, Failure: diskFull})
		class, text := a.failed()
		require.Equal(t, "OpPrereqError", class)
		require.Equal(t, why, text)
	})
}

// The log is read a file at a time. A reader of newer entries waits for them.
func TestTheLogIsRead(t *testing.T) {
	f := coreaudit.NewFile(1)
	for _, what := range []string{"hold job 1", "release job 1"} {
		f, _ = f.Add(coreaudit.Entry{Time: time.Unix(1, 0).UTC(), User: "alice", Method: "LockstepHoldJob", What: what})
	}
	withAudit(t, func(a *audited) {
		a.Call("LockstepAudit", `[{"limit": 1}]`)
		look := asked[*audit.Look](a.client, a.audit)
		require.True(t, look.Until.IsZero())
		a.Tell(&audit.LookResult{Request: look.Request, Files: []uint64{1}, Last: 2})
		a.storeGives("audit/audit-1", string(f.Content))
		require.JSONEq(t, `{"entries": [{"number": 2, "time": "1970-01-01T00:00:01Z", "user": "alice", "method": "LockstepHoldJob",
			"what": "release job 1"}], "last": 2, "older": 2, "damaged": 0}`, a.succeeded())

		a.Call("LockstepAudit", `[{"after": 2}, 10]`)
		look = asked[*audit.Look](a.client, a.audit)
		require.Equal(t, a.Clock.Now().Add(10*time.Second), look.Until)
		a.Advance(10 * time.Second)
		require.JSONEq(t, `{"entries": [], "last": 2, "older": 0, "damaged": 0}`, a.succeeded())
	})
}

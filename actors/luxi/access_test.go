package luxi_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"lockstep/actors/conn/conntest"
	"lockstep/actors/features"
	"lockstep/actors/grants"
	"lockstep/actors/kittest"
	"lockstep/actors/luxi"
	"lockstep/core/access"
	"lockstep/core/opcode"
	"lockstep/messages"
)

var (
	alice = access.Identity{UID: 1000, Name: "alice", GIDs: []int{1000, 77}, Groups: []string{"alice", "users"}, Login: 1000, Program: "lockstep"}
	bob   = access.Identity{UID: 1001, Name: "bob", GIDs: []int{1001, 77}, Groups: []string{"bob", "users", "ops"}, Login: 1001, Program: "lockstep"}
)

// accessBench is a gateway of a root daemon whose socket has the group 77, in a cluster.
type accessBench struct {
	*testing.T
	*kittest.Env
	queue, jobs, grants, features *kittest.Probe
	pid                           *actor.PID
}

func onAccessBench(t *testing.T, f func(*accessBench)) {
	t.Helper()
	kittest.Run(t, func(t *testing.T, e *kittest.Env) {
		b := &accessBench{T: t, Env: e, queue: e.Probe("queue"), jobs: e.Probe("jobs"), grants: e.Probe("grants"), features: e.Probe("features")}
		b.pid = e.Start("luxi", luxi.Props(luxi.Config{Env: e.Env, Queue: b.queue.PID, Jobs: b.jobs.PID, Store: e.Probe("store").PID,
			Grants: b.grants.PID, Features: b.features.PID, GrantsUnknown: true, Catalogue: opcode.Builtin(), Policy: access.Policy{SocketGID: 77}}))
		f(b)
	})
}

func (b *accessBench) connect(as access.Identity) *conntest.Client {
	c := conntest.Connect(b.T, b.Env, b.pid)
	c.From = as
	return c
}

func (b *accessBench) granted(texts ...string) {
	var g access.Grants
	for _, who := range texts {
		var err error
		g, _, err = g.Add(access.Operate, who)
		require.NoError(b, err)
	}
	b.Send(b.pid, &grants.Changed{Grants: g})
	b.Settle()
}

// refused requires that the last call was refused with this text.
func refused(t *testing.T, c *conntest.Client, text string) {
	t.Helper()
	require.JSONEq(t, `{"success": false, "result": ["OpPrereqError", ["`+text+`", "not_permitted"]]}`, c.Answer())
}

func TestTheTableHasEveryMethod(t *testing.T) {
	require.Equal(t, slices.Sorted(slices.Values(luxi.Methods())), access.Methods(), "core/access/methods.go has what each method needs")
}

// A member of the socket's group may do what its role permits, and what it asks the queue for is bounded to own jobs.
func TestAMemberIsRefusedWithTheRoleThatIsNeeded(t *testing.T) {
	onAccessBench(t, func(b *accessBench) {
		b.granted("group:ops")
		c := b.connect(alice)
		for method, text := range map[string]string{
			"LockstepSetSettings":     "to change settings needs the role admin, alice has submit",
			"ReplaceFilter":           "to change filter rules needs the role operate, alice has submit",
			"SetDrainFlag":            "to drain the queue needs the role operate, alice has submit",
			"SubmitJobToDrainedQueue": "to submit jobs to a drained queue needs the role operate, alice has submit",
			"LockstepGrant":           "to grant roles needs the role admin, alice has submit",
			"LockstepReportJob":       "only the process of a job may report on a job, not alice",
			"LockstepBeginOpcode":     "only the process of a job may begin an opcode, not alice",
			"LockstepOpenSession":     "only the console of a node may open a session, not alice",
			"LockstepRedeemLink":      "only the console of a node may redeem a login link, not alice",
			"LockstepCheckSession":    "only the console of a node may check a session, not alice",
			"LockstepEndSession":      "only the console of a node may end a session, not alice",
		} {
			c.Call(method, `[]`)
			refused(b.T, c, text)
			require.False(b, c.Closed())
		}
		c.Call("SubmitJob", `[[{"OP_ID": "OP_TEST_DELAY", "duration": 1, "reason": []}]]`)
		refused(b.T, c, "to submit OP_TEST_DELAY needs the role admin, alice has submit")
		c.Call("SubmitManyJobs", `[[[{"OP_ID": "OP_RUN_COMMAND", "argv": ["id"]}], [{"OP_ID": "OP_RUN_COMMAND", "argv": ["id"], "priority": -10}]]]`)
		refused(b.T, c, "to submit a job before those of others (priority below 0) needs the role operate, alice has submit, in job 2 of 2")
		b.queue.Quiet()
		b.jobs.Quiet()

		c.Call("CancelJob", `[12, true]`)
		require.Equal(b, "uid=1000", conntest.Asked[*messages.OrderJob](c, b.queue).OnlyOf)
		c = b.connect(alice)
		c.Call("AutoArchiveJobs", `[0, 5]`)
		require.Equal(b, "uid=1000", conntest.Asked[*messages.ArchiveJobs](c, b.queue).OnlyOf)
		c = b.connect(bob)
		c.Call("CancelJob", `[12, true]`)
		require.Empty(b, conntest.Asked[*messages.OrderJob](c, b.queue).OnlyOf)
	})
}

// A revoked role is gone on open connections. What only a grant permits waits until the grants are known.
func TestGrantsAreInForceOnOpenConnections(t *testing.T) {
	onAccessBench(t, func(b *accessBench) {
		c := b.connect(bob)
		c.Call("SetDrainFlag", `[true]`)
		c.Silent()
		b.queue.Quiet()
		b.granted("bob")
		m := conntest.Asked[*messages.SetDrain](c, b.queue)
		c.Tell(&messages.SetDrainResult{Request: m.Request})
		require.Contains(b, c.Answer(), "true")
		b.granted()
		c.Call("SetDrainFlag", `[true]`)
		refused(b.T, c, "to drain the queue needs the role operate, bob has submit")
		c.Call("LockstepWhoAmI", `[]`)
		require.JSONEq(b, `{"success": true, "result": {"user": "bob", "uid": 1001, "groups": ["bob", "users", "ops"], "role": "submit", `+
			`"why": "the group of the socket"}}`, c.Answer())
		b.queue.Quiet()
	})
}

// A member's job is queued when each member of the cluster knows submitters. Those of the daemon's user are not asked about.
func TestAMembersJobWaitsForAnOlderMember(t *testing.T) {
	onAccessBench(t, func(b *accessBench) {
		b.granted()
		const jobs = `[[{"OP_ID": "OP_RUN_COMMAND", "argv": ["id"]}]]`
		c := b.connect(alice)
		c.Call("SubmitJob", jobs)
		ask := conntest.Asked[*features.Ask](c, b.features)
		require.Equal(b, "submitters", ask.Feature)
		c.Tell(&features.AskResult{Request: ask.Request, Lacking: "n3"})
		require.Contains(b, c.Answer(), "Node n3 has an older version, which does not know submitters")
		b.queue.Quiet()
		c.Call("SubmitJob", jobs)
		c.Tell(&features.AskResult{Request: conntest.Asked[*features.Ask](c, b.features).Request})
		require.JSONEq(b, `{"uid": 1000, "name": "alice"}`, string(conntest.Asked[*messages.SubmitJobs](c, b.queue).Submitter))
		c = b.connect(access.Identity{UID: 0, Name: "root"})
		c.Call("SubmitJob", jobs)
		require.Empty(b, conntest.Asked[*messages.SubmitJobs](c, b.queue).Submitter)
		b.features.Quiet()
	})
}

// A job with limits is refused by a node that cannot enforce them, and else queued when each member of the cluster knows limits.
func TestAJobWithLimits(t *testing.T) {
	onAccessBench(t, func(b *accessBench) {
		b.granted()
		c := b.connect(access.Identity{UID: 0, Name: "root"})
		c.Call("SubmitJob", `[[{"OP_ID": "OP_RUN_COMMAND", "argv": ["id"], "limits": {"memory": "2G"}}]]`)
		require.Contains(b, c.Answer(), "this node cannot limit memory: its daemon has no control group for jobs; start lockstepd with --job-cgroup")
		b.queue.Quiet()
		const nice = `[[{"OP_ID": "OP_RUN_COMMAND", "argv": ["id"], "limits": {"nice": 5}}]]`
		c.Call("SubmitJob", nice)
		ask := conntest.Asked[*features.Ask](c, b.features)
		require.Equal(b, "limits", ask.Feature)
		c.Tell(&features.AskResult{Request: ask.Request, Lacking: "n3"})
		require.Contains(b, c.Answer(), "Node n3 has an older version, which does not know limits")
		c.Call("SubmitJob", nice)
		c.Tell(&features.AskResult{Request: conntest.Asked[*features.Ask](c, b.features).Request})
		conntest.Asked[*messages.SubmitJobs](c, b.queue)
	})
}

// A job that may be tried again is queued when each member of the cluster knows tries. An older master would run it once.
func TestAJobWithTriesWaitsForAnOlderMember(t *testing.T) {
	onAccessBench(t, func(b *accessBench) {
		const jobs = `[[{"OP_ID": "OP_RUN_COMMAND", "argv": ["id"], "retry": 2}]]`
		b.granted()
		c := b.connect(access.Identity{UID: 0, Name: "root"})
		c.Call("SubmitJob", jobs)
		ask := conntest.Asked[*features.Ask](c, b.features)
		require.Equal(b, "tries", ask.Feature)
		c.Tell(&features.AskResult{Request: ask.Request, Lacking: "n3"})
		require.Contains(b, c.Answer(), "Node n3 has an older version, which does not know tries")
		b.queue.Quiet()
		c.Call("SubmitJob", jobs)
		c.Tell(&features.AskResult{Request: conntest.Asked[*features.Ask](c, b.features).Request})
		conntest.Asked[*messages.SubmitJobs](c, b.queue)
		c = b.connect(alice)
		c.Call("SubmitJob", jobs)
		for _, feature := range []string{"submitters", "tries"} {
			ask := conntest.Asked[*features.Ask](c, b.features)
			require.Equal(b, feature, ask.Feature)
			c.Tell(&features.AskResult{Request: ask.Request})
		}
		conntest.Asked[*messages.SubmitJobs](c, b.queue)
	})
}

// A job with a start time is queued when each member of the cluster knows start times. An older master would start it at once.
func TestAJobWithATimeWaitsForAnOlderMember(t *testing.T) {
	onAccessBench(t, func(b *accessBench) {
		const jobs = `[[{"ops": [{"OP_ID": "OP_TEST_DELAY", "duration": 1}], "at": "2027-01-01T03:00:00.0000005+01:00"}]]`
		b.granted()
		c := b.connect(access.Identity{UID: 0, Name: "root"})
		c.Call("LockstepSubmitJobs", jobs)
		ask := conntest.Asked[*features.Ask](c, b.features)
		require.Equal(b, "start times", ask.Feature)
		c.Tell(&features.AskResult{Request: ask.Request, Lacking: "n3"})
		require.Contains(b, c.Answer(), "Node n3 has an older version, which does not know start times")
		b.queue.Quiet()
		c.Call("LockstepSubmitJobs", jobs)
		c.Tell(&features.AskResult{Request: conntest.Asked[*features.Ask](c, b.features).Request})
		require.Equal(b, int64(1798768800000001), conntest.Asked[*messages.SubmitJobs](c, b.queue).Jobs[0].AtUs, "not before the time")
		c = b.connect(access.Identity{UID: 0, Name: "root"})
		c.Call("LockstepOrderJobs", `["reschedule", [7], "2027-01-01T02:00:00Z"]`)
		c.Tell(&features.AskResult{Request: conntest.Asked[*features.Ask](c, b.features).Request})
		require.Equal(b, int64(1798768800000000), conntest.Asked[*messages.OrderJobs](c, b.queue).AtUs)
		c = b.connect(alice)
		c.Call("LockstepOrderJobs", `["reschedule", [7], "now"]`)
		order := conntest.Asked[*messages.OrderJobs](c, b.queue)
		require.Equal(b, []any{messages.OrderJob_RESCHEDULE, int64(0), "uid=1000"}, []any{order.Kind, order.AtUs, order.OnlyOf})
		for args, want := range map[string]string{
			`["reschedule", [7]]`:                         "argument 3: want the time in RFC 3339, or \"now\"",
			`["reschedule", [7], "03:00"]`:                "argument 3: want a time in RFC 3339",
			`["reschedule", [7], "2999-01-01T00:00:00Z"]`: "argument 3: a time is at most 10 years ahead",
		} {
			c := b.connect(alice)
			c.Call("LockstepOrderJobs", args)
			require.Contains(b, strings.ReplaceAll(c.Answer(), `\"`, `"`), want)
		}
	})
}

// An administrator submits jobs in the name of another account. A member does not, not even in the own name.
func TestJobsInTheNameOfAnother(t *testing.T) {
	onAccessBench(t, func(b *accessBench) {
		b.granted()
		jobs := func(as ...string) string {
			var all []string
			for _, account := range as {
				all = append(all, `{"ops": [{"OP_ID": "OP_RUN_COMMAND", "argv": ["id"]}], "as": `+account+`}`)
			}
			return `[[` + strings.Join(all, ",") + `]]`
		}
		const toAlice, toRoot = `{"uid": 1000, "name": "alice"}`, `{"uid": 0, "name": "root"}`
		c := b.connect(alice)
		for _, as := range []string{toAlice, toRoot} {
			c.Call("LockstepSubmitJobs", jobs(as))
			refused(b.T, c, "to run commands as another user needs the role admin, alice has submit")
		}
		c = b.connect(access.Identity{UID: 0, Name: "root"})
		c.Call("LockstepSubmitJobs", jobs(toAlice, toAlice))
		c.Tell(&features.AskResult{Request: conntest.Asked[*features.Ask](c, b.features).Request})
		require.JSONEq(b, toAlice, string(conntest.Asked[*messages.SubmitJobs](c, b.queue).Submitter))
		c = b.connect(access.Identity{UID: access.NoUID, Remote: "ops", Role: access.Admin})
		c.Call("LockstepSubmitJobs", jobs(toRoot))
		require.Empty(b, conntest.Asked[*messages.SubmitJobs](c, b.queue).Submitter, "it is the daemon's")
		for args, text := range map[string]string{
			jobs(toAlice, toRoot):                        "all jobs of a submission belong to one account",
			jobs(toAlice, "null"):                        "all jobs of a submission belong to one account",
			jobs(`{"uid": 4294967295, "name": "alice"}`): "want the name and the uid of an account",
			jobs(`{"uid": 1000}`):                        "want the name and the uid of an account",
		} {
			c = b.connect(access.Identity{UID: 0, Name: "root"})
			c.Call("LockstepSubmitJobs", args)
			require.Contains(b, c.Answer(), text)
		}
	})
}

// A role is granted when each member of the cluster knows grants.
func TestAGrantWaitsForAnOlderMember(t *testing.T) {
	onAccessBench(t, func(b *accessBench) {
		c := b.connect(access.Identity{UID: 0, Name: "root"})
		c.Call("LockstepGrant", `["operate", "bob"]`)
		ask := conntest.Asked[*features.Ask](c, b.features)
		require.Equal(b, "grants", ask.Feature)
		c.Tell(&features.AskResult{Request: ask.Request, Lacking: "n3"})
		require.Contains(b, c.Answer(), "Node n3 has an older version, which does not know grants")
		b.grants.Quiet()
		c.Call("LockstepGrant", `["operate", "bob"]`)
		ask = conntest.Asked[*features.Ask](c, b.features)
		c.Tell(&features.AskResult{Request: ask.Request})
		change := conntest.Asked[*grants.Change](c, b.grants)
		require.Equal(b, grants.Change{Request: change.Request, Role: access.Operate, Who: "bob"}, *change)
		c.Tell(&grants.ChangeResult{Request: change.Request, Changed: true})
		require.JSONEq(b, `{"success": true, "result": true}`, c.Answer())
		c.Call("LockstepRevoke", `["operate", "bob"]`)
		require.True(b, conntest.Asked[*grants.Change](c, b.grants).Revoke, "a role is taken in any case")
	})
}

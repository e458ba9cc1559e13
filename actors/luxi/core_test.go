package luxi_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/config/clusterconfig"
	"lockstep/actors/kittest"
	"lockstep/actors/locks"
	"lockstep/actors/luxi"
	"lockstep/core/answer"
	"lockstep/core/config/configtest"
	"lockstep/core/opcode"
	"lockstep/messages"
)

// core is a client, with probes in place of the actors that restart together.
type core struct {
	*client
	locks, scheduler, filters, cluster *kittest.Probe
	trouble                            string // why job processes cannot be started
	failing                            []*messages.FailingWrite
}

const madeUUID = "dddddddd-0000-4000-8000-000000000001"

func withCore(t *testing.T, f func(*testing.T, *core)) {
	t.Helper()
	kittest.Run(t, func(t *testing.T, e *kittest.Env) {
		b := &bench{T: t, Env: e, queue: e.Probe("queue"), jobs: e.Probe("jobs"), store: e.Probe("store")}
		c := &core{locks: e.Probe("locks"), scheduler: e.Probe("scheduler"), filters: e.Probe("filters"), cluster: e.Probe("clusterconfig")}
		b.store.Answer(func(m any) any {
			if _, ok := m.(*messages.AnnounceStore); ok {
				return &messages.StoreStarted{Incarnation: 1}
			}
			if asks, ok := m.(*messages.GetFailingWrites); ok {
				return &messages.GetFailingWritesResult{Request: asks.Request}
			}
			return nil
		})
		b.jobs.Answer(func(m any) any {
			if asks, ok := m.(*messages.GetStartError); ok {
				return &messages.GetStartErrorResult{Request: asks.Request, Text: c.trouble}
			}
			if asks, ok := m.(*messages.GetFailingWrites); ok {
				return &messages.GetFailingWritesResult{Request: asks.Request, Writes: c.failing}
			}
			return nil
		})
		b.luxi = e.Start("luxi", luxi.Props(luxi.Config{Env: e.Env, Queue: b.queue.PID, Jobs: b.jobs.PID, Store: b.store.PID,
			Locks: c.locks.PID, Scheduler: c.scheduler.PID, Filters: c.filters.PID, ClusterConfig: c.cluster.PID,
			Catalogue: opcode.Builtin(), NewUUID: func() string { return madeUUID }}))
		c.client = b.connect()
		f(t, c)
	})
}

// succeeded is the result of the one answer since the last call.
func (c *core) succeeded() string {
	c.Helper()
	success, result := c.outcome()
	require.True(c, success, result)
	return result
}

// failed is the class and the first argument of an error. An invalid request has a text and no class.
func (c *core) failed() (class, text string) {
	c.Helper()
	success, result := c.outcome()
	require.False(c, success, result)
	var failure []json.RawMessage
	if json.Unmarshal([]byte(result), &failure) != nil {
		require.NoError(c, json.Unmarshal([]byte(result), &text))
		return "", text
	}
	var args []string
	require.NoError(c, json.Unmarshal(failure[0], &class))
	require.NoError(c, json.Unmarshal(failure[1], &args))
	return class, args[0]
}

func (c *core) outcome() (success bool, result string) {
	c.Helper()
	var answer struct {
		Success bool
		Result  json.RawMessage
	}
	require.NoError(c, json.Unmarshal([]byte(c.Answer()), &answer))
	return answer.Success, string(answer.Result)
}

// coreRestarts reports a restart of the actors that restart together.
func (c *core) coreRestarts() {
	c.Send(c.luxi, &messages.LocksStarted{Incarnation: 2})
	c.Settle()
}

func (c *core) queueRestarts() {
	c.Send(c.luxi, &messages.QueueStarted{Incarnation: 2})
	c.Settle()
}

func TestReplaceFilter(t *testing.T) {
	withCore(t, func(t *testing.T, c *core) {
		c.Call("ReplaceFilter", `[null, 3, [["jobid", [">", "id", "watermark"]]], "PAUSE", [["a", "b", 1]]]`)
		m := asked[*messages.ChangeFilter](c.client, c.filters)
		require.EqualExportedValues(t, &messages.FilterParts{Uuid: []byte(`"` + madeUUID + `"`), Priority: []byte("3"),
			Predicates: []byte(`[["jobid", [">", "id", "watermark"]]]`), Action: []byte(`"PAUSE"`), Reason: []byte(`[["a", "b", 1]]`)}, m.GetReplace())
		c.Tell(&messages.ChangeFilterResult{Request: m.Request + 1, Uuid: "another's"})
		c.Silent()
		c.Tell(&messages.ChangeFilterResult{Request: m.Request, Uuid: madeUUID})
		require.Equal(t, `"`+madeUUID+`"`, c.succeeded())
	})
}

func TestReplaceFilterOfThatName(t *testing.T) {
	withCore(t, func(t *testing.T, c *core) {
		c.Call("ReplaceFilter", `["x", 3, [], "PAUSE", []]`)
		require.Equal(t, `"x"`, string(asked[*messages.ChangeFilter](c.client, c.filters).GetReplace().Uuid))
	})
}

// Lockstep's own call also returns the jobs that the rule applies to.
func TestLockstepReplaceFilter(t *testing.T) {
	withCore(t, func(t *testing.T, c *core) {
		c.Call("LockstepReplaceFilter", `["x", 3, [], "PAUSE", []]`)
		m := asked[*messages.ChangeFilter](c.client, c.filters)
		c.Tell(&messages.ChangeFilterResult{Request: m.Request, Uuid: "x", Matches: 3, LowestJobs: []int64{17, 18, 22}})
		require.JSONEq(t, `{"uuid": "x", "count": 3, "jobs": [17, 18, 22]}`, c.succeeded())
		c.Call("LockstepReplaceFilter", `["x", 3, [], "PAUSE", []]`)
		c.Tell(&messages.ChangeFilterResult{Request: asked[*messages.ChangeFilter](c.client, c.filters).Request, Uuid: "x"})
		require.JSONEq(t, `{"uuid": "x", "count": 0, "jobs": []}`, c.succeeded())
	})
}

// A question that is sent twice makes one rule.
func TestAFilterThatIsAskedForTwice(t *testing.T) {
	withCore(t, func(t *testing.T, c *core) {
		c.Call("ReplaceFilter", `[null, 3, [], "PAUSE", []]`)
		first := asked[*messages.ChangeFilter](c.client, c.filters)
		c.queueRestarts()
		c.filters.Quiet()
		c.coreRestarts()
		require.EqualExportedValues(t, first, asked[*messages.ChangeFilter](c.client, c.filters))
		c.Tell(&messages.ChangeFilterResult{Request: first.Request, Uuid: madeUUID})
		require.Equal(t, `"`+madeUUID+`"`, c.succeeded())
		c.coreRestarts()
		c.filters.Quiet()
	})
}

func TestFiltersThatAreRefused(t *testing.T) {
	bad := messages.GenericFailure("predicates: want a list")
	withCore(t, func(t *testing.T, c *core) {
		c.Call("ReplaceFilter", `["x", 3, [], "PAUSE", []]`)
		c.Tell(&messages.ChangeFilterResult{Request: asked[*messages.ChangeFilter](c.client, c.filters).Request, Failure: bad})
		class, text := c.failed()
		require.Equal(t, "GenericError", class)
		require.Equal(t, "predicates: want a list", text)
		require.False(t, c.Closed())

		c.Call("DeleteFilter", `["x"]`)
		c.Tell(&messages.ChangeFilterResult{Request: asked[*messages.ChangeFilter](c.client, c.filters).Request, Failure: bad})
		class, _ = c.failed()
		require.Equal(t, "GenericError", class)

		c.Call("ReplaceFilter", `[null, "x", [], "PAUSE", []]`)
		c.Tell(&messages.ChangeFilterResult{Request: asked[*messages.ChangeFilter](c.client, c.filters).Request, Failure: bad, Malformed: true})
		class, text = c.failed()
		require.Empty(t, class)
		require.Equal(t, "Failed to parse request: ReplaceFilter: predicates: want a list", text)
		require.True(t, c.Closed())
	})
}

func TestDeleteFilter(t *testing.T) {
	withCore(t, func(t *testing.T, c *core) {
		c.Call("DeleteFilter", `["`+madeUUID+`"]`)
		m := asked[*messages.ChangeFilter](c.client, c.filters)
		require.Equal(t, madeUUID, m.GetDelete())
		c.Tell(&messages.ChangeFilterResult{Request: m.Request, Uuid: madeUUID})
		require.Equal(t, `null`, c.succeeded())
	})
}

func TestArgumentsThatAreNone(t *testing.T) {
	for method, args := range map[string]string{
		"ReplaceFilter": `[null, 3, [], "PAUSE"]`, "DeleteFilter": `[7]`, "LockstepWhy": `[]`, "LockstepPending": `[7]`,
		"LockstepGetSettings": `[7]`, "LockstepSetSettings": `[]`, "LockstepLocks": `[1]`, "LockstepBeginOpcode": `[1, "l"]`,
	} {
		t.Run(method, func(t *testing.T) {
			withCore(t, func(t *testing.T, c *core) {
				c.Call(method, args)
				class, text := c.failed()
				require.Empty(t, class)
				require.Contains(t, text, "Failed to parse request: "+method+": ")
				require.True(t, c.Closed())
			})
		})
	}
}

// configured answers the questions for the configuration.
func (c *core) configured(slots int, settings string) {
	current := configtest.New(c, configtest.Slots(slots))
	c.cluster.Answer(func(m any) any {
		if question, ok := m.(*messages.PublishConfig); ok {
			return &clusterconfig.ConfigPublished{Request: question.Request, Config: current, Settings: []byte(settings)}
		}
		return nil
	})
}

func TestGetSettings(t *testing.T) {
	for name, c := range map[string]struct{ file, want string }{
		"defaults": {``, `{"max_running_jobs": 7, "order": "expected", "reserve_after": 1800, "predictive": true, "predictive_base": 1, "predictive_tick": 30, "predictive_ticks": 30, "lock_bypass_after": 30, "archive_after": null, "keep_last": 0, "config_lock_check": "note", "log_limit": 1000000, "output_wait": 3600, "keep_output": false, "output_limit": 10000000000, "output_total": 0, "remove_archived_after": null}`},
		"changed":  {`{"predictive": false}`, `{"max_running_jobs": 7, "order": "plain", "reserve_after": 1800, "predictive": false, "predictive_base": 1, "predictive_tick": 30, "predictive_ticks": 30, "lock_bypass_after": 30, "archive_after": null, "keep_last": 0, "config_lock_check": "note", "log_limit": 1000000, "output_wait": 3600, "keep_output": false, "output_limit": 10000000000, "output_total": 0, "remove_archived_after": null}`},
		"spoiled":  {`{`, `{"max_running_jobs": 7, "order": "expected", "reserve_after": 1800, "predictive": true, "predictive_base": 1, "predictive_tick": 30, "predictive_ticks": 30, "lock_bypass_after": 30, "archive_after": null, "keep_last": 0, "config_lock_check": "note", "log_limit": 1000000, "output_wait": 3600, "keep_output": false, "output_limit": 10000000000, "output_total": 0, "remove_archived_after": null}`},
	} {
		t.Run(name, func(t *testing.T) {
			withCore(t, func(t *testing.T, core *core) {
				core.configured(7, c.file)
				core.Call("LockstepGetSettings", `[]`)
				require.JSONEq(t, c.want, core.succeeded())
			})
		})
	}
}

func TestSettingsOfAClusterWithoutMaster(t *testing.T) {
	withCore(t, func(t *testing.T, c *core) {
		c.Call("LockstepGetSettings", `[]`)
		e := configtest.New(t).Edit()
		cluster := e.Config().Cluster.Value
		cluster.MasterNode = ""
		e.SetCluster(cluster)
		destroyed, _ := e.Commit(1)
		c.Tell(&clusterconfig.ConfigPublished{Request: asked[*messages.PublishConfig](c.client, c.cluster).Request, Config: destroyed})
		class, _ := c.failed()
		require.Equal(t, "ConfigurationError", class)
	})
}

func (c *core) edited(m *messages.EditConfig, f *messages.Failure) {
	c.Tell(&messages.EditConfigResult{Request: m.Request, Failure: f})
}

func TestSetSettings(t *testing.T) {
	withCore(t, func(t *testing.T, c *core) {
		c.configured(7, "")
		c.Call("LockstepSetSettings", `[{"predictive": false, "max_running_jobs": 9, "predictive_tick": null}]`)
		own := asked[*messages.EditConfig](c.client, c.cluster)
		require.EqualExportedValues(t, &messages.EditConfig{Request: own.Request,
			Settings: map[string][]byte{"predictive": []byte("false"), "predictive_tick": []byte("null")}}, own)
		c.cluster.Quiet()
		c.edited(own, nil)
		slots := asked[*messages.EditConfig](c.client, c.cluster)
		require.EqualExportedValues(t, &messages.EditConfig{Request: slots.Request, Cluster: map[string][]byte{"max_running_jobs": []byte("9")}}, slots)
		c.configured(9, `{"predictive": false}`)
		c.edited(slots, nil)
		require.Contains(t, c.succeeded(), `"max_running_jobs":9`)
	})
}

func TestSetOneSetting(t *testing.T) {
	for name, c := range map[string]struct {
		args string
		want *messages.EditConfig
	}{
		"ours":           {`[{"lock_bypass_after": 2.5}]`, &messages.EditConfig{Settings: map[string][]byte{"lock_bypass_after": []byte("2.5")}}},
		"the cluster's":  {`[{"max_running_jobs": 9}]`, &messages.EditConfig{Cluster: map[string][]byte{"max_running_jobs": []byte("9")}}},
		"back to before": {`[{"max_running_jobs": null}]`, &messages.EditConfig{Cluster: map[string][]byte{"max_running_jobs": []byte("20")}}},
		"nothing":        {`[{}]`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			withCore(t, func(t *testing.T, core *core) {
				core.configured(7, "")
				core.Call("LockstepSetSettings", c.args)
				if c.want != nil {
					m := asked[*messages.EditConfig](core.client, core.cluster)
					c.want.Request = m.Request
					require.EqualExportedValues(t, c.want, m)
					core.edited(m, nil)
				}
				core.cluster.Quiet()
				require.Contains(t, core.succeeded(), `"predictive"`)
			})
		})
	}
}

// If one setting is invalid, no setting changes.
func TestSettingsThatAreRefused(t *testing.T) {
	for args, want := range map[string]string{
		`[{"predictive": false, "max_running_jobs": 0}]`:   "max_running_jobs: 0 is not a positive number",
		`[{"predictive": false, "max_running_jobs": "x"}]`: `max_running_jobs: "x" is not a positive number`,
		`[{"predictive": false, "max_running_jobs": 1.5}]`: `max_running_jobs: 1.5 is not a positive number`,
		`[{"predictive_ticks": 0, "max_running_jobs": 9}]`: "predictive_ticks: 0 is not between 1 and 1000000",
		`[{"predictive": 7}]`:                              "settings: ",
		`[{"colour": "red"}]`:                              `there is no setting "colour"`,
	} {
		t.Run(args, func(t *testing.T) {
			withCore(t, func(t *testing.T, c *core) {
				c.configured(7, "")
				c.Call("LockstepSetSettings", args)
				class, text := c.failed()
				require.Equal(t, "OpPrereqError", class)
				require.Contains(t, text, want)
				c.cluster.Quiet()
			})
		})
	}
}

func TestASettingThatCannotBeWritten(t *testing.T) {
	withCore(t, func(t *testing.T, c *core) {
		c.configured(7, "")
		c.Call("LockstepSetSettings", `[{"predictive": false, "max_running_jobs": 9}]`)
		m := asked[*messages.EditConfig](c.client, c.cluster)
		c.coreRestarts()
		require.EqualExportedValues(t, m, asked[*messages.EditConfig](c.client, c.cluster))
		c.edited(m, messages.GenericFailure("EIO"))
		_, text := c.failed()
		require.Equal(t, "EIO", text)
		c.cluster.Quiet()
	})
}

// locksSay is the lock manager's answer to an operation, given as JSON.
func (c *core) locksSay(op locks.Operation, result string) {
	c.Helper()
	m := asked[*locks.Operate](c.client, c.locks)
	require.Equal(c, op, m.Operation)
	a := &locks.OperateResult{Request: m.Request}
	if op == (locks.ListRows{}) {
		a.Value = decodedAs[[]answer.Lock](c, result)
	} else {
		a.Value = decodedAs[[]answer.LockWait](c, result)
	}
	c.Tell(a)
}

func decodedAs[T any](t require.TestingT, encoded string) (value T) {
	require.NoError(t, json.Unmarshal([]byte(encoded), &value))
	return value
}

func TestLocks(t *testing.T) {
	withCore(t, func(t *testing.T, c *core) {
		c.Call("LockstepLocks", `[]`)
		c.locksSay(locks.ListRows{}, `[{"name": "cluster/BGL"}]`)
		c.coreRestarts()
		c.locksSay(locks.ListWaits{}, `[`+waitOfSeven+`]`) // the question before the restart
		c.locks.Unread()                                   // and the repeated one
		m := asked[*messages.ListDependencies](c.client, c.scheduler)
		c.Tell(&messages.ListDependenciesResult{Request: m.Request, Jobs: []*messages.JobDependencies{{Id: 2}},
			Blocked: []*messages.LockBlockedJob{{Id: 9, Priority: 3, ReceivedUs: c.Clock.Now().Add(-time.Minute).UnixMicro(), Wanted: []*messages.WantedLock{{Lock: "node/a", Exclusive: true}},
				BlockedBy: []*messages.LockBlocker{{Job: 8, Locks: []string{"node/a"}, Holds: true}, {Named: true, Owner: "o", Livelock: "/l/o", Pid: 5, Locks: []string{"node/a"}}}}}})
		require.JSONEq(t, `{"locks": [{"name": "cluster/BGL", "owners": null, "pending": null}], "waits": [`+waitOfSeven+`, {"owner": [9, "", 0], "priority": 3,
			"request": [["node/a", "exclusive"]], "seconds": 60, "blockers": [[8, "", 0], ["o", "/l/o", 5]], "locks": [["node/a"], []]}], "jobs": [{"id": 2, "on": []}]}`, c.succeeded())
	})
}

func TestLocksThatCannotBeTold(t *testing.T) {
	withCore(t, func(t *testing.T, c *core) {
		c.Call("LockstepLocks", `[]`)
		m := asked[*locks.Operate](c.client, c.locks)
		c.Tell(&locks.OperateResult{Request: m.Request, Failure: &messages.Failure{Class: "GenericError", Text: "EIO"}})
		_, text := c.failed()
		require.Equal(t, "EIO", text)
	})
}

func TestAnswersToBeginOpcode(t *testing.T) {
	for name, c := range map[string]struct {
		answer *messages.BeginOpResult
		want   string
	}{
		"permitted":              {&messages.BeginOpResult{}, `{"success":true,"result":null}`},
		"the process is another": {&messages.BeginOpResult{Failure: messages.JobLostFailure("x")}, `{"success":false,"result":["JobLost",["x"]]}`},
		"never, and it fails":    {&messages.BeginOpResult{Denied: true, Text: "job 1 failed"}, `{"success":true,"result":{"canceled":false,"text":"job 1 failed"}}`},
		"never, it is canceled":  {&messages.BeginOpResult{Denied: true, Canceled: true, Text: "job 1 was canceled"}, `{"success":true,"result":{"canceled":true,"text":"job 1 was canceled"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			withCore(t, func(t *testing.T, core *core) {
				core.Call("LockstepBeginOpcode", `[7, "lock", 2]`)
				m := asked[*messages.BeginOp](core.client, core.jobs)
				require.EqualExportedValues(t, &messages.BeginOp{Request: m.Request, Id: 7, Livelock: "lock", Op: 2}, m)
				core.Silent()
				c.answer.Request = m.Request
				core.Tell(c.answer)
				require.JSONEq(t, c.want, core.Answer())
			})
		})
	}
}

// The scheduler gives the permission, and receives jobs from the queue. A restart of either can lose the question.
func TestBeginOpcodeIsAskedAgain(t *testing.T) {
	withCore(t, func(t *testing.T, c *core) {
		c.Call("LockstepBeginOpcode", `[7, "lock", 2]`)
		m := asked[*messages.BeginOp](c.client, c.jobs)
		for _, restarts := range []func(){c.coreRestarts, c.queueRestarts} {
			restarts()
			require.EqualExportedValues(t, m, asked[*messages.BeginOp](c.client, c.jobs))
			c.jobs.Quiet()
		}
		c.Tell(&messages.BeginOpResult{Request: m.Request})
		require.Equal(t, `null`, c.succeeded())
		c.coreRestarts()
		c.jobs.Quiet()
	})
}

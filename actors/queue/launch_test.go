package queue_test

import (
	"encoding/json"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/actors/config/clusterconfig"
	"lockstep/actors/kittest"
	"lockstep/actors/opcodes"
	"lockstep/core/job"
	"lockstep/core/opcode"
	"lockstep/messages"
)

// site is an opcode that an operator has declared.
var site = opcode.Definition{
	Name: "OP_SITE_PING", Doc: "Pings.",
	Params: []opcode.ParamDefinition{
		{Name: "node", Type: "NonEmptyString", Required: true},
		{Name: "password", Type: "String", Secret: true},
	},
	Command: []string{"ping", "${node}"}, Env: map[string]string{"PW": "${password}"},
	Locks: []opcode.LockDefinition{{Lock: "node/${node}", Mode: "shared"}},
}

// withSite gives the queue a catalogue with the opcode of the operator.
func (b *bench) withSite(definitions ...opcode.Definition) {
	b.Helper()
	catalogue, err := opcode.Builtin().With(definitions)
	require.NoError(b, err)
	b.Send(b.queue, &opcodes.Changed{Catalogue: catalogue})
	b.Settle()
}

// launchOf is the launch spec of a job of one opcode, without secrets.
func (b *bench) launchOf(input, secrets string) string {
	b.Helper()
	d := draftOf(input)
	if secrets != "" {
		d.Ops[0].Secrets = []byte(secrets)
	}
	b.client.Ask(b.queue, &messages.SubmitJobs{Request: 1, Jobs: []*messages.JobDraft{d}})
	b.commit()
	start := b.picked(b.submitted(1).Ids[0])
	var specs []json.RawMessage
	require.NoError(b, json.Unmarshal(start.Launch, &specs))
	require.Len(b, specs, 1)
	return string(specs[0])
}

func TestLaunchSpecs(t *testing.T) {
	const ping = `{"OP_ID": "OP_SITE_PING", "node": "n1", "password": "<redacted>"}`
	for name, c := range map[string]struct{ input, secrets, hand string }{
		"nothing to say": {`{"OP_ID": "OP_TEST_DELAY", "duration": 1.0}`, "", `null`},
		"secrets":        {`{"OP_ID": "OP_TEST_DELAY", "duration": 1.0}`, secret, `{"secrets": ` + secret + `}`},
		"locks, by uuid": {`{"OP_ID": "OP_RUN_COMMAND", "argv": ["true"], "locks": [["node/n1", "exclusive"]]}`, "",
			`{"needs": {"locks": [["cluster/BGL", "shared"], ["node/u1", "exclusive"]]}}`},
		"locks and secrets": {`{"OP_ID": "OP_RUN_COMMAND", "argv": ["true"], "locks": [["cluster/BGL", "exclusive"]]}`, `{"secret_env": {"A": "b"}}`,
			`{"secrets": {"secret_env": {"A": "b"}}, "needs": {"locks": [["cluster/BGL", "exclusive"]]}}`},
		"unknown node": {`{"OP_ID": "OP_TEST_DELAY", "duration": 1.0, "on_nodes": ["n7"], "on_master": false, "no_locks": false}`, "",
			`{"refused": ["OpPrereqError", ["Node 'n7' is not known", "unknown_entity"]]}`},
		"an opcode of an operator's": {ping, `{"password": "sesame"}`,
			`{"needs": {"locks": [["cluster/BGL", "shared"], ["node/u1", "shared"]]},
			  "command": {"argv": ["ping", "n1"], "secret_env": {"PW": "sesame"}}}`},
		"one whose secrets are gone": {ping, "",
			`{"refused": ["OpPrereqError", ["the value of password is gone: it is kept in memory only, and the daemon has restarted since the job was submitted. Submit it again", "wrong_input"]]}`},
	} {
		t.Run(name, func(t *testing.T) {
			onReady(t, nil, func(t *testing.T, b *bench) {
				b.withSite(site)
				require.JSONEq(t, c.hand, b.launchOf(c.input, c.secrets))
			})
		})
	}
}

// Launch specs are made when the job is picked, not when it is submitted.
func TestHandsAreOfTheMoment(t *testing.T) {
	onReady(t, nil, func(t *testing.T, b *bench) {
		b.withSite(site)
		b.client.Ask(b.queue, &messages.SubmitJobs{Request: 1, Jobs: []*messages.JobDraft{draftOf(`{"OP_ID": "OP_SITE_PING", "node": "n1"}`)}})
		b.commit()
		changed := site
		changed.Command = []string{"fping"}
		b.withSite(changed)
		require.Contains(t, string(b.picked(1).Launch), `"fping"`)
		b.jobs.Ask(b.queue, &messages.JobReturned{Id: 1})
		b.Restart(b.queue) // the catalogue stays over a restart
		b.recover(scanOf(job1(t, `{"OP_ID": "OP_SITE_PING", "node": "n1"}`)))
		require.Contains(t, string(b.picked(1).Launch), `"fping"`)
	})
}

func job1(t *testing.T, input string) *job.Job {
	t.Helper()
	return job.New(1, []json.RawMessage{json.RawMessage(input)}, []int{0}, job.Timestamp{Sec: 1}, livelock)
}

// Launch specs need a configuration.
func TestTheQueueWaitsForTheConfiguration(t *testing.T) {
	kittest.Run(t, func(t *testing.T, e *kittest.Env) {
		b := newBench(t, e)
		b.start(noLimits)
		b.recover(scanOf(newJob(1)))
		b.gateway.Quiet()
		b.cluster.Ask(b.queue, &clusterconfig.ConfigPublished{Config: configuration})
		kittest.Expect[*messages.QueueStarted](b.gateway)
		require.JSONEq(t, `[null]`, string(b.picked(1).Launch))
	})
}

// A bare lock name that is also a node is refused before anything is written, with the full names.
func TestAnUnclearLockNameIsRefused(t *testing.T) {
	onReady(t, nil, func(t *testing.T, b *bench) {
		b.client.Ask(b.queue, &messages.SubmitJobs{Request: 1, Jobs: []*messages.JobDraft{
			draftOf(`{"OP_ID": "OP_RUN_COMMAND", "argv": ["true"], "locks": [["n1", "exclusive"]]}`),
			draftOf(`{"OP_ID": "OP_TEST_DELAY", "duration": 1.0}`, `{"OP_ID": "OP_RUN_COMMAND", "argv": ["true"], "locks": [["n1", "shared"]]}`)}})
		f := kittest.Expect[*messages.SubmitJobsResult](b.client).Failure
		require.Equal(t, `"n1" in 'locks' is the name of a free lock and of a cluster's node: write lock/n1 for the free lock, node/n1 for the lock of the node`, f.Text)
		require.JSONEq(t, `[{"job": 1, "opcode": 1, "parameter": "locks", "text": `+strconv.Quote(f.Text)+`},
			{"job": 2, "opcode": 2, "parameter": "locks", "text": `+strconv.Quote(f.Text)+`}]`, string(f.Details))
		require.JSONEq(t, `{"needs": {"locks": [["cluster/BGL", "shared"], ["lock/deploy", "exclusive"], ["lock/n1", "shared"]]}}`,
			b.launchOf(`{"OP_ID": "OP_RUN_COMMAND", "argv": ["true"], "locks": [["deploy", "exclusive"], ["lock/n1", "shared"]]}`, ""))
	})
}

// A job takes the bound of its log at its start. Settings that cannot be used change nothing.
func TestTheBoundOfALog(t *testing.T) {
	onReady(t, nil, func(t *testing.T, b *bench) {
		const delay = `{"OP_ID": "OP_TEST_DELAY", "duration": 1.0}`
		b.settings(`{"log_limit": 64000}`)
		require.JSONEq(t, `{"log_limit": 64000}`, b.launchOf(delay, ""))
		b.settings(`{"log_limit": 1}`)
		require.JSONEq(t, `{"log_limit": 64000}`, b.launchOf(delay, ""))
		b.settings(``)
		require.JSONEq(t, `null`, b.launchOf(delay, ""))
	})
}

// A job's process keeps output if one of its opcodes asks for that, or the setting; then no command waits for a follower.
func TestKeptOutput(t *testing.T) {
	onReady(t, nil, func(t *testing.T, b *bench) {
		const plain, asks, never = `{"OP_ID": "OP_RUN_COMMAND", "argv": ["a"]}`, `{"OP_ID": "OP_RUN_COMMAND", "argv": ["a"], "keep_output": true}`,
			`{"OP_ID": "OP_RUN_COMMAND", "argv": ["a"], "keep_output": false}`
		launch := func(followed bool, inputs ...string) string {
			draft := draftOf(inputs...)
			draft.Followed = followed
			b.client.Ask(b.queue, &messages.SubmitJobs{Request: 1, Jobs: []*messages.JobDraft{draft}})
			b.commit()
			return string(b.picked(b.submitted(1).Ids[0]).Launch)
		}
		require.JSONEq(t, `[null, null]`, launch(false, plain, never))
		require.JSONEq(t, `[{"keep_output": 10000000000}, null]`, launch(true, never, asks))
		require.JSONEq(t, `[{"followed": true}]`, launch(true, plain))
		b.settings(`{"keep_output": true, "output_limit": 5000000}`)
		require.JSONEq(t, `[{"keep_output": 5000000}]`, launch(true, plain))
		require.JSONEq(t, `[{"followed": true}]`, launch(true, never))
		require.JSONEq(t, `[null]`, launch(false, `{"OP_ID": "OP_TEST_DELAY", "duration": 1.0}`))
	})
}

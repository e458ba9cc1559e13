package queue_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lockstep/core/access"
	"lockstep/core/job"
	"lockstep/messages"
)

// named is a submission of n jobs with an idempotency name.
func named(request uint64, name string, n int) *messages.SubmitJobs {
	m := &messages.SubmitJobs{Request: request}
	for range n {
		m.Jobs = append(m.Jobs, &messages.JobDraft{Ops: []*messages.OpDraft{{Input: []byte(
			`{"OP_ID": "OP_TEST_DELAY", "duration": 1.0, "reason": [["lockstep:request", "` + name + `", 1]]}`)}}})
	}
	return m
}

// A name belongs to the user who has chosen it: another user with the same name submits jobs of his own, also while the first one waits.
func TestANamedSubmissionOfAnother(t *testing.T) {
	alice, bob := access.Submitter{UID: 1000, Name: "alice"}.Encode(), access.Submitter{UID: 1001, Name: "bob"}.Encode()
	of := func(submitter []byte, request uint64) *messages.SubmitJobs {
		m := named(request, "abc", 1)
		m.Submitter = submitter
		return m
	}
	onReady(t, nil, func(t *testing.T, b *bench) {
		b.client.Ask(b.queue, of(alice, 1))
		first := b.storeAsked()
		b.client.Ask(b.queue, of(bob, 2))
		b.client.Ask(b.queue, of(alice, 3))
		b.filesDone(first)
		require.Equal(t, []int64{1}, b.submitted(1).Ids)
		require.Equal(t, []int64{1}, b.submitted(3).Ids)
		b.commit()
		require.Equal(t, []int64{2}, b.submitted(2).Ids)
		for request, c := range map[uint64]struct {
			submitter []byte
			id        int64
		}{4: {alice, 1}, 5: {bob, 2}} {
			b.client.Ask(b.queue, of(c.submitter, request))
			require.Equal(t, []int64{c.id}, b.submitted(request).Ids)
		}
		b.client.Ask(b.queue, of(nil, 6))
		b.commit()
		require.Equal(t, []int64{3}, b.submitted(6).Ids)
	})
}

// A submission that is sent twice makes its jobs once: during its commit, after it, and
// after a restart.
func TestANamedSubmissionThatComesTwice(t *testing.T) {
	var recorded []*job.Job
	onReady(t, nil, func(t *testing.T, b *bench) {
		b.client.Ask(b.queue, named(1, "abc", 2))
		jobs := b.storeAsked()
		for _, f := range jobs.GetWrite().Files {
			j, err := job.Decode(f.Content)
			require.NoError(t, err)
			recorded = append(recorded, j)
		}
		b.client.Ask(b.queue, named(2, "abc", 2))
		b.client.Ask(b.queue, named(3, "abc", 2))
		b.filesDone(jobs)
		for request := uint64(1); request <= 3; request++ {
			require.Equal(t, []int64{1, 2}, b.submitted(request).Ids)
		}
		b.client.Ask(b.queue, named(4, "abc", 2))
		require.Equal(t, []int64{1, 2}, b.submitted(4).Ids)
		b.store.Quiet()
		b.client.Ask(b.queue, named(5, "abc", 1))
		require.Contains(t, b.submitted(5).Failure.Text, "use a new name")
	})
	onReady(t, recorded, func(t *testing.T, b *bench) {
		b.client.Ask(b.queue, named(1, "abc", 2))
		require.Equal(t, []int64{1, 2}, b.submitted(1).Ids)
		b.store.Quiet()
		b.client.Ask(b.queue, named(2, "other", 1))
		require.NotNil(t, b.storeAsked().GetWrite(), "another name is another submission")
	})
}

// A submission that was not recorded may be sent again under its name.
func TestANamedSubmissionThatHasFailed(t *testing.T) {
	onReady(t, nil, func(t *testing.T, b *bench) {
		b.client.Ask(b.queue, named(1, "abc", 1))
		b.filesDone(b.storeAsked(), "queue/job-1")
		b.filesDone(b.storeAsked()) // taken back
		require.NotNil(t, b.submitted(1).Failure)
		b.client.Ask(b.queue, named(2, "abc", 1))
		b.filesDone(b.storeAsked())
		require.Equal(t, []int64{2}, b.submitted(2).Ids)
	})
}

// namedOps is a submission of one job with an opcode for each element of secrets; an
// empty element is an opcode without secrets.
func namedOps(request uint64, name string, secrets ...string) *messages.SubmitJobs {
	d := &messages.JobDraft{}
	for i, s := range secrets {
		op := &messages.OpDraft{Input: fmt.Appendf(nil, `{"OP_ID": "OP_TEST_DELAY", "duration": %d.0, "reason": [["lockstep:request", %q, 1]]}`, i+1, name)}
		if s != "" {
			op.Input = fmt.Appendf(nil, `{"OP_ID": "OP_RUN_COMMAND", "argv": ["x"], "secret_env": {"P": "<redacted>"}, "reason": [["lockstep:request", %q, 1]]}`, name)
			op.Secrets = []byte(`{"secret_env": {"P": "` + s + `"}}`)
		}
		d.Ops = append(d.Ops, op)
	}
	return &messages.SubmitJobs{Request: request, Jobs: []*messages.JobDraft{d}}
}

// recordedBy are the jobs of a submission as a daemon reads them at its start.
func recordedBy(t *testing.T, m *messages.SubmitJobs) (jobs []*job.Job) {
	onReady(t, nil, func(t *testing.T, b *bench) {
		b.client.Ask(b.queue, m)
		for _, f := range b.storeAsked().GetWrite().Files {
			jobs = append(jobs, decoded(t, f.Content))
		}
	})
	return jobs
}

// A submission under a known name with fewer opcodes is refused. Its secrets are given
// to no job.
func TestARepeatWithOtherOpcodesIsRefused(t *testing.T) {
	recorded := recordedBy(t, namedOps(1, "abc", "s", "", ""))
	onReady(t, recorded, func(t *testing.T, b *bench) {
		for request, other := range []*messages.SubmitJobs{
			namedOps(1, "abc", "stranger"), namedOps(2, "abc", "stranger", "", "", ""), namedOps(3, "abc", "", "stranger", ""),
		} {
			b.client.Ask(b.queue, other)
			require.Contains(t, b.submitted(uint64(request+1)).Failure.Text, "use a new name")
		}
		require.NotContains(t, string(b.picked(1).Launch), "stranger")
	})
}

// A repeated submission brings back the secrets that were lost with a daemon.
func TestARepeatBringsLostSecrets(t *testing.T) {
	again := namedOps(1, "abc", "s", "", "")
	onReady(t, recordedBy(t, again), func(t *testing.T, b *bench) {
		b.client.Ask(b.queue, again)
		require.Equal(t, []int64{1}, b.submitted(1).Ids)
		require.Contains(t, string(b.picked(1).Launch), `{"P":"s"}`)
	})
}

// During the commit of a submission, another one under its name is refused.
func TestARepeatWithOtherOpcodesWhileTheFirstIsCommitted(t *testing.T) {
	onReady(t, nil, func(t *testing.T, b *bench) {
		b.client.Ask(b.queue, namedOps(1, "abc", "s"))
		write := b.storeAsked()
		b.client.Ask(b.queue, namedOps(2, "abc", "", ""))
		require.Contains(t, b.submitted(2).Failure.Text, "use a new name")
		b.filesDone(write)
		require.Equal(t, []int64{1}, b.submitted(1).Ids)
		b.client.Quiet()
	})
}

// The opcodes of a final job are only in its file.
func TestARepeatOfWhatHasEnded(t *testing.T) {
	over := recordedBy(t, named(1, "abc", 1))[0]
	over.Ops[0].Status, over.Livelock = job.Success, "/run/livelocks/job_000001_1"
	onReady(t, []*job.Job{over}, func(t *testing.T, b *bench) {
		for request, read := range []*messages.ReadFileResult{
			{Content: job.Encode(over)}, {Content: job.Encode(ended(1))}, {Missing: true}, {Failure: messages.Generic(fmt.Errorf("EIO"))},
		} {
			b.client.Ask(b.queue, named(uint64(request), "abc", 1))
			b.fileRead(b.storeAsked(), read)
			answer := b.submitted(uint64(request))
			require.Equal(t, request == 0 || request == 2, len(answer.Ids) == 1, "%d: %v", request, answer)
		}
	})
}

// A name is known as long as one of its jobs is in the queue. The test fails if a name is
// forgotten with the first of its jobs.
func TestANameOutlivesAPartOfItsJobs(t *testing.T) {
	recorded := recordedBy(t, named(1, "abc", 2))
	for _, j := range recorded {
		j.Ops[0].Status, j.Livelock = job.Success, "/run/livelocks/job_000001_1"
	}
	onReady(t, recorded, func(t *testing.T, b *bench) {
		b.archive(1, 1)
		b.filesDone(b.storeAsked())
		b.archived(1)
		b.client.Ask(b.queue, named(2, "abc", 2))
		b.fileRead(b.storeAsked(), &messages.ReadFileResult{Content: job.Encode(recorded[1])})
		require.Equal(t, []int64{1, 2}, b.submitted(2).Ids, "the archived one is not made again")
		b.archive(3, 2)
		b.filesDone(b.storeAsked())
		b.archived(3)
		b.client.Ask(b.queue, named(4, "abc", 2))
		require.NotNil(t, b.storeAsked().GetWrite(), "all of it is archived: the name is free")
	})
}

// A pending job gets its own secrets or none, whatever is submitted under its name before and
// after restarts of the queue. The test fails if answerRepeated accepts a repeat that differs.
func TestHostileRepeats(t *testing.T) {
	drawn := func(t *rapid.T, request uint64, who string) *messages.SubmitJobs {
		secrets := rapid.SliceOfN(rapid.SampledFrom([]string{"", who}), 1, 4).Draw(t, "opcodes")
		return namedOps(request, "abc", secrets...)
	}
	rapid.Check(t, func(rt *rapid.T) {
		first := drawn(rt, 1, "owner")
		repeats := []*messages.SubmitJobs{}
		for i := range rapid.IntRange(1, 5).Draw(rt, "repeats") {
			repeats = append(repeats, drawn(rt, uint64(i+2), "stranger"))
		}
		recorded := recordedBy(t, first)
		onReady(t, recorded, func(t *testing.T, b *bench) {
			repeated := false
			for _, m := range repeats {
				b.client.Ask(b.queue, m)
				taken := b.submitted(m.Request).Failure == nil
				require.Equal(t, inputs(first) == inputs(m), taken)
				repeated = repeated || taken
			}
			if hand := string(b.picked(1).Launch); !repeated {
				require.NotContains(t, hand, "stranger")
			}
		})
	})
}

func inputs(m *messages.SubmitJobs) (all string) {
	for _, op := range m.Jobs[0].Ops {
		all += string(op.Input) + "\n"
	}
	return all
}

package queue_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/actors/core/job"
	"lockstep/messages"
)

// named is a submission of n jobs that its client calls by a name.
func named(request uint64, name string, n int) *messages.SubmitJobs {
	m := &messages.SubmitJobs{Request: request}
	for range n {
		m.Jobs = append(m.Jobs, &messages.JobDraft{Ops: []*messages.OpDraft{{Input: []byte(
			`{"OP_ID": "OP_TEST_DELAY", "duration": 1.0, "reason": [["lockstep:request", "` + name + `", 1]]}`)}}})
	}
	return m
}

// One that comes twice makes its jobs once: while it is being committed, when it
// has been, and after a restart.
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

// What was not recorded is tried again.
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

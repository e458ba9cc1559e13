package replicator_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/core/job"
	"lockstep/messages"
)

func (b *bench) observe(request uint64, encoded string) {
	b.client.Ask(b.replicator, &messages.ReplicateJobFile{Request: request, Id: 7, Encoded: []byte(encoded)})
	b.Settle()
}

// begin starts job 7 on this node.
func (b *bench) begin() {
	b.Helper()
	b.log.commit(entry(self, "queue/job-7", jobIn(7, job.Queued)))
	b.Settle()
}

// withLine is a running job with a log line.
func withLine(t *testing.T, encoded string) string {
	j, err := job.Decode([]byte(encoded))
	require.NoError(t, err)
	j.Ops[0].Log = append(j.Ops[0].Log, job.LogEntry{Serial: 1, Time: job.Timestamp{Sec: 1}, Type: "message", Payload: json.RawMessage(`"a line"`)})
	return string(job.Encode(j))
}

func observed(o offer) string { return string(o.entry.Changes[0].GetUpdate().Content) }

func TestWhatAProcessHasWrittenIsProposed(t *testing.T) {
	onMaster(t, nil, func(t *testing.T, b *bench) {
		b.begin()
		require.NoError(t, b.disk.Replace("run-job", "queue/job-7", []byte("as the process has it")))
		b.observe(0, jobIn(7, job.Waiting))
		offers := b.log.take()
		require.Len(t, offers, 1)
		require.Equal(t, []string{"queue/job-7 observed"}, filePaths(offers[0].entry))
		b.log.commit(offers[0].entry)
		require.Equal(t, "as the process has it", b.content("queue/job-7"))
		b.client.Quiet()
		b.observe(0, jobIn(7, job.Waiting))
		require.Empty(t, b.log.take(), "nothing has changed")
		b.observe(0, "garbage")
		require.Empty(t, b.log.take())
	})
}

// While an entry is on its way, only the latest content waits.
func TestObservationsOfAJobCoalesce(t *testing.T) {
	onMaster(t, nil, func(t *testing.T, b *bench) {
		b.begin()
		b.observe(0, jobIn(7, job.Waiting))
		first := b.log.take()
		require.Len(t, first, 1)
		b.observe(0, jobIn(7, job.Running))
		b.observe(0, jobIn(7, job.Canceling))
		require.Empty(t, b.log.take())
		b.log.commit(first[0].entry)
		second := b.log.take()
		require.Len(t, second, 1)
		require.Equal(t, jobIn(7, job.Canceling), observed(second[0]))
		b.log.commit(second[0].entry)
		require.Empty(t, b.log.take())
	})
}

// The end of a job and the start of another do not wait for one another: the log gets both at once, the end first.
func TestAnEndAndAStartAreOfferedTogether(t *testing.T) {
	onMaster(t, nil, func(t *testing.T, b *bench) {
		b.begin()
		b.observe(1, jobIn(7, job.Success))
		start := b.write("queue/job-8", jobIn(8, job.Waiting))
		offers := b.log.take()
		require.Len(t, offers, 2)
		require.Equal(t, []string{"queue/job-7 observed"}, filePaths(offers[0].entry))
		require.Equal(t, []string{"queue/job-8"}, filePaths(offers[1].entry))
		for _, o := range offers {
			b.log.commit(o.entry)
		}
		require.EqualValues(t, 1, kittest.Expect[*messages.ReplicateJobFileResult](b.client).Request)
		b.written(start)
	})
}

func TestLogLinesAloneAreNotWorthAnEntry(t *testing.T) {
	onMaster(t, nil, func(t *testing.T, b *bench) {
		b.begin()
		b.observe(0, jobIn(7, job.Running))
		b.log.agree()
		before := b.log.offers
		b.observe(0, withLine(t, jobIn(7, job.Running)))
		require.Empty(t, b.log.take())
		require.Equal(t, before, b.log.offers)
		b.observe(0, withLine(t, jobIn(7, job.Success)))
		offers := b.log.take()
		require.Equal(t, withLine(t, jobIn(7, job.Success)), observed(offers[0]), "they come with the next")
	})
}

// A request with the end of a job is answered when the end is committed, whatever entries
// were on their way before.
func TestTheEndIsWaitedFor(t *testing.T) {
	onMaster(t, nil, func(t *testing.T, b *bench) {
		b.begin()
		b.observe(0, jobIn(7, job.Running))
		first := b.log.take()[0]
		b.observe(5, jobIn(7, job.Success))
		b.log.commit(first.entry)
		b.client.Quiet()
		last := b.log.take()[0]
		require.Equal(t, jobIn(7, job.Success), observed(last))
		b.log.commit(last.entry)
		require.Equal(t, uint64(5), kittest.Expect[*messages.ReplicateJobFileResult](b.client).Request)
		require.Empty(t, b.log.take())
	})
}

// A request with the content of the entry on its way is answered with that entry; no
// other entry is made.
func TestAnEndThatIsOnItsWayIsWaitedFor(t *testing.T) {
	onMaster(t, nil, func(t *testing.T, b *bench) {
		b.begin()
		b.observe(0, jobIn(7, job.Success))
		b.observe(5, jobIn(7, job.Success))
		b.observe(6, jobIn(7, job.Success))
		b.client.Quiet()
		b.log.commit(b.log.take()[0].entry)
		require.Equal(t, uint64(5), kittest.Expect[*messages.ReplicateJobFileResult](b.client).Request)
		require.Equal(t, uint64(6), kittest.Expect[*messages.ReplicateJobFileResult](b.client).Request)
		require.Empty(t, b.log.take())
	})
}

// A request is proposed even if the content has the fingerprint of the last one.
func TestLogLinesAreWaitedForToo(t *testing.T) {
	onMaster(t, nil, func(t *testing.T, b *bench) {
		b.begin()
		b.observe(0, jobIn(7, job.Running))
		b.observe(5, withLine(t, jobIn(7, job.Running)))
		b.log.commit(b.log.take()[0].entry)
		b.client.Quiet()
		last := b.log.take()[0]
		require.Equal(t, withLine(t, jobIn(7, job.Running)), observed(last))
		b.log.commit(last.entry)
		require.Equal(t, uint64(5), kittest.Expect[*messages.ReplicateJobFileResult](b.client).Request)
		b.observe(6, withLine(t, jobIn(7, job.Running)))
		require.Empty(t, b.log.take(), "they have it")
		require.Equal(t, uint64(6), kittest.Expect[*messages.ReplicateJobFileResult](b.client).Request)
	})
}

func TestOneThatIsNotTheMasterObservesNothing(t *testing.T) {
	onMaster(t, nil, func(t *testing.T, b *bench) {
		b.begin()
		b.observe(0, jobIn(7, job.Running))
		lost := b.log.take()[0]
		b.observe(5, jobIn(7, job.Success))
		b.log.lead("n2")
		b.log.commit(lost.entry)
		b.observe(6, jobIn(7, job.Success))
		b.Advance(collected)
		require.Empty(t, b.log.take())
		b.client.Quiet()
		b.become()
		b.observe(7, jobIn(7, job.Success))
		b.log.agree()
		require.Equal(t, uint64(7), kittest.Expect[*messages.ReplicateJobFileResult](b.client).Request)
	})
}

// An observation of a job that has ended is ignored.
func TestAnEndIsTheLastThatIsObserved(t *testing.T) {
	onMaster(t, nil, func(t *testing.T, b *bench) {
		b.begin()
		end := b.write("queue/job-7", jobIn(7, job.Error))
		b.observe(0, jobIn(7, job.Running))
		b.log.agree()
		b.written(end)
		b.observe(0, jobIn(7, job.Waiting))
		require.Empty(t, b.log.take())
		b.observe(5, jobIn(7, job.Error))
		require.Equal(t, uint64(5), kittest.Expect[*messages.ReplicateJobFileResult](b.client).Request)
		require.Equal(t, jobIn(7, job.Error), b.content("queue/job-7"))
	})
}

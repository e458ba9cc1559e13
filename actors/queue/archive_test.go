package queue_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/core/job"
	"lockstep/messages"
)

// archive asks to archive one job, or all if id is 0.
func (b *bench) archive(request uint64, id int64) {
	b.client.Ask(b.queue, &messages.ArchiveJobs{Request: request, Id: id, AgeS: -1, TimeoutS: 60})
	b.Settle()
}

func (b *bench) archived(request uint64) *messages.ArchiveJobsResult {
	b.Helper()
	m := kittest.Expect[*messages.ArchiveJobsResult](b.client)
	require.Equal(b, request, m.Request)
	return m
}

func moved(r *messages.AccessStore) []string {
	var from []string
	for _, f := range r.GetMove().GetFiles() {
		from = append(from, f.From)
	}
	return from
}

func TestArchive(t *testing.T) {
	onReady(t, []*job.Job{newJob(1), running(2), ended(3), ended(4)}, func(t *testing.T, b *bench) {
		b.archive(1, 3)
		r := b.storeAsked()
		require.Equal(t, []string{"queue/job-3"}, moved(r))
		require.False(t, b.rowOf(3).Unknown)
		b.filesDone(r)
		require.Equal(t, int64(1), b.archived(1).Archived)
		require.True(t, b.rowOf(3).Unknown)

		for request, id := range []int64{3, 1, 2, 99} {
			b.archive(uint64(request), id)
			require.Equal(t, int64(0), b.archived(uint64(request)).Archived, "job %d", id)
		}
		b.archive(9, 0)
		r = b.storeAsked()
		require.Equal(t, []string{"queue/job-4"}, moved(r))
		b.filesDone(r)
		require.Equal(t, int64(1), b.archived(9).Archived)
	})
}

// Two requests to archive the same job do not disturb each other.
func TestArchiveTwiceAtOnce(t *testing.T) {
	onReady(t, []*job.Job{ended(1), ended(2)}, func(t *testing.T, b *bench) {
		b.archive(1, 1)
		first := b.storeAsked()
		b.archive(2, 0)
		second := b.storeAsked()
		require.Equal(t, []string{"queue/job-2"}, moved(second))
		b.filesDone(second)
		require.Equal(t, int64(1), b.archived(2).Archived)
		b.filesDone(first)
		require.Equal(t, int64(1), b.archived(1).Archived)
	})
}

func TestAJobThatCannotBeArchivedStays(t *testing.T) {
	onReady(t, []*job.Job{ended(1), ended(2)}, func(t *testing.T, b *bench) {
		b.archive(1, 0)
		b.filesDone(b.storeAsked(), "queue/job-1")
		m := b.archived(1)
		require.Equal(t, int64(1), m.Archived)
		require.Equal(t, "no queue/job-1", m.Failure.Text)
		require.False(t, b.rowOf(1).Unknown)
		require.True(t, b.rowOf(2).Unknown)
		b.archive(2, 1)
		b.filesDone(b.storeAsked())
		require.Equal(t, int64(1), b.archived(2).Archived)
	})
}

// A final job whose file was removed is forgotten when a reader misses the file, if the queue misses it, too.
func TestAJobWithoutItsFileIsForgotten(t *testing.T) {
	onReady(t, []*job.Job{newJob(1), running(2), ended(3), ended(4)}, func(t *testing.T, b *bench) {
		missed := func(id int64) {
			b.client.Ask(b.queue, &messages.JobFileMissed{Id: id})
			b.Settle()
		}
		for _, id := range []int64{1, 2, 99} {
			missed(id)
		}
		missed(3)
		r := b.storeAsked()
		require.Equal(t, "queue/job-3", r.GetRead().GetPath())
		b.archive(1, 3) // crosses with the question
		require.Zero(t, b.archived(1).Archived)
		b.fileRead(r, &messages.ReadFileResult{Content: job.Encode(ended(3))})
		require.False(t, b.rowOf(3).Unknown)

		missed(4)
		b.fileRead(b.storeAsked(), &messages.ReadFileResult{Missing: true})
		r = b.storeAsked()
		require.Equal(t, []string{"queue/job-4"}, moved(r))
		b.storeAnswers(r, kittest.StoreResult(r, &messages.ChangeFilesResult{Failures: []*messages.FileFailure{{Path: "queue/job-4", Missing: true}}}))
		require.True(t, b.rowOf(4).Unknown)
		b.archive(2, 0)
		r = b.storeAsked()
		require.Equal(t, []string{"queue/job-3"}, moved(r))
		b.filesDone(r)
		require.Equal(t, int64(1), b.archived(2).Archived)
	})
}

package store_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/messages"
)

func TestScan(t *testing.T) {
	files := map[string]string{
		"queue/serial": "12\n", "queue/job-12": "twelve", "queue/job-2": "two", "queue/job-007": "not a job's name",
		"queue/job-3.tmp": "neither", "queue/lock": "", "queue/archive/0/job-1": "archived", "queue/quarantine/job-9": "bad",
	}
	onBench(t, files, func(t *testing.T, b *bench) {
		b.request(1, &messages.ScanQueue{})
		s := b.expectResult(1).GetScan()
		require.Nil(t, s.Failure)
		require.Equal(t, "12\n", string(s.Serial))
		require.False(t, s.Drained)
		require.Len(t, s.Jobs, 2)
		require.Equal(t, "two", string(s.Jobs[0].Content))
		require.Equal(t, int64(12), s.Jobs[1].Id)
	})
}

func TestScanSeesTheDrainFile(t *testing.T) {
	onBench(t, map[string]string{"queue/serial": "0\n", "queue/drain": ""}, func(t *testing.T, b *bench) {
		b.request(1, &messages.ScanQueue{})
		require.True(t, b.expectResult(1).GetScan().Drained)
	})
}

// Jobs are sorted by id, also if there are many.
func TestScanOfManyJobs(t *testing.T) {
	files := map[string]string{"queue/serial": "1000\n"}
	for id := range 1000 {
		files[fmt.Sprintf("queue/job-%d", id+1)] = "x"
	}
	onBench(t, files, func(t *testing.T, b *bench) {
		b.request(1, &messages.ScanQueue{})
		jobs := b.expectResult(1).GetScan().Jobs
		require.Len(t, jobs, 1000)
		for i, j := range jobs {
			require.Equal(t, int64(i+1), j.Id)
		}
	})
}

func TestScanFailures(t *testing.T) {
	files := map[string]string{"queue/serial": "2\n", "queue/job-1": "one", "queue/job-2": "two"}
	for _, call := range []string{"list scan", "read scan-serial"} {
		onBench(t, files, func(t *testing.T, b *bench) {
			b.disk.Fail(call, 1)
			b.request(1, &messages.ScanQueue{})
			require.Contains(t, b.expectResult(1).GetScan().Failure.GetText(), "the disk says no")
		})
	}
	// One unreadable job does not fail the scan.
	onBench(t, files, func(t *testing.T, b *bench) {
		b.disk.Fail("read scan-job queue/job-1", 1)
		b.request(1, &messages.ScanQueue{})
		s := b.expectResult(1).GetScan()
		require.Nil(t, s.Failure)
		require.Contains(t, s.Jobs[0].Failure.Text, "queue/job-1")
		require.Nil(t, s.Jobs[1].Failure)
	})
}

// A job that is archived between the listing and the read is not in the result.
func TestScanOfAJobThatGoes(t *testing.T) {
	files := map[string]string{"queue/serial": "2\n", "queue/job-1": "one", "queue/job-2": "two"}
	onBench(t, files, func(t *testing.T, b *bench) {
		reading := b.disk.Block("read scan-job")
		b.request(1, &messages.ScanQueue{})
		reading.Entered()
		require.NoError(t, b.disk.Remove("test", "queue/job-1"))
		reading.Release()
		jobs := b.expectResult(1).GetScan().Jobs
		require.Len(t, jobs, 1)
		require.Equal(t, int64(2), jobs[0].Id)
	})
}

// A scan waits for all earlier writes and removals of its sender, because a former
// incarnation of it may have sent them.
func TestScanWaitsForWritesOfTheSameSender(t *testing.T) {
	onBench(t, map[string]string{"queue/serial": "1\n", "queue/job-1": "one"}, func(t *testing.T, b *bench) {
		jobs, removal := b.disk.Block("replace test queue/job-2"), b.disk.Block("remove test queue/job-1")
		other := b.Probe("other")
		b.request(1, write(true, "queue/job-2", "two"))
		b.request(2, &messages.RemoveFiles{Op: "test", Paths: []string{"queue/job-1"}})
		jobs.Entered()
		removal.Entered()
		b.request(3, &messages.ScanQueue{})
		b.request(4, write(true, "queue/serial", "2\n")) // sent later, so the scan does not wait for it
		require.Empty(t, failed(b.expectResult(4)))
		b.requestFrom(other, 1, &messages.ScanQueue{}) // has no open request
		b.Settle()
		require.Len(t, other.Unread(), 1)

		jobs.Release()
		require.Empty(t, failed(b.expectResult(1)))
		b.expectQuiet()
		removal.Release()
		require.Empty(t, failed(b.expectResult(2)))
		s := b.expectResult(3).GetScan()
		require.Len(t, s.Jobs, 1)
		require.Equal(t, "two", string(s.Jobs[0].Content))
	})
}

// Records come with their jobs. Records without a job are listed.
func TestScanReadsRecords(t *testing.T) {
	files := map[string]string{"queue/serial": "1000\n", "queue/lockstep-300": "r300", "queue/lockstep-512": "r512", "queue/lockstep-1": "r1",
		"queue/lockstep-2000": "orphan", "queue/lockstep-07": "no record's name"}
	for id := range 1000 {
		files[fmt.Sprintf("queue/job-%d", id+1)] = "x"
	}
	onBench(t, files, func(t *testing.T, b *bench) {
		b.disk.Fail("read scan-record queue/lockstep-1", 1)
		b.request(1, &messages.ScanQueue{})
		s := b.expectResult(1).GetScan()
		require.Equal(t, []int64{2000}, s.Orphans)
		for _, j := range s.Jobs {
			want := map[int64]string{300: "r300", 512: "r512"}[j.Id]
			require.Equal(t, want, string(j.Record), j.Id)
			require.Equal(t, j.Id == 1, j.Failure != nil, "a job whose record cannot be read is read again")
		}
	})
}

package queue_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/core/job"
	"lockstep/messages"
)

// steps are messages of the queue's neighbours, in order; left is what the scheduler and
// the jobs actor receive after the last one.
type step struct {
	jobs []*job.Job
	told []any
	sent []any // to the scheduler
	out  []any // to the jobs actor
}

func TestPlaces(t *testing.T) {
	queued, end := newJob(1), ended(1)
	enqueued := &messages.EnqueueJobs{Jobs: []*messages.UnfinishedJob{waiting(queued)}}
	pick, left := &messages.PickJob{Id: 1}, &messages.JobReleased{Id: 1}
	start := &messages.StartJob{Id: 1, Encoded: job.Encode(queued), Launch: []byte(`[null]`)}
	executed := &messages.JobReleased{Id: 1, Ended: true, Status: int32(job.Success), Encoded: job.Encode(end)}
	over := &messages.JobEnded{Id: 1, Encoded: job.Encode(end)}
	returned := &messages.JobReturned{Id: 1}
	one := []*job.Job{queued}
	for name, s := range map[string]step{
		"pick of a pending job":           {one, []any{pick}, nil, []any{start}},
		"pick of an unknown job":          {nil, []any{pick}, []any{left}, nil},
		"pick of a final job":             {[]*job.Job{end}, []any{pick}, []any{left}, nil},
		"pick of a job that is out":       {one, []any{pick, pick}, nil, nil}, // its slot is in use
		"end":                             {one, []any{pick, over}, []any{executed}, nil},
		"end told twice":                  {one, []any{pick, over, over}, nil, nil},
		"end of a job that is not out":    {one, []any{over}, nil, nil},
		"end of an unknown job":           {nil, []any{over}, nil, nil},
		"return":                          {one, []any{pick, returned}, []any{left, enqueued}, nil},
		"return of a job that is not out": {one, []any{returned}, nil, nil},
		"return of a final job":           {[]*job.Job{end}, []any{returned}, nil, nil},
		"pick after a return":             {one, []any{pick, returned, pick}, nil, []any{start}},
		"pick after the end":              {one, []any{pick, over, pick}, []any{left}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			onReady(t, s.jobs, func(t *testing.T, b *bench) {
				for _, m := range s.told {
					b.scheduler.Unread()
					b.jobs.Unread()
					b.jobs.Ask(b.queue, m)
				}
				requireMessages(t, s.sent, b.scheduler.Unread())
				requireMessages(t, s.out, b.jobs.Unread())
			})
		})
	}
}

func requireMessages(t *testing.T, want, got []any) {
	t.Helper()
	require.Len(t, got, len(want))
	for i := range want {
		require.IsType(t, want[i], got[i])
		require.EqualExportedValues(t, want[i], got[i])
	}
}

// A reported change of a job is listed and counted. The test fails without recount in
// index.setInfo.
func TestProgressIsShown(t *testing.T) {
	onReady(t, []*job.Job{newJob(1)}, func(t *testing.T, b *bench) {
		b.picked(1)
		b.jobs.Ask(b.queue, &messages.JobProgressed{Id: 1, Encoded: job.Encode(running(1))})
		require.Equal(t, int32(job.Running), b.rowOf(1).Info.Status)
	})
}

// A report with another priority is passed to the scheduler; other reports are not.
func TestAPriorityThatAProcessHasTakenIsToldToTheScheduler(t *testing.T) {
	onReady(t, []*job.Job{newJob(1)}, func(t *testing.T, b *bench) {
		b.jobs.Ask(b.queue, &messages.PickJob{Id: 1})
		b.scheduler.Unread()
		j := newJob(1)
		j.Ops[0].Status = job.Waiting
		b.jobs.Ask(b.queue, &messages.JobProgressed{Id: 1, Encoded: job.Encode(j)})
		b.scheduler.Quiet()
		j.Ops[0].Priority = -20
		b.jobs.Ask(b.queue, &messages.JobProgressed{Id: 1, Encoded: job.Encode(j)})
		b.jobs.Ask(b.queue, &messages.JobProgressed{Id: 1, Encoded: job.Encode(j)})
		requireMessages(t, []any{&messages.PriorityChanged{Id: 1, Priority: -20}}, b.scheduler.Unread())
	})
}

func TestProgressThatIsNotAJobIsIgnored(t *testing.T) {
	onReady(t, []*job.Job{newJob(1)}, func(t *testing.T, b *bench) {
		b.picked(1)
		b.jobs.Ask(b.queue, &messages.JobProgressed{Id: 1, Encoded: []byte("nonsense")})
		require.Equal(t, int32(job.Queued), b.rowOf(1).Info.Status)
	})
}

func TestProgressOfAnotherPlaceIsIgnored(t *testing.T) {
	onReady(t, []*job.Job{newJob(1), ended(2)}, func(t *testing.T, b *bench) {
		for id := int64(1); id <= 3; id++ {
			b.jobs.Ask(b.queue, &messages.JobProgressed{Id: id, Encoded: job.Encode(running(id))})
		}
		require.Equal(t, int32(job.Queued), b.rowOf(1).Info.Status)
		require.Equal(t, int32(job.Success), b.rowOf(2).Info.Status)
		require.True(t, b.rowOf(3).Unknown)
	})
}

// The file is the only place of a finished job's content.
func TestAFinishedJobIsNotKeptInMemory(t *testing.T) {
	onReady(t, []*job.Job{newJob(1), ended(2)}, func(t *testing.T, b *bench) {
		require.NotEmpty(t, b.rowOf(1).Info.Encoded)
		require.Empty(t, b.rowOf(2).Info.Encoded)
		b.picked(1)
		b.jobs.Ask(b.queue, &messages.JobEnded{Id: 1, Encoded: job.Encode(ended(1))})
		require.Empty(t, b.rowOf(1).Info.Encoded)
	})
}

func TestPopulation(t *testing.T) {
	urgent := newJob(4)
	urgent.Ops[0].Priority = -10
	onReady(t, []*job.Job{newJob(1), running(2), ended(3), urgent}, func(t *testing.T, b *bench) {
		b.scheduler.Ask(b.queue, &messages.ListUnfinishedJobs{Request: 5})
		requireMessages(t, []any{&messages.ListUnfinishedJobsResult{Request: 5, Active: []*messages.UnfinishedJob{waiting(running(2))},
			Pending: []*messages.UnfinishedJob{waiting(newJob(1)), waiting(urgent)}}}, b.scheduler.Unread())
	})
}

// waiting is a pending job in the messages to the scheduler and the filter engine.
func waiting(j *job.Job) *messages.UnfinishedJob {
	return &messages.UnfinishedJob{Id: int64(j.ID), Encoded: job.Encode(j)}
}

// A new jobs actor receives all jobs that were active.
func TestANewJobsActorAdopts(t *testing.T) {
	onReady(t, []*job.Job{newJob(1), running(2), ended(3), newJob(4)}, func(t *testing.T, b *bench) {
		b.picked(4)
		b.jobs.Ask(b.queue, &messages.JobsActorStarted{Incarnation: 2})
		requireMessages(t, []any{
			&messages.AdoptJob{Id: 2, Encoded: job.Encode(running(2))},
			&messages.AdoptJob{Id: 4, Encoded: job.Encode(newJob(4))},
		}, b.jobs.Unread())
	})
}

// A process reports the end of its job before it exits. Until then the job is active,
// and can be adopted like any other.
func TestAJobThatHasSaidThatItEndedIsAdoptedToo(t *testing.T) {
	onReady(t, []*job.Job{running(1)}, func(t *testing.T, b *bench) {
		b.jobs.Ask(b.queue, &messages.JobProgressed{Id: 1, Encoded: job.Encode(ended(1))})
		b.jobs.Ask(b.queue, &messages.JobsActorStarted{Incarnation: 2})
		adopt := kittest.Expect[*messages.AdoptJob](b.jobs)
		_, err := job.Decode(adopt.Encoded)
		require.NoError(t, err)
	})
}

func TestList(t *testing.T) {
	onReady(t, []*job.Job{newJob(2), ended(5)}, func(t *testing.T, b *bench) {
		b.client.Ask(b.queue, &messages.ListJobs{Request: 7, All: true})
		all := kittest.Expect[*messages.ListJobsResult](b.client)
		require.Equal(t, uint64(7), all.Request)
		require.Len(t, all.Rows, 2)
		b.client.Ask(b.queue, &messages.ListJobs{Request: 8, Ids: []int64{5, 9, 2}})
		rows := kittest.Expect[*messages.ListJobsResult](b.client).Rows
		require.Equal(t, int64(5), rows[0].Info.Id)
		require.True(t, rows[1].Unknown)
		require.Equal(t, int64(9), rows[1].Id)
		require.Equal(t, int64(2), rows[2].Info.Id)
	})
}

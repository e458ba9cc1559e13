package scheduler_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/actors/scheduler"
	"lockstep/core/forecast"
	"lockstep/core/job"
	"lockstep/core/job/jobtest"
	"lockstep/core/lock"
	"lockstep/core/sched"
)

// snapshot is what the scheduler answers.
func (b *bench) snapshot(ids ...int64) *scheduler.Snapshot {
	b.process.Ask(b.scheduler, &scheduler.TakeSnapshot{Request: 5, Ids: ids})
	a := kittest.Expect[*scheduler.Snapshot](b.process)
	require.EqualValues(b, 5, a.GetRequest())
	return a
}

func idsOf(jobs []forecast.Job) []job.ID {
	var ids []job.ID
	for _, j := range jobs {
		ids = append(ids, j.ID)
	}
	return ids
}

// A snapshot has what runs, what comes next in order, and the named jobs with those that they wait for.
func TestASnapshot(t *testing.T) {
	onBench(t, 5, func(t *testing.T, b *bench) {
		b.expectJobsRequest()
		b.reconfigure(5, `{"order": "expected"}`)
		b.answerJobsRequest(all(unfinished(1, lockingNode("a"))), all(withPriority(10, 2, lockingNode("a")), unfinished(3, lockingNode("a"), lockingNode("b")),
			unfinished(4, jobtest.Delay(dependsOn(3, "success"))), unfinished(5, jobtest.Delay(dependsOn(4))), unfinished(6, jobtest.Delay(dependsOn(3, "error"))),
			withVerdict(unfinished(7, jobtest.Delay()), pausing(7))))
		b.sendLocks(true, lock.Record{Owner: lock.NamedOwner("admin", "/l/admin", 78), Locks: node("z")})
		b.Advance(time.Minute)
		s := b.snapshot(5, 6, 7, 99)
		require.Equal(t, sched.Expected, s.Order())
		w := s.World()
		require.Equal(t, []job.ID{1}, idsOf(w.Running))
		require.Equal(t, []job.ID{3, 2}, idsOf(w.First))
		require.Len(t, w.First[0].Ops, 2)
		require.Equal(t, []job.ID{5, 4, 6, 7}, idsOf(w.Waiting))
		require.Equal(t, []job.ID{4}, w.Waiting[0].After)
		require.Equal(t, forecast.Dependency, w.Waiting[2].Obstacle, "it waits for a failure")
		require.Equal(t, forecast.Filter, w.Waiting[3].Obstacle)
		require.Equal(t, "r1", w.Waiting[3].By)
		require.Len(t, w.Locks, 1)
		for _, e := range forecast.Estimates(w, func() bool { return true }) {
			require.NotEqual(t, forecast.NoObstacle, e.Obstacle, "nothing has been learned: job %d", e.ID)
		}
	})
}

// A picked job has begun when it was picked.
func TestASnapshotHasTheBeginOfAJob(t *testing.T) {
	onBench(t, 5, func(t *testing.T, b *bench) {
		b.expectJobsRequest()
		b.reconfigure(5, `{"order": "expected"}`)
		b.answerJobsRequest(nil, all(unfinished(1, lockingNode("a"))))
		require.Equal(t, []int64{1}, b.takePicked())
		b.Advance(time.Minute)
		w := b.snapshot().World()
		require.Equal(t, time.Minute, w.Now.Sub(w.Running[0].Began))
	})
}

func TestASnapshotOfAnotherOrderOrWithoutJobs(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		require.Empty(t, b.snapshot().World().First, "nothing is known yet")
		b.answerJobsRequest(plainJobs(1), plainJobs(3, 2))
		s := b.snapshot()
		require.Equal(t, sched.Plain, s.Order())
		list := forecast.Estimates(s.World(), func() bool { return true })
		require.Equal(t, []job.ID{1, 2, 3}, []job.ID{list[0].ID, list[1].ID, list[2].ID})
		require.Equal(t, forecast.OtherOrder, list[1].Obstacle)
	})
}

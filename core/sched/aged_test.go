package sched

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/job"
	"lockstep/core/lock"
)

// A job at its promise is not started before a more urgent one that waits for the same locks: it would get them first. The promise was
// made before the more urgent jobs came.
func TestADueJobDoesNotPassAMoreUrgentOne(t *testing.T) {
	settings := slots(6)
	settings.Order, settings.ReserveAfter = Expected, 3*time.Second
	for name, urgentFor := range map[string]time.Duration{"past ReserveAfter": settings.ReserveAfter, "not yet": 0} {
		t.Run(name, func(t *testing.T) {
			s := NewState(settings)
			wants := func(id job.ID, priority int, expected, received time.Duration) Candidate {
				c := exclusively(id, "n1")
				c.Priority, c.Expected, c.ReceivedUs = priority, expected, noon.Add(-received).UnixMicro()
				return c
			}
			has := func(id job.ID) { s.SetOwnerLocks(jobOwnerKey(id), []lock.Item{bgl, node("n1", lock.Exclusive)}, nil) }
			s.Enqueue(wants(1, 0, time.Second, 0))
			require.Equal(t, []job.ID{1}, s.Pick(noon))
			has(1)
			due := wants(2, 0, 0, settings.ReserveAfter)
			s.Enqueue(due)
			require.Empty(t, s.Pick(noon)) // it is due when job 1 is expected to end
			for _, id := range []job.ID{3, 4} {
				s.Enqueue(wants(id, -10, 10*time.Second, urgentFor))
			}
			require.Empty(t, s.Pick(noon.Add(100*time.Millisecond)))
			at := noon.Add(2 * time.Second)
			s.Remove(1)
			require.Equal(t, []job.ID{3}, s.Pick(at))
			has(3)
			require.Empty(t, s.Pick(at), "job 2 would get the locks before job 4, which is more urgent")
			s.Remove(3)
			require.Equal(t, job.ID(4), s.Pick(at)[0])
			s.Remove(4)
			s.Pick(at)
			require.Equal(t, []job.ID{2}, s.RunningIDs())
		})
	}
}

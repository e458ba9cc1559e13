package sched

import (
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/job"
	"lockstep/core/lock"
)

// A name whose exclusive owner becomes a shared one is free for shared demands only.
func TestANameBecomesFreeForSharedDemandsFirst(t *testing.T) {
	settings := slots(1)
	settings.Order = Expected
	s := NewState(settings)
	s.SetOwnerLocks(wconfd, []lock.Item{node("a", lock.Exclusive)}, nil)
	s.Enqueue(Candidate{ID: 1, ReceivedUs: noon.UnixMicro(), Declared: wants(lock.Node, lock.ExclusiveSet, "a")})
	s.Enqueue(Candidate{ID: 2, ReceivedUs: noon.UnixMicro(), Declared: wants(lock.Node, lock.SharedSet, "a", "b"), Priority: -1})
	s.Enqueue(Candidate{ID: 3, ReceivedUs: noon.UnixMicro(), Declared: wants(lock.Node, lock.SharedSet, "a"), Priority: 1})
	require.Empty(t, s.Pick(noon))
	s.SetOwnerLocks(wconfd, []lock.Item{node("a", lock.Shared)}, nil)
	require.Equal(t, []job.ID{2}, s.Pick(noon))
}

// A job that has become less urgent holds no others back as if it were urgent still.
func TestAReservationEndsWithAChangedPriority(t *testing.T) {
	settings := slots(2)
	settings.Order = Expected
	s := NewState(settings)
	s.SetOwnerLocks(wconfd, []lock.Item{node("a", lock.Shared)}, nil)
	urgent := Candidate{ID: 1, ReceivedUs: noon.UnixMicro(), Declared: wants(lock.Node, lock.ExclusiveSet, "a", "b"), Priority: -1}
	s.Enqueue(urgent)
	other := Candidate{ID: 2, ReceivedUs: noon.UnixMicro(), Declared: wants(lock.Node, lock.SharedSet, "b"), Expected: settings.ReserveAfter}
	s.Enqueue(other)
	require.Empty(t, s.Pick(noon), "a job that takes long does not take the locks of an urgent one")
	urgent.Priority = 1
	s.Enqueue(urgent)
	require.Equal(t, []job.ID{2}, s.Pick(noon))
}

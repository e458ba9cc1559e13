package study

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/lock"
)

func TestDrains(t *testing.T) {
	op := func(began, ended int, locks ...lock.Item) OpTiming {
		return OpTiming{Began: time.Duration(began) * time.Second, Ended: time.Duration(ended) * time.Second, Locks: locks}
	}
	job := func(submitted, ended int, ops ...OpTiming) *JobTiming {
		return &JobTiming{Submitted: time.Duration(submitted) * time.Second, Chosen: ops[0].Began, Ended: time.Duration(ended) * time.Second, Ops: ops}
	}
	a := lock.Item{Lock: lock.Member(lock.Node, "a"), Mode: lock.Exclusive}
	all := lock.Item{Lock: lock.Group(lock.Node), Mode: lock.Shared}
	shared := lock.Item{Lock: lock.Member(lock.Node, "b"), Mode: lock.Shared}
	bgl := lock.Item{Lock: lock.BGL, Mode: lock.Shared}
	jobs := map[int64]*JobTiming{
		1: job(0, 30, op(0, 10, a), op(12, 30, a)),
		2: job(0, 60, op(15, 60, bgl, shared)), // it is not in the way of 3
		3: job(5, 50, op(30, 50, bgl, all)),
		4: job(40, 70, op(60, 70, lock.Item{Lock: lock.BGL, Mode: lock.Exclusive})),
	}
	require.Equal(t, Drains{Jobs: 2, Mean: (18 + 20) / 2, Longest: 20, EmptySlotSeconds: 3 + 10}, drains(jobs, 2))
}

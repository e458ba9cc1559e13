package main

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Only a directory that is gone all the time counts, not a disk that is full.
func TestQueueLoss(t *testing.T) {
	lostFor, full := fmt.Errorf("create: %w", syscall.ENOENT), fmt.Errorf("create: %w", syscall.ENOSPC)
	at := func(s int) time.Time { return time.Unix(int64(1000+s), 0) }
	var a queueLoss
	require.Zero(t, a.observe(full, at(0)))
	require.Zero(t, a.observe(full, at(600)))
	require.NotZero(t, a.observe(lostFor, at(601)))
	require.Equal(t, 59*time.Second, a.observe(lostFor, at(660)))
	require.GreaterOrEqual(t, a.observe(lostFor, at(661)), queueLossMax)
	require.Zero(t, a.observe(full, at(662)))
	require.Less(t, a.observe(lostFor, at(700)), queueLossMax)
}

package main

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Only a directory that is gone all the time counts, not a disk that is full.
func TestAbsence(t *testing.T) {
	gone, full := fmt.Errorf("create: %w", syscall.ENOENT), fmt.Errorf("create: %w", syscall.ENOSPC)
	at := func(s int) time.Time { return time.Unix(int64(1000+s), 0) }
	var a absence
	require.Zero(t, a.after(full, at(0)))
	require.Zero(t, a.after(full, at(600)))
	require.NotZero(t, a.after(gone, at(601)))
	require.Equal(t, 59*time.Second, a.after(gone, at(660)))
	require.GreaterOrEqual(t, a.after(gone, at(661)), absenceMax)
	require.Zero(t, a.after(full, at(662)))
	require.Less(t, a.after(gone, at(700)), absenceMax)
}

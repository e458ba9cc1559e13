package persistence

import (
	"io/fs"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLease(t *testing.T) {
	dir := t.TempDir()
	_, err := OpenLease(dir)
	require.ErrorIs(t, err, fs.ErrNotExist, "a node that is alone has none")

	daemon, err := CreateLease(dir)
	require.NoError(t, err)
	job, err := OpenLease(dir)
	require.NoError(t, err)
	require.False(t, job.IsValid(), "nobody has renewed it")
	require.NoError(t, daemon.Renew(SinceBoot()+time.Hour))
	require.True(t, job.IsValid())
	require.NoError(t, daemon.Renew(SinceBoot()-1))
	require.False(t, job.IsValid())

	require.NoError(t, daemon.Renew(SinceBoot()+time.Hour))
	again, err := CreateLease(dir)
	require.NoError(t, err)
	require.True(t, job.IsValid(), "a new daemon changes nothing before it knows what it is")
	require.NoError(t, again.Renew(0))
	require.False(t, job.IsValid(), "a job that was started before sees the new one's")
	require.NoError(t, again.Renew(Forever))
	require.True(t, job.IsValid())

	require.NoError(t, RemoveLease(dir))
	require.NoError(t, RemoveLease(dir))
	_, err = OpenLease(dir)
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// The removal of the lease file ends the lease neither for processes that have it open nor
// for those that start later.
func TestALeaseThatWasRemovedIsMadeAgain(t *testing.T) {
	dir := t.TempDir()
	daemon, err := CreateLease(dir)
	require.NoError(t, err)
	var jobs []*Lease
	for range 3 {
		require.NoError(t, daemon.Renew(Forever))
		job, err := OpenLease(dir)
		require.NoError(t, err)
		jobs = append(jobs, job)
		require.NoError(t, os.Remove(leasePath(dir)))
	}
	require.NoError(t, daemon.Renew(SinceBoot()+time.Hour))
	for _, job := range jobs {
		require.True(t, job.IsValid())
	}
	require.NoError(t, daemon.Renew(0))
	for _, job := range jobs {
		require.False(t, job.IsValid(), "it ends with the others")
	}
}

// A lease that ended long ago keeps its end.
func TestTheEndOfALease(t *testing.T) {
	dir := t.TempDir()
	l, err := CreateLease(dir)
	require.NoError(t, err)
	require.Greater(t, l.ExpiredFor(), time.Duration(0), "it has never held")
	require.NoError(t, l.Renew(SinceBoot()+time.Hour))
	require.Zero(t, l.ExpiredFor())
	require.NoError(t, l.Renew(Forever))
	require.Zero(t, l.ExpiredFor())

	before := SinceBoot()
	require.NoError(t, l.Expire())
	require.False(t, l.IsValid())
	require.LessOrEqual(t, l.ExpiredFor(), SinceBoot()-before)
	require.NoError(t, l.Renew(before-time.Hour))
	require.NoError(t, l.Expire())
	require.GreaterOrEqual(t, l.ExpiredFor(), time.Hour)

	require.NoError(t, os.Truncate(leasePath(dir), 3))
	require.Equal(t, Forever, l.ExpiredFor(), "nobody knows")
	require.NoError(t, l.Expire())
	require.False(t, l.IsValid())
}

package persistence

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLease(t *testing.T) {
	dir := t.TempDir()
	none, err := OpenLease(dir)
	require.NoError(t, err)
	require.Nil(t, none, "a node that is alone has none")

	daemon, err := CreateLease(dir)
	require.NoError(t, err)
	job, err := OpenLease(dir)
	require.NoError(t, err)
	require.False(t, job.Holds(), "nobody has renewed it")
	require.NoError(t, daemon.Renew(SinceBoot()+time.Hour))
	require.True(t, job.Holds())
	require.NoError(t, daemon.Renew(SinceBoot()-1))
	require.False(t, job.Holds())

	require.NoError(t, daemon.Renew(SinceBoot()+time.Hour))
	again, err := CreateLease(dir)
	require.NoError(t, err)
	require.True(t, job.Holds(), "a new daemon changes nothing before it knows what it is")
	require.NoError(t, again.Renew(0))
	require.False(t, job.Holds(), "a job that was started before sees the new one's")
	require.NoError(t, again.Renew(Forever))
	require.True(t, job.Holds())

	require.NoError(t, RemoveLease(dir))
	require.NoError(t, RemoveLease(dir))
	none, err = OpenLease(dir)
	require.NoError(t, err)
	require.Nil(t, none)
}

// A lease that has been over for long is not made to end again.
func TestTheEndOfALease(t *testing.T) {
	dir := t.TempDir()
	l, err := CreateLease(dir)
	require.NoError(t, err)
	require.Greater(t, l.OverFor(), time.Duration(0), "it has never held")
	require.NoError(t, l.Renew(SinceBoot()+time.Hour))
	require.Zero(t, l.OverFor())
	require.NoError(t, l.Renew(Forever))
	require.Zero(t, l.OverFor())

	before := SinceBoot()
	require.NoError(t, l.End())
	require.False(t, l.Holds())
	require.LessOrEqual(t, l.OverFor(), SinceBoot()-before)
	require.NoError(t, l.Renew(before-time.Hour))
	require.NoError(t, l.End())
	require.GreaterOrEqual(t, l.OverFor(), time.Hour)

	require.NoError(t, os.Truncate(leasePath(dir), 3))
	require.Equal(t, Forever, l.OverFor(), "nobody knows")
	require.NoError(t, l.End())
	require.False(t, l.Holds())
}

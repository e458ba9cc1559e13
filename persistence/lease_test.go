package persistence

import (
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

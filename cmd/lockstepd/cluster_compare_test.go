package main

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/answer"
	"lockstep/core/paths"
	"lockstep/sim/longtest"
)

// A job's file that changes on one replica is replaced without being asked for, and status says so.
func TestClusterComparesItsFiles(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	c := newCluster(t, 3)
	u := c.user(0)
	filter := u.pause()
	c.submitInBatches(1000, 100)
	c.awaitEqual()
	path := c.others(c.master())[0].path("lib", paths.QueueDir, "job-500")
	original, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path+".foreign", []byte(strings.Replace(string(original), "true", "evil", 1)), 0o640))
	require.NoError(t, os.Rename(path+".foreign", path))
	// The comparison is slow on purpose, and slower on busy processors.
	eventuallyWithin(t, 8*patience, "the file is not repaired", func() error { return hasText(path, string(original)) })
	c.eventually("status does not say it", func() error {
		var s answer.QueueStatus
		u.must("LockstepStatus", &s)
		if s.Nodes == nil || s.Nodes.Files == nil || s.Nodes.Files.Repaired < 1 {
			return errors.New("nothing is repaired")
		}
		return nil
	})
	require.Contains(t, c.master().cli("status"), "differed and were replaced")
	u.must("DeleteFilter", nil, filter)
}

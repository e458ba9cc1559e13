package main

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/answer"
)

// Each node shows the progress of a job. A job that runs ends with its master, and so does its progress. That of the next job is shown by
// the new master.
func TestClusterShowsProgressAfterAFailover(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	says := func(text string) op {
		return op{"OP_ID": "OP_RUN_COMMAND", "argv": []string{"sh", "-c", `echo "40 ` + text + `" >$LOCKSTEP_PROGRESS; sleep 300`},
			"locks": [][]string{{"deploy", "exclusive"}}}
	}
	listed := func(m *member, id int64) (answer.ListedJob, error) {
		u := c.user(slices.Index(c.nodes, m))
		defer u.close()
		var list answer.JobList
		if err := u.once("LockstepListJobs", &list, answer.JobSelection{IDs: []int64{id}}); err != nil {
			return answer.ListedJob{}, err
		}
		if len(list.Jobs) != 1 {
			return answer.ListedJob{}, fmt.Errorf("%d jobs", len(list.Jobs))
		}
		return list.Jobs[0], nil
	}
	awaitShown := func(id int64, text string) {
		t.Helper()
		for _, m := range c.nodes {
			if !m.up {
				continue
			}
			c.eventually(fmt.Sprintf("the progress of job %d at %s", id, m.name), func() error {
				job, err := listed(m, id)
				if err == nil && (job.Progress == nil || job.Progress.Text != text || *job.Progress.Percent != 40) {
					err = fmt.Errorf("%s, with progress %v", job.Status, job.Progress)
				}
				return err
			})
		}
	}
	u := c.user(0)
	first := u.submit(says("first"))
	awaitShown(first, "first")
	second := u.submit(says("second"))
	c.master().crash()
	awaitShown(second, "second")
	c.eventually("the end of the job of the former master", func() error {
		job, err := listed(c.master(), first)
		if err == nil && job.Status != "error" {
			err = fmt.Errorf("it is %s", job.Status)
		}
		require.True(t, job.Status != "error" || job.Progress == nil, "an ended job has progress")
		return err
	})
	u.must("CancelJob", nil, second, true)
	u.awaitStatus(second, "canceled", "error")
	job, err := listed(c.master(), second)
	require.NoError(t, err)
	require.Nil(t, job.Progress)
}

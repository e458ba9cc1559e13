package dependency

import (
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/job"
	"lockstep/core/opcode"
)

func on(id int64, statuses ...string) opcode.Dependency {
	return opcode.Dependency{Job: id, Statuses: statuses}
}

func TestEvaluate(t *testing.T) {
	for _, c := range []struct {
		statuses                 []string
		success, failed, cancels Outcome
	}{
		{nil, Met, Met, Cancels},
		{[]string{}, Met, Met, Cancels},
		{[]string{"success"}, Met, Fails, Cancels},
		{[]string{"error"}, Fails, Met, Cancels},
		{[]string{"canceled"}, Fails, Fails, Met},
		{[]string{"success", "error"}, Met, Met, Cancels},
		{[]string{"error", "canceled"}, Fails, Met, Met},
		{[]string{"canceled", "success", "error", "success"}, Met, Met, Met},
		{[]string{"running"}, Fails, Fails, Cancels}, // opcode.Parse refuses this
	} {
		d := opcode.Dependency{Job: 1, Statuses: c.statuses}
		require.Equal(t, c.success, Evaluate(d, job.Success), "%q success", c.statuses)
		require.Equal(t, c.failed, Evaluate(d, job.Error), "%q error", c.statuses)
		require.Equal(t, c.cancels, Evaluate(d, job.Canceled), "%q canceled", c.statuses)
		for _, status := range []job.Status{job.Queued, job.Waiting, job.Canceling, job.Running} {
			require.Equal(t, Unmet, Evaluate(d, status), "%q %s", c.statuses, status)
		}
	}
}

func TestCausesAreForPeople(t *testing.T) {
	for text, cause := range map[string]Cause{
		"job 12 ended with status error, success was required":             {Dependency: on(12, "success"), Kind: WrongStatus, Status: job.Error},
		"job 12 ended with status success, error or canceled was required": {Dependency: on(12, "error", "canceled"), Kind: WrongStatus, Status: job.Success},
		"job 12 was canceled":          {Dependency: on(12), Kind: WrongStatus, Status: job.Canceled},
		"job 99 does not exist":        {Dependency: on(99, "success"), Kind: MissingJob},
		"a job cannot wait for itself": {Dependency: on(7), Kind: SelfDependency},
		"job 9 was submitted later: a job can wait only for earlier ones": {Dependency: on(9), Kind: LaterJob},
	} {
		require.Equal(t, text, cause.String())
	}
}

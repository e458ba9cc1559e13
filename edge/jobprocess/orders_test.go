package jobprocess

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/actors/jobs"
	"lockstep/messages"
	"lockstep/persistence"
)

// If a process ends while it gets a priority, no priority file is left.
func TestAPriorityForAProcessThatHasEnded(t *testing.T) {
	r := newFixture(t, jobProgram)
	l := &liveProcess{job: jobs.Job{ID: 7}, ended: make(chan struct{})}
	r.port.addLive(1, l)
	r.port.removeLive(1)
	r.port.deliver(l, jobs.Order{Kind: jobs.TakePriority, Priority: 3})
	require.NoFileExists(t, persistence.PriorityPath(r.runDir(), 7))
}

// A message to a process that ends while no daemon runs is removed by the next daemon.
func TestAPriorityThatNobodyHasRead(t *testing.T) {
	r := newFixture(t, jobProgram)
	path := persistence.PriorityPath(r.runDir(), 7)
	require.NoError(t, os.WriteFile(path, []byte("3\n"), 0o600))
	r.port.Adopt(1, jobs.Job{ID: 7}, 0, "/no/such/livelock", r.receiver)
	expect[*messages.ProcessGone](r)
	require.NoFileExists(t, path)
}

// A priority can be sent although the directory of messages is missing.
func TestAPriorityAfterTheRunDirectoryWasCleanedUp(t *testing.T) {
	r := newFixture(t, jobProgram)
	path := persistence.PriorityPath(r.runDir(), 7)
	require.NoError(t, os.RemoveAll(r.runDir()))
	r.port.addLive(1, &liveProcess{job: jobs.Job{ID: 7}, ended: make(chan struct{})})
	r.port.Tell(1, jobs.Order{Kind: jobs.TakePriority, Priority: 3})
	require.FileExists(t, path)
}

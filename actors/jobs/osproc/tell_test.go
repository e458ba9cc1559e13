package osproc

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/actors/jobs"
	"lockstep/messages"
	"lockstep/persistence"
)

// A process may end while it is told something: nothing lies about then, whichever
// comes first.
func TestAPriorityForAProcessThatHasEnded(t *testing.T) {
	r := newRig(t, jobProgram)
	path := persistence.PriorityPath(r.runDir(), 7)
	for range 300 {
		r.port.enter(1, &living{id: 7, gone: make(chan struct{})})
		told := make(chan struct{})
		go func() {
			r.port.Tell(1, jobs.Order{Kind: jobs.TakePriority, Priority: 3})
			close(told)
		}()
		r.port.leave(1)
		<-told
		require.NoFileExists(t, path)
	}
}

// The message to a process that ends while there is no daemon is removed by the next.
func TestAPriorityThatNobodyHasRead(t *testing.T) {
	r := newRig(t, jobProgram)
	path := persistence.PriorityPath(r.runDir(), 7)
	require.NoError(t, os.WriteFile(path, []byte("3\n"), 0o600))
	r.port.Adopt(1, 7, 0, "/no/such/livelock", r.probe)
	expect[*messages.ProcessGone](r)
	require.NoFileExists(t, path)
}

// A priority can be sent when the directory of messages is gone.
func TestAPriorityAfterTheRunDirectoryWasCleanedUp(t *testing.T) {
	r := newRig(t, jobProgram)
	path := persistence.PriorityPath(r.runDir(), 7)
	require.NoError(t, os.RemoveAll(r.runDir()))
	r.port.enter(1, &living{id: 7, gone: make(chan struct{})})
	r.port.Tell(1, jobs.Order{Kind: jobs.TakePriority, Priority: 3})
	require.FileExists(t, path)
}

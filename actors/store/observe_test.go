package store_test

import (
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/actors/store"
	"lockstep/messages"
)

// The observer learns of changes before the client does, and not of a submission without its commit record.
func TestTheObserverLearnsOfChanges(t *testing.T) {
	kittest.Run(t, func(t *testing.T, e *kittest.Env) {
		b := &bench{T: t, Env: e, disk: kittest.NewDisk(map[string]string{"queue/job-9": "bad"}), asker: e.Probe("asker"), answers: map[uint64]*messages.AccessStoreResult{}}
		observer := e.Probe("observer")
		b.store = e.Start("store", store.Props(store.Config{Env: e.Env, Files: b.disk, Writers: writers, Clients: []*actor.PID{b.asker.PID}, QueueCopy: observer.PID}))
		b.epoch = kittest.Expect[*messages.StoreStarted](b.asker).Incarnation
		changes := func(number uint64, what any) []string {
			b.request(number, what)
			b.expectResult(number)
			return kittest.Expect[*store.Changed](observer).Paths
		}
		submission := write(true, "queue/job-1", "a", "queue/job-2", "b")
		submission.CommitRecord = &messages.FileWrite{Op: "commit", Path: "queue/serial", Content: []byte("2\n")}
		require.Equal(t, []string{"queue/job-1", "queue/job-2", "queue/serial"}, changes(1, submission))
		require.Equal(t, []string{"queue/archive/0/job-1"}, changes(2, move("job-1")))
		require.Equal(t, []string{"queue/job-2"}, changes(3, &messages.RemoveFiles{Op: "test", Paths: []string{"queue/job-2"}}))
		b.request(4, &messages.QuarantineFile{Path: "queue/job-9"})
		require.Equal(t, []string{"queue/job-9"}, kittest.Expect[*store.Changed](observer).Paths)

		b.disk.Fail("replace", 1)
		b.request(5, submission)
		b.request(6, &messages.AppendFile{Op: "test", Path: "x", Content: []byte("x")})
		b.Settle()
		observer.Quiet()
	})
}

package queue_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/core/schedule"
	"lockstep/messages"
)

// A schedule's file that cannot be read is read again before the queue takes requests: its last firing may have to be taken back.
func TestAScheduleThatCannotBeReadIsReadAgain(t *testing.T) {
	failed := &messages.ReadFileResult{Failure: messages.GenericFailure("EIO")}
	unreadable := func(b *bench) *messages.AccessStore {
		b.store.Answer(func(m any) any {
			if r, asks := m.(*messages.AccessStore); asks && r.GetList() != nil {
				return kittest.StoreResult(r, &messages.ListDirResult{Names: []string{"nightly.json"}})
			}
			return nil
		})
		b.recover(&messages.ScanQueueResult{Serial: []byte("1\n")})
		return b.storeAsked()
	}
	onBench(t, func(t *testing.T, b *bench) {
		before := schedule.Make(schedule.Definition{Name: "nightly", EveryUs: 1, Jobs: []schedule.Job{{Ops: []json.RawMessage{json.RawMessage(`{}`)}}}},
			schedule.Owner{}, "root", b.Clock.Now())
		fired, err := schedule.WithJobs(before.Fired(schedule.Fire{DueUs: before.LastUs + 1}, before).Encode(), 2)
		require.NoError(t, err)
		b.fileRead(unreadable(b), failed)
		b.gateway.Quiet()
		b.Advance(time.Second)
		b.fileRead(b.storeAsked(), &messages.ReadFileResult{Content: fired})
		b.gateway.Quiet()
		write := b.storeAsked()
		restored, err := schedule.Decode(write.GetWrite().Files[0].Content)
		require.NoError(t, err)
		require.Equal(t, before.LastUs, restored.LastUs)
		require.Empty(t, restored.History)
		b.filesDone(write)
		kittest.Expect[*messages.QueueStarted](b.gateway)
	})
	onBench(t, func(t *testing.T, b *bench) {
		b.fileRead(unreadable(b), failed)
		for range 8 {
			b.Advance(10 * time.Second)
			b.fileRead(b.storeAsked(), failed)
		}
		kittest.Expect[*messages.QueueStarted](b.gateway)
		require.Len(t, b.Logged("the file of a schedule cannot be read; its last due time may get no jobs"), 1)
	})
}

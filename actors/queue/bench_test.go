package queue_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/actors/config/clusterconfig"
	"lockstep/actors/kittest"
	"lockstep/actors/queue"
	"lockstep/core/paths"
	"lockstep/messages"
)

// BenchmarkSubmit measures one job from its submission to the answer, in a queue with
// other pending jobs. The neighbours answer at once.
func BenchmarkSubmit(b *testing.B) {
	for _, waiting := range []int64{1_000, 100_000} {
		b.Run(fmt.Sprintf("queued=%d", waiting), func(b *testing.B) {
			scan := &messages.ScanQueueResult{Serial: paths.FormatSerial(waiting)}
			for id := range waiting {
				scan.Jobs = append(scan.Jobs, &messages.ScannedJob{Id: id + 1, Content: encodedJob(id + 1)})
			}
			e := newBench(nil, kittest.New(b))
			e.cluster.Answer(func(any) any { return &clusterconfig.ConfigPublished{Config: configuration} })
			e.store.Answer(func(m any) any { return storeSays(m, scan) })
			e.jobs.Answer(func(m any) any {
				if question, ok := m.(*messages.ListActiveJobs); ok {
					return &messages.ListActiveJobsResult{Request: question.Request}
				}
				return nil
			})
			pid, _, err := e.SpawnRoot(queue.Props(e.configOf(noLimits)), "queue")
			require.NoError(b, err)
			kittest.Expect[*messages.QueueStarted](e.gateway)
			e.filters.Ask(pid, &messages.FiltersStarted{Incarnation: 1})
			request := uint64(0)
			for b.Loop() {
				request++
				e.client.Ask(pid, &messages.SubmitJobs{Request: request, Jobs: []*messages.JobDraft{draft("")}})
				require.Len(b, kittest.Expect[*messages.SubmitJobsResult](e.client).Ids, 1)
				kittest.Expect[*messages.EnqueueJobs](e.scheduler)
			}
		})
	}
}

func encodedJob(id int64) []byte { return waiting(newJob(id)).Encoded }

// storeSays answers for a store whose disk takes no time.
func storeSays(m any, scan *messages.ScanQueueResult) any {
	r, asked := m.(*messages.AccessStore)
	switch {
	case !asked:
		return &messages.StoreStarted{Incarnation: 1}
	case r.GetScan() != nil:
		return kittest.StoreResult(r, scan)
	case r.GetList() != nil:
		return kittest.StoreResult(r, &messages.ListDirResult{})
	default:
		return kittest.StoreResult(r, &messages.ChangeFilesResult{})
	}
}

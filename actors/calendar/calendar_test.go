package calendar_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/calendar"
	"lockstep/actors/kittest"
	"lockstep/core/access"
	"lockstep/core/opcode"
	"lockstep/core/schedule"
	"lockstep/messages"
)

// A calendar restarts while the queue has a submission of the incarnation before. It does not read the files until the queue says what has
// become of the submission: the file would not show it yet.
func TestAFormerSubmissionEndsBeforeTheFilesAreRead(t *testing.T) {
	for name, answer := range map[string]func(request uint64) any{
		"recorded": func(request uint64) any { return &messages.SubmitJobsResult{Request: request, Ids: []int64{1}} },
		"not had":  func(request uint64) any { return &messages.CheckSubmissionResult{Request: request} },
	} {
		t.Run(name, func(t *testing.T) {
			kittest.Run(t, func(t *testing.T, e *kittest.Env) {
				delay := json.RawMessage(`{"OP_ID": "OP_TEST_DELAY", "duration": 1}`)
				daemon := access.Submitter{UID: 7}
				definition := schedule.Definition{Name: "nightly", EveryUs: time.Second.Microseconds(), Overlap: schedule.Allow, CatchUp: schedule.All,
					WithinUs: time.Hour.Microseconds(), Jobs: []schedule.Job{{Ops: []json.RawMessage{delay}}}}
				file := schedule.Make(definition, schedule.Owner{Submitter: daemon}, "root", e.Clock.Now())
				reads := 0
				store, queue := e.Probe("store"), e.Probe("queue")
				store.Answer(func(m any) any {
					request, is := m.(*messages.AccessStore)
					switch {
					case !is:
						return &messages.StoreStarted{Incarnation: 1}
					case request.GetList() != nil:
						return kittest.StoreResult(request, &messages.ListDirResult{Names: []string{"nightly.json"}})
					default:
						reads++
						return kittest.StoreResult(request, &messages.ReadFileResult{Content: file.Encode()})
					}
				})
				queue.Answer(func(m any) any {
					if _, is := m.(*messages.AnnounceQueue); is {
						return &messages.QueueStarted{Incarnation: 1}
					}
					return nil
				})
				pid := e.Start("calendar", calendar.Props(calendar.Config{Env: e.Env, Store: store.PID, Queue: queue.PID, Catalogue: opcode.Builtin(),
					Daemon: daemon, Zones: time.LoadLocation}))
				e.Advance(2 * time.Second)
				submit := kittest.Expect[*messages.SubmitJobs](queue)
				require.Equal(t, 1, reads)

				e.Restart(pid)
				require.Equal(t, submit.Request, kittest.Expect[*messages.CheckSubmission](queue).Request)
				require.Equal(t, 1, reads)

				queue.Ask(pid, answer(submit.Request))
				e.Settle()
				require.Equal(t, 2, reads)
			})
		})
	}
}

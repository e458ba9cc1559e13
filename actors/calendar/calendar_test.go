package calendar_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
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

// A page of the schedules has them by name, after a name, with a part of the name.
func TestPagesOfSchedules(t *testing.T) {
	kittest.Run(t, func(t *testing.T, e *kittest.Env) {
		daemon := access.Submitter{UID: 7}
		names := []string{"a1.json", "a2.json", "b1.json", "b2.json", "b3.json"}
		store, queue := e.Probe("store"), e.Probe("queue")
		store.Answer(func(m any) any {
			request, is := m.(*messages.AccessStore)
			switch {
			case !is:
				return &messages.StoreStarted{Incarnation: 1}
			case request.GetList() != nil:
				return kittest.StoreResult(request, &messages.ListDirResult{Names: names})
			default:
				name := strings.TrimSuffix(filepath.Base(request.GetRead().Path), ".json")
				d := schedule.Definition{Name: name, EveryUs: time.Hour.Microseconds(), Overlap: schedule.Skip, CatchUp: schedule.Last,
					WithinUs: time.Hour.Microseconds(), Jobs: []schedule.Job{{Ops: []json.RawMessage{json.RawMessage(`{}`)}}}}
				return kittest.StoreResult(request, &messages.ReadFileResult{
					Content: schedule.Make(d, schedule.Owner{Submitter: daemon}, "root", e.Clock.Now()).Encode()})
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
		e.Settle()
		client := e.Probe("client")
		list := func(m *calendar.List) (found []string, more bool) {
			client.Ask(pid, m)
			e.Settle()
			r := kittest.Expect[*calendar.ListResult](client)
			for _, s := range r.Schedules {
				found = append(found, s.File.Name)
			}
			return found, r.More
		}
		for _, test := range []struct {
			list calendar.List
			want []string
			more bool
		}{
			{calendar.List{}, []string{"a1", "a2", "b1", "b2", "b3"}, false},
			{calendar.List{Limit: 2}, []string{"a1", "a2"}, true},
			{calendar.List{Limit: 2, After: "a2"}, []string{"b1", "b2"}, true},
			{calendar.List{Limit: 2, After: "b2"}, []string{"b3"}, false},
			{calendar.List{Limit: 3, After: "a2"}, []string{"b1", "b2", "b3"}, false},
			{calendar.List{Limit: 2, Search: "2"}, []string{"a2", "b2"}, false},
			{calendar.List{Limit: 1, Search: "b", After: "b1x"}, []string{"b2"}, true},
			{calendar.List{Search: "c"}, nil, false},
			{calendar.List{Name: "b1"}, []string{"b1"}, false},
		} {
			found, more := list(&test.list)
			require.Equal(t, test.want, found, "%+v", test.list)
			require.Equal(t, test.more, more, "%+v", test.list)
		}
	})
}

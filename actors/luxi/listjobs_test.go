package luxi_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/actors/conn"
	"lockstep/actors/kittest"
	"lockstep/core/answer"
	"lockstep/core/job"
	"lockstep/messages"
)

// list is the answer to LockstepListJobs: ids, and the numbers of jobs that are not in it.
func (c *client) list(selection string) (ids []int64, list answer.JobList) {
	c.Helper()
	got, err := jsonOf(c.asks("LockstepListJobs", "["+selection+"]"))
	require.NoError(c, err)
	require.NoError(c, json.Unmarshal([]byte(got), &list))
	for _, j := range list.Jobs {
		ids = append(ids, j.ID)
	}
	return ids, list
}

func TestListsOfJobs(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world, c *client) {
		w.threeJobs()
		w.files["queue/archive/0/lockstep-4"] = `{"name": "nightly"}`
		for _, s := range []struct {
			selection string
			want      []int64
			unread    int
			reads     []string
		}{
			{`{}`, []int64{1, 2, 3}, 0, nil},
			{`{"statuses": ["queued", "running"]}`, []int64{2, 3}, 0, nil},
			{`{"max_unfinished": 50, "max_ended": 20}`, []int64{2, 3, 1}, 0, nil},
			{`{"archived": true}`, []int64{1, 2, 3, 4, 10005}, 0, []string{"queue/archive/1/job-10005", "queue/archive/0/job-4", "queue/archive/0/lockstep-4"}},
			// Jobs are read from the highest id downwards, at most as many at once as are needed.
			{`{"ids": [4, 2, 99]}`, []int64{2, 4}, 0, []string{"queue/archive/0/job-99", "queue/archive/0/job-4", "queue/archive/0/lockstep-4"}},
			{`{"ids": []}`, nil, 0, nil},
			// Only a job with a record has a name.
			{`{"names": ["nightly"], "archived": true, "limit": 1}`, []int64{4}, 0, []string{"queue/archive/0/job-4", "queue/archive/0/lockstep-4"}},
			{`{"names": ["weekly"], "archived": true}`, nil, 0, []string{"queue/archive/0/job-4", "queue/archive/0/lockstep-4"}},
		} {
			w.reads = nil
			ids, list := c.list(s.selection)
			require.Equal(t, s.want, ids, s.selection)
			require.Equal(t, s.unread, list.Unread, s.selection)
			require.Equal(t, s.reads, w.reads, s.selection)
		}
		_, list := c.list(`{"ids": [4]}`)
		require.Equal(t, "nightly", list.Jobs[0].Name)
		require.True(t, list.Jobs[0].Archived)
		ids, list := c.list(`{"limit": 2}`)
		require.Equal(t, []int64{2, 3}, ids)
		require.Equal(t, 1, list.More)
	})
}

// A search in a large archive ends when the limit is reached.
func TestAnArchiveIsReadUpToTheLimit(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world, c *client) {
		for id := range int64(500) {
			w.archive(someJob(id+1, job.Success))
		}
		ids, list := c.list(`{"archived": true, "limit": 2}`)
		require.Equal(t, []int64{499, 500}, ids)
		require.GreaterOrEqual(t, list.Unread, 300)
		require.Less(t, len(w.reads), 200)
	})
}

func TestWhatIsNoSelection(t *testing.T) {
	for _, args := range []string{`[]`, `[5]`, `[{"names": ["["]}]`, `[{"limit": -1}]`} {
		onBench(t, func(t *testing.T, b *bench, c *client) {
			c.Call("LockstepListJobs", args)
			require.Contains(t, c.Answer(), "LockstepListJobs", args)
			b.queue.Quiet()
		})
	}
}

func TestJobsWithNames(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, c *client) {
		const op = `{"OP_ID": "OP_TEST_DELAY", "duration": 1}`
		c.Call("LockstepSubmitJobs", `[[{"ops": [`+op+`], "name": "nightly"}, {"ops": [`+op+`]}]]`)
		m := kittest.Expect[*messages.SubmitJobs](b.queue)
		require.Equal(t, "nightly", m.Jobs[0].Name)
		require.Empty(t, m.Jobs[1].Name)
		require.NotContains(t, string(m.Jobs[0].Ops[0].Input), "nightly")
		c.Tell(&messages.SubmitJobsResult{Request: m.Request, Ids: []int64{4, 5}})
		require.JSONEq(t, `{"success": true, "result": [4, 5]}`, c.Answer())
	})
	for jobs, want := range map[string]string{
		`{"name": "x y", "ops": []}`:             `[{"job":1,"text":"the name`,
		`{"name": "12", "ops": []}`:              `[{"job":1,"text":"the name`,
		`{"name": "x", "ops": [], "hold": true}`: "LockstepSubmitJobs: job 1 of 1",
		`[]`:                                     "LockstepSubmitJobs: job 1 of 1",
		`{"ops": [{}]}`:                          `[{"job":1,"opcode":1,"parameter":"OP_ID","text":"key`,
		`{"ops": [` + strings.Repeat(`{},`, 150) + `{}]}`: `"opcode":100,`,
	} {
		onBench(t, func(t *testing.T, b *bench, c *client) {
			c.Call("LockstepSubmitJobs", fmt.Sprintf(`[[%s]]`, jobs))
			answer := c.Answer()
			require.Contains(t, answer, want, jobs)
			require.NotContains(t, answer, `"opcode":101,`)
			b.queue.Quiet()
		})
	}
}

// What the queue says of the mistakes reaches clients of lockstep's own call alone.
func TestTheListOfMistakesIsNoArgumentOfGanetisErrors(t *testing.T) {
	const mistakes = `[{"job":1,"opcode":1,"parameter":"locks","text":"no"}]`
	for method, want := range map[string]string{
		"SubmitJob":          `["OpPrereqError", ["no", "wrong_input"]]`,
		"LockstepSubmitJobs": `["OpPrereqError", ["no", "wrong_input", ` + mistakes + `]]`,
	} {
		onBench(t, func(t *testing.T, b *bench, c *client) {
			args := `[[{"OP_ID": "OP_TEST_DELAY", "duration": 1}]]`
			if method != "SubmitJob" {
				args = `[[{"ops": [{"OP_ID": "OP_TEST_DELAY", "duration": 1}]}]]`
			}
			c.Call(method, args)
			m := kittest.Expect[*messages.SubmitJobs](b.queue)
			f := messages.PrereqFailure(messages.WrongInput, "no")
			f.Details = []byte(mistakes)
			c.Tell(&messages.SubmitJobsResult{Request: m.Request, Failure: f})
			require.JSONEq(t, `{"success": false, "result": `+want+`}`, c.Answer())
		})
	}
}

// An opcode that no process here executes is refused, by lockstep's own call only.
func TestAnOpcodeThatCannotBeExecutedIsRefused(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, c *client) {
		const delay, export = `{"OP_ID": "OP_TEST_DELAY", "duration": 1}`, `{"OP_ID": "OP_GROUP_ADD", "group_name": "g"}`
		c.Call("LockstepSubmitJobs", `[[{"ops": [`+delay+`]}, {"ops": [`+delay+`,`+export+`]}]]`)
		const text = "this daemon cannot execute OP_GROUP_ADD, an opcode of Ganeti"
		require.JSONEq(t, `{"success": false, "result": ["OpPrereqError", ["`+text+`, in opcode 2 of 2, in job 2 of 2", "wrong_input",
			[{"job": 2, "opcode": 2, "text": "`+text+`"}]]]}`, c.Answer())
		b.queue.Quiet()
	})
	onBench(t, func(t *testing.T, b *bench, c *client) {
		c.Call("SubmitJob", `[[{"OP_ID": "OP_GROUP_ADD", "group_name": "g"}]]`)
		kittest.Expect[*messages.SubmitJobs](b.queue)
	})
}

// globs is the most expensive selection.
var globs = func() string {
	list, err := json.Marshal(slices.Repeat([]string{"*" + strings.Repeat("a", 98) + "b"}, 20))
	if err != nil {
		panic(err)
	}
	return `[{"names": ` + string(list) + `}]`
}()

// A list with expensive patterns is made in slices, and ends when its client has gone. The queue is asked for a part of its jobs at a time.
func TestAnExpensiveListEndsWithItsClient(t *testing.T) {
	for _, stays := range []bool{true, false} {
		onBench(t, func(t *testing.T, b *bench, c *client) {
			parts := 0
			b.Panics.Watch(func(_ string, m any) {
				if strings.HasSuffix(fmt.Sprintf("%T", m), ".proceed") {
					if parts++; parts == 5 && !stays {
						c.Send(c.Conn.Server(), &conn.Closed{})
					}
				}
			})
			rows := make([]*messages.JobRow, 20_500)
			for i := range rows {
				rows[i] = &messages.JobRow{Id: int64(i + 1), Info: &messages.JobInfo{}}
			}
			for _, row := range rows[20_000:] {
				row.Info.Name = strings.Repeat("a", 200)
			}
			c.Call("LockstepListJobs", globs)
			first := asked[*messages.ListJobs](c, b.queue)
			require.EqualValues(t, 20_000, first.Limit)
			c.Tell(&messages.ListJobsResult{Request: first.Request, Rows: rows[:20_000]})
			second := asked[*messages.ListJobs](c, b.queue)
			require.EqualValues(t, 20_000, second.Cursor)
			c.Tell(&messages.ListJobsResult{Request: second.Request, Rows: rows[20_000:]})
			if stays {
				require.JSONEq(t, `{"success": true, "result": {"jobs": [], "more": 0, "unread": 0}}`, c.Answer())
				require.Greater(t, parts, 50)
				return
			}
			require.Less(t, parts, 20)
			require.True(t, c.Closed())
		})
	}
}

func TestTooManyPatterns(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, c *client) {
		c.Call("LockstepListJobs", strings.Replace(globs, `["`, `["c*","`, 1))
		require.Contains(t, c.Answer(), "at most 20 patterns")
		b.queue.Quiet()
	})
}

// A list says which of its jobs cannot go on until their output is read.
func TestAListSaysWhoWaitsForAReader(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world, c *client) {
		w.threeJobs()
		w.readers = []*messages.ReaderWait{{Id: 2, SinceUs: 5_000_007}, {Id: 9, SinceUs: 1}}
		_, list := c.list(`{}`)
		require.Len(t, list.Readers, 1)
		require.EqualValues(t, 2, list.Readers[0].Job)
		require.EqualValues(t, 5_000_007, list.Readers[0].Since.UnixMicro())
		require.Equal(t, 1, w.readersAsked)
		_, list = c.list(`{"ids": [1, 3]}`)
		require.Nil(t, list.Readers)
		require.Equal(t, 1, w.readersAsked, "no job of the second list runs")
	})
}

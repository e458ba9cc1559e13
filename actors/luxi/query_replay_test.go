package luxi_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/actors/conn"
	"lockstep/core/job"
)

// exchange is one call to a real server, with its answer.
type exchange struct {
	title    string
	question string
	answer   map[string]any
}

func exchanges(t *testing.T) map[string]exchange {
	data, err := os.ReadFile("testdata/queries.txt")
	require.NoError(t, err)
	all := map[string]exchange{}
	for _, section := range strings.Split(string(data), "\n=== ")[1:] {
		lines := strings.Split(section, "\n")
		e := exchange{title: lines[0], question: strings.TrimPrefix(lines[1], "> ")}
		require.NoError(t, json.Unmarshal([]byte(strings.TrimPrefix(lines[2], "< ")), &e.answer), e.title)
		all[e.title] = e
	}
	return all
}

// list is a list within an answer.
func list(v any) []any { return v.([]any) }

// jobOf builds a job from a row of an answer, so that the same query has the same answer here.
func jobOf(t *testing.T, fields []string, row []any) *job.Job {
	values := map[string]any{}
	for i, name := range fields {
		values[name] = row[i]
	}
	statuses, ok := values["opstatus"].([]any)
	if !ok {
		statuses = []any{values["status"]}
	}
	perOp := func(name string, i int, otherwise any) any {
		if v, ok := values[name].([]any); ok && v[i] != nil {
			return v[i]
		}
		return otherwise
	}
	ops := make([]any, len(statuses))
	for i := range statuses {
		ops[i] = map[string]any{
			"input": perOp("ops", i, map[string]any{"OP_ID": "OP_TEST_JQUEUE"}), "status": statuses[i], "priority": 0,
			"result": perOp("opresult", i, nil), "log": perOp("oplog", i, []any{}),
			"start_timestamp": perOp("opstart", i, nil), "exec_timestamp": perOp("opexec", i, nil), "end_timestamp": perOp("opend", i, nil),
		}
	}
	encoded, err := json.Marshal(map[string]any{"id": values["id"], "ops": ops, "received_timestamp": values["received_ts"],
		"start_timestamp": values["start_ts"], "end_timestamp": values["end_ts"]})
	require.NoError(t, err)
	j, err := job.Decode(encoded)
	require.NoError(t, err)
	return j
}

// addAnswered adds the jobs of the answer to a QueryJobs, but for unknown ones.
func (w *world) addAnswered(t *testing.T, e exchange) {
	var request struct{ Args []json.RawMessage }
	require.NoError(t, json.Unmarshal([]byte(e.question), &request))
	var fields []string
	require.NoError(t, json.Unmarshal(request.Args[1], &fields))
	for _, row := range list(e.answer["result"]) {
		if list(row)[1] != nil {
			w.add(jobOf(t, fields, list(row)))
		}
	}
}

// replayed is the answer of this server to the question.
func (c *client) replayed(e exchange) map[string]any {
	c.Tell(&conn.Received{Frame: []byte(e.question)})
	var answer map[string]any
	require.NoError(c, json.Unmarshal([]byte(c.Answer()), &answer))
	return answer
}

// undocumented removes the descriptions from an answer, because they are free text.
func undocumented(answer map[string]any) map[string]any {
	if result, ok := answer["result"].(map[string]any); ok {
		for _, f := range list(result["fields"]) {
			delete(f.(map[string]any), "doc")
		}
	}
	return answer
}

// With the same jobs, this gateway answers these calls as a real server did.
func TestTheAnswersOfARealServer(t *testing.T) {
	all := exchanges(t)
	rule := list(list(all["QueryFilters all"].answer["result"])[0])
	asStored := func(v any) string { text, _ := json.Marshal(v); return string(text) }
	for _, group := range []struct {
		knows  func(*world)
		titles []string
	}{
		{func(w *world) {
			w.addAnswered(t, all["QueryJobs all"])
			w.addAnswered(t, all["QueryJobs by ids, with unknown and non-numeric"])
		}, []string{"QueryJobs all", "QueryJobs string id", "QueryJobs unknown field", "Query job with filter", "Query job with ? and >",
			"Query job unknown field"}},
		{func(w *world) {
			w.rules = []string{fmt.Sprintf(`{"uuid":%s,"watermark":%s,"priority":%s,"predicates":%s,"action":%s,"reason_trail":%s}`,
				asStored(rule[0]), asStored(rule[1]), asStored(rule[2]), asStored(rule[3]), asStored(rule[4]), asStored(rule[5]))}
		}, []string{"QueryFilters all", "Query filter", "DeleteFilter unknown"}},
		{func(w *world) {}, []string{"Query lock, no locks", "locks after the kill", "QueryFields job", "QueryFields lock", "QueryFields filter",
			"QueryFields job, named", "QueryConfigValues unknown field", "SetWatcherPause", "SetWatcherPause none", "Query node"}},
		{func(w *world) {
			w.locks = `[{"name":"cluster/BGL","mode":"shared","owners":["4966","4967","4968"],"pending":[]},
				{"name":"cluster/[lockset]","owners":[],"pending":[]},
				{"name":"node/0cc05bf1-82ef-4855-817e-293b0390c127","mode":"exclusive","owners":["4966"],
				 "pending":[{"mode":"exclusive","owner":"4967"},{"mode":"exclusive","owner":"4968"}]},
				{"name":"node/[lockset]","owners":[],"pending":[]}]`
		}, []string{"Query lock, owner and pending"}},
		{func(w *world) { w.addAnswered(t, all["QueryJobs running/waiting"]) }, []string{"QueryJobs running/waiting"}},
		{func(w *world) { w.drained = true }, []string{"QueryConfigValues while drained"}},
		{func(w *world) {
			w.addAnswered(t, all["QueryJobs on an archived job"])
			for _, j := range w.jobs {
				w.archive(j)
			}
			clear(w.jobs)
		}, []string{"Query job archived"}},
	} {
		inWorld(t, func(t *testing.T, w *world, c *client) {
			group.knows(w)
			for _, title := range group.titles {
				e, there := all[title]
				require.True(t, there, title)
				require.Equal(t, undocumented(e.answer), undocumented(c.replayed(e)), title)
				require.False(t, c.Closed())
			}
		})
	}
}

// It compares each field of a real job, except the summary, whose number has another format, and the priority, which is
// out of range here.
func TestEveryFieldOfARealJob(t *testing.T) {
	e := exchanges(t)["QueryJobs by ids, with unknown and non-numeric"]
	inWorld(t, func(t *testing.T, w *world, c *client) {
		w.addAnswered(t, e)
		got, want := list(c.replayed(e)["result"]), list(e.answer["result"])
		require.Equal(t, want[1:], got[1:])
		queued := list(want[0])
		queued[2] = float64(0)
		require.Equal(t, queued[:13], list(got[0])[:13])
	})
}

// A query for an unknown kind is an invalid request.
func TestAKindThatIsNotThere(t *testing.T) {
	e := exchanges(t)["Query unknown resource"]
	inWorld(t, func(t *testing.T, w *world, c *client) {
		answer := c.replayed(e)
		require.Equal(t, e.answer["success"], answer["success"])
		require.IsType(t, e.answer["result"], answer["result"])
		require.True(t, strings.HasPrefix(answer["result"].(string), "Failed to parse request: "), answer["result"])
		require.True(t, c.Closed())
	})
}

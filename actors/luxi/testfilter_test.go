package luxi_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/conn"
	"lockstep/actors/filters"
	"lockstep/core/access"
	"lockstep/core/filter"
	"lockstep/core/job"
	"lockstep/messages"
)

// subjectsOf are jobs with a text, as the filter engine hands them out.
func subjectsOf(from, n int, text string) []*filter.Subject {
	var subjects []*filter.Subject
	for id := from; id < from+n; id++ {
		input := json.RawMessage(fmt.Sprintf(`{"OP_ID": "OP_A", "text": %q}`, text))
		subjects = append(subjects, filter.NewSubject(job.New(job.ID(id), []json.RawMessage{input}, []int{0}, job.Timestamp{}, ""), "", access.Submitter{}))
	}
	return subjects
}

func ruleSet(t *testing.T, rules ...filter.Rule) *filter.Set {
	t.Helper()
	set, err := filter.NewSet(rules)
	require.NoError(t, err)
	return set
}

// testRule asks for the preview of a rule, up to the first question to the filter engine.
func (c *core) testRule(predicates string) *filters.TakeJobs {
	c.Helper()
	c.Call("LockstepTestFilter", `[null, 5, `+predicates+`, "PAUSE", []]`)
	c.Tell(&messages.GetSerialResult{Request: asked[*messages.GetSerial](c.client, c.queue).Request, Serial: 2})
	return asked[*filters.TakeJobs](c.client, c.filters)
}

// The connection's actor judges the jobs, by the rules in force and the new one; an earlier rule decides first.
func TestAPreviewOfARule(t *testing.T) {
	withCore(t, func(t *testing.T, c *core) {
		rules := ruleSet(t, filter.Rule{UUID: "first", Predicates: json.RawMessage(`[["jobid", ["=", "id", 4]]]`), Action: filter.Action{Verb: filter.Reject}})
		m := c.testRule(`[["jobid", [">", "id", "watermark"]]]`)
		require.Zero(t, m.After)
		c.Tell(&filters.JobsTaken{Request: m.Request, Rules: rules, Jobs: subjectsOf(1, 3, ""), More: true})
		c.Tell(&filters.JobsTaken{Request: m.Request, Rules: rules, Jobs: subjectsOf(1, 3, ""), More: true}) // repeated
		m = asked[*filters.TakeJobs](c.client, c.filters)
		require.EqualValues(t, 3, m.After)
		c.Tell(&filters.JobsTaken{Request: m.Request, Rules: rules, Jobs: subjectsOf(4, 2, "")})
		states := asked[*messages.ListJobs](c.client, c.queue)
		require.Equal(t, []int64{3, 5}, states.Ids)
		c.Tell(&messages.ListJobsResult{Request: states.Request, Rows: []*messages.JobRow{
			{Id: 3, Info: &messages.JobInfo{Id: 3, Status: int32(job.Queued), Wait: messages.StartWait_FOR_JOBS}}, {Id: 5, Unknown: true}}})
		require.JSONEq(t, `{"count": 2, "jobs": [3, 5], "unfinished": 5, "states": {"waiting": 1}}`, c.succeeded())
		c.filters.Quiet()
	})
}

func TestAPreviewOfABadRule(t *testing.T) {
	withCore(t, func(t *testing.T, c *core) {
		c.Call("LockstepTestFilter", `["x", 5, [], "PAUSE", []]`)
		_, text := c.failed()
		require.Contains(t, text, "Unable to parse UUID")
		require.False(t, c.Closed())
		c.Call("LockstepTestFilter", `[null, 5, [["opcode", ["=~", "a", "`+strings.Repeat("a{999}", 11)+`"]]], "PAUSE", []]`)
		_, text = c.failed()
		require.Contains(t, text, "too complex: all patterns together may have 10000 instructions")
		require.True(t, c.Closed())
	})
}

// expensiveRule costs about 40 slices for the jobs of judgeMany.
const expensiveRule = `[["opcode", ["=~", "text", "(a|aa){200}b"]]]`

// A preview is made in slices, and ends when its client has gone.
func TestAPreviewEndsWithItsClient(t *testing.T) {
	for _, stays := range []bool{true, false} {
		withCore(t, func(t *testing.T, c *core) {
			slices := 0
			c.Panics.Watch(func(_ string, m any) {
				if strings.HasSuffix(fmt.Sprintf("%T", m), ".proceed") {
					if slices++; slices == 5 && !stays {
						c.Send(c.Conn.Server(), &conn.Closed{})
					}
				}
			})
			m := c.testRule(expensiveRule)
			c.Tell(&filters.JobsTaken{Request: m.Request, Rules: ruleSet(t), Jobs: subjectsOf(1, 100, strings.Repeat("a", 200))})
			c.Settle()
			if stays {
				require.JSONEq(t, `{"count": 0, "jobs": [], "unfinished": 100, "states": {}}`, c.succeeded())
				require.Greater(t, slices, 20)
				return
			}
			require.Less(t, slices, 10)
			require.True(t, c.Closed())
		})
	}
}

// A preview that takes too long fails with what to do.
func TestAPreviewThatTakesTooLong(t *testing.T) {
	withCore(t, func(t *testing.T, c *core) {
		slices := 0
		c.Panics.Watch(func(_ string, m any) {
			if strings.HasSuffix(fmt.Sprintf("%T", m), ".proceed") {
				if slices++; slices == 5 {
					c.Clock.Advance(time.Minute)
				}
			}
		})
		m := c.testRule(expensiveRule)
		c.Tell(&filters.JobsTaken{Request: m.Request, Rules: ruleSet(t), Jobs: subjectsOf(1, 100, strings.Repeat("a", 200))})
		_, text := c.failed()
		require.Equal(t, "LockstepTestFilter takes longer than 60 s: ask with simpler patterns, or about fewer jobs", text)
	})
}

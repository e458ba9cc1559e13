package job

import (
	"encoding/json"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lockstep/core/rawjson"
)

func withStatuses(statuses ...Status) *Job {
	j := &Job{ID: 7}
	for i, status := range statuses {
		j.Ops = append(j.Ops, Op{Input: json.RawMessage(`{}`), Status: status, Priority: i})
	}
	return j
}

func TestStatusNames(t *testing.T) {
	names := []string{"queued", "waiting", "canceling", "running", "canceled", "success", "error"}
	for i, name := range names {
		status, ok := ParseStatus(name)
		require.True(t, ok)
		require.Equal(t, Status(i), status)
		require.Equal(t, name, status.String())
		require.Equal(t, i >= 4, status.Final())
	}
	for _, name := range []string{"", "Queued", "cancelled", "Status(7)"} {
		_, ok := ParseStatus(name)
		require.False(t, ok, name)
	}
	require.Equal(t, "Status(7)", Status(7).String())
}

// queue.md 4.2.
func TestStatus(t *testing.T) {
	for _, c := range []struct {
		ops  []Status
		want Status
	}{
		{nil, Success},
		{[]Status{Queued}, Queued},
		{[]Status{Waiting}, Waiting},
		{[]Status{Canceling}, Canceling},
		{[]Status{Running}, Running},
		{[]Status{Canceled}, Canceled},
		{[]Status{Success}, Success},
		{[]Status{Error}, Error},
		{[]Status{Success, Success}, Success},
		{[]Status{Success, Queued}, Queued}, // between two opcodes of a job
		{[]Status{Success, Waiting, Queued}, Waiting},
		{[]Status{Success, Running, Queued}, Running},
		{[]Status{Running, Waiting}, Waiting}, // the last opcode counts; no process writes this
		{[]Status{Success, Error, Error}, Error},
		{[]Status{Canceling, Queued}, Canceling},
		{[]Status{Success, Canceled, Canceled}, Canceled},
		{[]Status{Queued, Error}, Error},
		{[]Status{Canceled, Error}, Canceled}, // the first canceled opcode decides
		{[]Status{Error, Canceled}, Error},
	} {
		require.Equal(t, c.want, withStatuses(c.ops...).Status(), "%v", c.ops)
	}
}

func TestStatusCaptured(t *testing.T) {
	files := captured(t)
	for name, want := range map[string]Status{
		"job-4944.success.json":                           Success,
		"job-4946.error-second-of-three.json":             Waiting, // the status when it was captured
		"job-4947.error-prereq.json":                      Error,
		"job-4949.depends-pending.json":                   Queued,
		"job-4962.error-bad-priority-death-detected.json": Error,
		"job-4963.canceled-while-queued.json":             Canceled,
		"job-4966.running.json":                           Running,
		"job-4967.waiting.json":                           Waiting,
		"job-4968.canceled-while-waiting.json":            Canceled,
	} {
		j, err := Decode(files[name])
		require.NoError(t, err)
		require.Equal(t, want, j.Status(), name)
	}
	j, err := Decode(files["job-4964.queued-low-priority.json"])
	require.NoError(t, err)
	require.Equal(t, 10, j.Priority())
}

func TestPriority(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		j := genJob().Draw(t, "job")
		var open []int
		for _, op := range j.Ops {
			if !slices.Contains([]Status{Canceled, Success, Error}, op.Status) {
				open = append(open, op.Priority)
			}
		}
		want := 0
		if len(open) > 0 {
			want = slices.Min(open)
		}
		require.Equal(t, want, j.Priority())
	})
}

func TestLog(t *testing.T) {
	j := withStatuses(Running, Queued)
	require.Zero(t, j.LastSerial())
	require.Nil(t, j.LogAfter(0))
	at := Timestamp{100, 5}
	first := j.AppendLog(0, at, "message", rawjson.Quote("a"))
	require.Equal(t, LogEntry{Serial: 1, Time: at, Type: "message", Payload: json.RawMessage(`"a"`)}, first)
	second := j.AppendLog(1, at, "delay-test", nil)
	third := j.AppendLog(0, at, "message", rawjson.Quote("b"))
	require.Equal(t, int64(3), j.LastSerial())
	require.Equal(t, []LogEntry{first, third, second}, j.LogAfter(0))
	require.Equal(t, []LogEntry{third}, j.LogAfter(2))
	require.Nil(t, j.LogAfter(3))
}

func TestTimestamp(t *testing.T) {
	require.Equal(t, Timestamp{1795175118, 275526}, TimestampOf(time.Unix(1795175118, 275526999)))
	require.True(t, TimestampOf(time.Time{}).IsZero())
	require.True(t, Timestamp{}.Time().IsZero())
	require.Equal(t, int64(1795175118275526000), Timestamp{1795175118, 275526}.Nanos())
	require.Positive(t, Timestamp{secMax, 999_999}.Nanos())
	require.Equal(t, int64(secMax), math.MaxInt64/int64(time.Second)-1)
	rapid.Check(t, func(t *rapid.T) {
		a, b := genTimestamp().Draw(t, "a"), genTimestamp().Draw(t, "b")
		require.Equal(t, a, TimestampOf(a.Time()))
		require.Equal(t, a.Nanos() < b.Nanos(), a.Before(b))
		require.Equal(t, a.Before(b), a.Compare(b) < 0)
		require.Equal(t, a == b, a.Compare(b) == 0)
		require.Equal(t, b.Before(a), a.Compare(b) > 0)
	})
}

// Changes of a clone do not change the original.
func TestClone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		j := genJob().Draw(t, "job")
		before := Encode(j)
		c := j.Clone()
		require.Equal(t, j, c)
		text := func(int) string { return "x" }
		for i := range c.Ops {
			for k := range c.Ops[i].Log {
				c.Ops[i].Log[k] = LogEntry{Serial: 1}
			}
			c.AppendLog(i, Timestamp{1, 1}, "message", nil)
		}
		c.AppendReason(text, text, Timestamp{1, 1})
		c.FailUnfinished(rawjson.Quote("x"), Timestamp{1, 1})
		for i := range c.Ops {
			c.Ops[i] = Op{}
		}
		c.Ops = append(c.Ops, Op{})
		require.Equal(t, before, Encode(j))
	})
}

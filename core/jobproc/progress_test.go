package jobproc

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lockstep/core/progress"
)

// runningRig is a job whose first opcode executes and whose daemon has all reports.
func runningRig(t require.TestingT, ops int) *rig {
	r := newRig(t, ops)
	r.tick()
	r.disk(nil)
	r.answer(ReportLine, "null", nil)
	require.True(t, r.executing)
	return r
}

func (r *rig) progressed(op int, line string) {
	l, ok := progress.Parse(line)
	require.True(r.t, ok)
	r.do(r.p.Progressed(r.now, op, l))
}

// condition is that of the report under way.
func (r *rig) condition() *Condition {
	args := r.calls[ReportLine].Args
	if len(args) < 4 {
		return nil
	}
	return args[3].(*Condition)
}

// The daemon hears of the first line at once, then of the latest one twice a second at most. It need not read the file, and nothing is
// written.
func TestProgressIsReported(t *testing.T) {
	r := runningRig(t, 1)
	began := r.p.Job().Ops[0].Exec
	since := began.Sec*1e6 + began.Usec
	r.progressed(0, "1 first")
	require.Equal(t, json.RawMessage("null"), r.calls[ReportLine].Args[2])
	require.Equal(t, &Condition{
		Progress:  &Progress{Line: progress.Line{Percent: 1, Text: "first"}, SinceUS: since, UpdatedUS: r.now.UnixMicro()},
		Unchanged: true,
	}, r.condition())
	r.answer(ReportLine, "null", nil)

	r.now = r.now.Add(progress.Pause / 2)
	r.progressed(0, "2 second")
	r.progressed(0, "3 third")
	require.Empty(t, r.calls)
	require.Equal(t, progress.Pause/2, r.tick())
	require.Equal(t, progress.Line{Percent: 3, Text: "third"}, r.condition().Progress.Line)
	r.answer(ReportLine, "null", nil)

	require.Equal(t, reminderPause, r.tick(), "another daemon may have come")
	require.Equal(t, progress.Line{Percent: 3, Text: "third"}, r.condition().Progress.Line)
	r.answer(ReportLine, "null", nil)

	r.progressed(0, "-")
	require.Equal(t, &Condition{Unchanged: true}, r.condition(), "it is taken back")
	r.answer(ReportLine, "null", nil)
	require.Zero(t, r.p.Deadline())
	require.Len(t, r.written, 1)
}

// Progress belongs to the opcode whose command says it: the end of the opcode ends it, also if it was not reported yet.
func TestProgressEndsWithItsOpcode(t *testing.T) {
	r := runningRig(t, 2)
	r.progressed(0, "50 half")
	r.answer(ReportLine, "null", nil)
	r.progressed(0, "99 almost")
	r.executed(Outcome{})
	r.progressed(0, "100 too late")
	r.disk(nil)
	require.Nil(t, r.condition(), "the report of the end has no progress")
	r.answer(ReportLine, "null", nil)
	r.progressed(0, "100 too late")
	r.answer(PermissionLine, "null", nil)
	r.tick()
	r.disk(nil)
	require.True(t, r.executing)
	require.Nil(t, r.condition())
	r.answer(ReportLine, "null", nil)
	r.progressed(0, "100 of the first opcode")
	require.Empty(t, r.calls)
	r.progressed(1, "1 of the second opcode")
	r.tick()
	require.Equal(t, "of the second opcode", r.condition().Progress.Text)
}

// Whatever a command says, and whatever becomes of the reports, there are at most two reports a second beside their repetitions, and the
// last line arrives.
func TestProgressIsReportedTwiceASecond(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := runningRig(t, 1)
		var last progress.Line
		var news []time.Time // when a report first had a line
		heard := map[int64]bool{}
		look := func() {
			if c := r.condition(); c != nil && c.Progress != nil && !heard[int64(c.Progress.Percent)] {
				heard[int64(c.Progress.Percent)] = true
				news = append(news, r.now)
			}
		}
		for i := range rapid.IntRange(1, 60).Draw(t, "lines") {
			last = progress.Line{Percent: float64(i), Text: "x"}
			r.do(r.p.Progressed(r.now, 0, last))
			look()
			pause := time.Duration(rapid.IntRange(0, 400).Draw(t, "pause")) * time.Millisecond
			for until := r.now.Add(pause); ; look() {
				if _, under := r.calls[ReportLine]; under && rapid.Bool().Draw(t, "answered") {
					r.answer(ReportLine, "null", rapid.SampledFrom([]error{nil, errAway}).Draw(t, "error"))
					continue
				}
				deadline := r.p.Deadline()
				if deadline.IsZero() || deadline.After(until) {
					r.now = until
					break
				}
				r.tick()
			}
		}
		for range 10 {
			if _, under := r.calls[ReportLine]; under {
				if c := r.condition(); c != nil && c.Progress.Line == last {
					break
				}
				r.answer(ReportLine, "null", nil)
				continue
			}
			r.tick()
			look()
		}
		require.Equal(t, last, r.p.reports.condition.Progress.Line)
		for i := 1; i < len(news); i++ {
			require.GreaterOrEqual(t, news[i].Sub(news[i-1]), progress.Pause)
		}
	})
}

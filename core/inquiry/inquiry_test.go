package inquiry

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lockstep/core/noded"
)

var start = time.Unix(1_000_000, 0)

func ask(node int, body string) Question {
	return Question{noded.Node{Name: fmt.Sprint("n", node), Address: fmt.Sprint("192.0.2.", node)}, noded.Request{Procedure: noded.NodeInfo, Body: []byte(body)}}
}

// Questions that are asked before a call is sent share it. A later question makes another call, because the node may have looked
// already.
func TestSharing(t *testing.T) {
	tr := New(30)
	tr.Ask(start, 1, []Question{ask(1, "a"), ask(2, "a"), ask(1, "b"), ask(1, "a")})
	tr.Ask(start, 2, []Question{ask(1, "a")})
	d := tr.Next(start)
	require.Len(t, d.Starts, 3)
	tr.Ask(start, 3, []Question{ask(1, "a")})
	require.Empty(t, tr.Next(start).Starts)
	require.Equal(t, []uint64{1, 2, 3}, tr.Unsent())
	tr.Sent(1)
	require.Equal(t, []uint64{2, 3}, tr.Unsent())
	tr.Ask(start, 4, []Question{ask(1, "a")})
	later := tr.Next(start)
	require.Len(t, later.Starts, 1)
	tr.Sent(99) // unknown

	require.Equal(t, Report{Asked: true}, tr.Done(1, Answer{Value: "x"}, false))
	d = tr.Next(start)
	require.Equal(t, []Ended{{2, []Answer{{Value: "x"}}}, {3, []Answer{{Value: "x"}}}}, d.Ended)
	tr.Done(later.Starts[0].Call, Answer{Value: "y"}, false)
	require.Equal(t, []Ended{{4, []Answer{{Value: "y"}}}}, tr.Next(start).Ended)
	broken := errors.New("broken")
	require.Equal(t, Report{Asked: true, New: true}, tr.Done(2, Answer{Err: broken}, false))
	tr.Done(3, Answer{Value: "z"}, false)
	require.Equal(t, []Ended{{1, []Answer{{Value: "x"}, {Err: broken}, {Value: "z"}, {Value: "x"}}}}, tr.Next(start).Ended)
	tr.Ask(start, 5, nil)
	require.Equal(t, []Ended{{5, []Answer{}}}, tr.Next(start).Ended)
}

// The log hears of a cause once, and of the end of the failures.
func TestReports(t *testing.T) {
	tr := New(1)
	call := uint64(0)
	fails := func(err error) Report {
		call++
		tr.Ask(start, call, []Question{ask(1, "a")})
		tr.Next(start)
		r := tr.Done(call, Answer{Err: err}, false)
		tr.Next(start)
		return r
	}
	require.Equal(t, Report{Asked: true, New: true}, fails(errors.New("a")))
	require.Equal(t, Report{Asked: true}, fails(errors.New("a")))
	require.Equal(t, Report{Asked: true, New: true}, fails(errors.New("b")))
	require.Equal(t, Report{Asked: true, Recovered: true}, fails(nil))
	require.Equal(t, Report{Asked: true}, fails(nil))
	require.Equal(t, Report{}, tr.Done(call, Answer{}, false), "it has ended")
}

// Calls beyond the places wait. Silent nodes lose their places when others wait, and are asked last from then on.
func TestSilentNodesLoseTheirPlaces(t *testing.T) {
	tr := New(2)
	tr.Ask(start, 1, []Question{ask(1, "a"), ask(2, "a"), ask(3, "a")})
	d := tr.Next(start)
	require.Equal(t, []Start{{1, ask(1, "a")}, {2, ask(2, "a")}}, d.Starts)
	require.Equal(t, start.Add(PlaceMax), d.Wake)
	now := d.Wake
	d = tr.Next(now)
	require.Equal(t, []uint64{1}, d.GiveUp)
	require.Equal(t, []Late{{ask(1, "a"), ErrGivenUp, Report{Asked: true, New: true}}}, d.Late)
	require.Equal(t, []Start{{3, ask(3, "a")}}, d.Starts)
	require.Equal(t, start.Add(AnswerMax), d.Wake, "none waits for a place")
	require.Equal(t, Report{}, tr.Done(1, Answer{Value: "too late"}, false))
	tr.Done(3, Answer{Value: "c"}, false)
	require.Empty(t, tr.Next(now).Ended)

	d = tr.Next(start.Add(AnswerMax))
	require.Equal(t, []Ended{{1, []Answer{{Err: ErrGivenUp}, {Err: ErrLate}, {Value: "c"}}}}, d.Ended)
	require.Equal(t, []Late{{ask(2, "a"), ErrLate, Report{Asked: true, New: true}}}, d.Late)
	require.Empty(t, d.GiveUp, "it may end by itself")
	require.Equal(t, Report{}, tr.Done(2, Answer{Err: ErrLate}, true))
	tr.Ask(now, 2, []Question{ask(1, "a"), ask(2, "a"), ask(3, "a"), ask(4, "a")})
	d = tr.Next(now)
	require.Equal(t, []string{"n3", "n4"}, []string{d.Starts[0].Question.Node.Name, d.Starts[1].Question.Node.Name})
}

// Whatever happens, no more calls than places are in progress, an inquiry ends once, with an answer for each question, and at the latest
// after AnswerMax if Next is called at its times.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		places := rapid.IntRange(1, 4).Draw(t, "places")
		tr, now := New(places), start
		running := map[uint64]Question{}
		open := map[uint64][]Question{}
		since := map[uint64]time.Time{}
		last := uint64(0)
		wake := time.Time{}
		next := func() {
			d := tr.Next(now)
			for _, id := range d.GiveUp {
				require.Contains(t, running, id)
				delete(running, id)
			}
			for _, s := range d.Starts {
				running[s.Call] = s.Question
			}
			require.LessOrEqual(t, len(running), places)
			for _, e := range d.Ended {
				require.Len(t, e.Answers, len(open[e.Inquiry]))
				for i, a := range e.Answers {
					require.True(t, (a.Err == nil) != (a.Value == nil))
					if a.Err == nil {
						require.Equal(t, open[e.Inquiry][i], a.Value)
					}
				}
				require.Contains(t, open, e.Inquiry)
				delete(open, e.Inquiry)
			}
			for id := range open {
				require.Less(t, now.Sub(since[id]), AnswerMax)
			}
			wake = d.Wake
			require.Equal(t, len(open) > 0, !wake.IsZero() || len(open) > 0)
			require.True(t, wake.IsZero() || wake.After(now))
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			var ids []uint64
			for id := range running {
				ids = append(ids, id)
			}
			slices.Sort(ids)
			switch rapid.IntRange(0, 3).Draw(t, "event") {
			case 0:
				last++
				for range rapid.IntRange(0, 5).Draw(t, "questions") {
					open[last] = append(open[last], ask(rapid.IntRange(1, 6).Draw(t, "node"), rapid.SampledFrom([]string{"a", "b"}).Draw(t, "body")))
				}
				if open[last] == nil {
					open[last] = []Question{}
				}
				since[last] = now
				tr.Ask(now, last, open[last])
			case 1:
				if len(ids) > 0 {
					tr.Sent(rapid.SampledFrom(ids).Draw(t, "sent"))
				}
			case 2:
				if len(ids) > 0 {
					id := rapid.SampledFrom(ids).Draw(t, "done")
					tr.Done(id, Answer{Value: running[id]}, false)
					delete(running, id)
				}
			case 3:
				to := now.Add(time.Duration(rapid.IntRange(1, 20).Draw(t, "seconds")) * time.Second)
				for !wake.IsZero() && !wake.After(to) {
					now = wake
					next()
				}
				now = to
			}
			next()
		}
	})
}

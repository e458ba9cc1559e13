package report

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/lock"
	"lockstep/sim/longtest"
	"lockstep/sim/study"
)

// steady makes so many jobs in each slot, one after the other.
func steady(jobs, slots int) []study.JobTiming {
	all := make([]study.JobTiming, jobs)
	for i := range all {
		at := time.Duration(i/slots) * time.Minute
		all[i] = study.JobTiming{ID: int64(i + 1), Kind: "power", Submitted: 0, Chosen: at, Ended: at + time.Minute,
			Ops: []study.OpTiming{{Permitted: at, Began: at, Ended: at + time.Minute}}}
	}
	return all
}

func reportOf(predictive, plain []study.JobTiming) Report {
	kinds := []study.KindWait{{Kind: "power", Jobs: len(plain)}}
	return Report{Options: study.CompareOptions{MixOptions: study.MixOptions{Jobs: len(plain)}},
		Comparison: study.Comparison{Expected: &study.Outcome{Timings: predictive, Kinds: kinds}, Plain: &study.Outcome{Timings: plain, Kinds: kinds}}}
}

func TestWhatIsTooMuchIsLeftOutAndSaid(t *testing.T) {
	longtest.Skip(t)
	for _, slots := range []int{20, 500, 10_000} {
		jobs := steady(100_000, slots)
		text := written(t, reportOf(jobs, jobs))
		require.Less(t, len(text), 4_000_000)
		page := parsed(t, text)
		for _, chart := range page.find("figure", "gantt") {
			bars := chart.find("g", "k0")
			require.LessOrEqual(t, len(bars), maxJobs)
			require.Len(t, chart.find("g", "bars"), min(slots, maxRows))
		}
		if slots > maxRows {
			require.Contains(t, text, "run slots are drawn")
		}
		if slots < 1000 {
			require.Contains(t, text, "100000 jobs are too many to draw")
		}
		require.NotContains(t, text, "all done after 83 h", "the end is not in the chart")
	}
}

func TestFewJobsAreAllDrawn(t *testing.T) {
	jobs := steady(40, 4)
	text := written(t, reportOf(jobs, jobs))
	require.NotContains(t, text, "too many to draw")
	require.Contains(t, text, "all done after 10 min")
}

func minutes(from, to int) span {
	return span{time.Duration(from) * time.Minute, time.Duration(to) * time.Minute}
}

func TestSpans(t *testing.T) {
	all := []span{minutes(5, 9), minutes(1, 3), minutes(2, 4), minutes(9, 10), minutes(7, 7)}
	require.Equal(t, []span{minutes(1, 4), minutes(5, 10)}, union(all))
	require.Equal(t, []span{minutes(3, 4), minutes(5, 6)}, overlap(minutes(3, 6), union(all)))
	require.Empty(t, overlap(minutes(4, 5), union(all)))
	require.Equal(t, []level{{minutes(1, 2), 1}, {minutes(2, 3), 2}, {minutes(3, 4), 1}}, levels(all[1:3]))
}

// A wait counts for the locks that another job holds at that time, if one of the two modes
// is exclusive. The group lock of a level counts with all its members.
func TestWaitsForLocks(t *testing.T) {
	n1, n2, nodes := lock.Member(lock.Node, "n1"), lock.Member(lock.Node, "n2"), lock.Group(lock.Node)
	op := func(permitted, began, ended int, mode lock.Mode, locks ...lock.Lock) study.JobTiming {
		o := study.OpTiming{Permitted: minutes(permitted, 0).from, Began: minutes(began, 0).from, Ended: minutes(ended, 0).from}
		for _, l := range locks {
			o.Locks = append(o.Locks, lock.Item{Lock: l, Mode: mode})
		}
		return study.JobTiming{Ops: []study.OpTiming{o}}
	}
	usages := usagesOf(order{jobs: []study.JobTiming{
		op(0, 0, 10, lock.Exclusive, n1),
		op(2, 10, 12, lock.Exclusive, n1, n2), // n2 is always free
		op(5, 12, 20, lock.Shared, nodes),     // n1, later n1 and n2, exclude it
		op(13, 13, 15, lock.Shared, n1),       // does not exclude it
		op(14, 20, 21, lock.Exclusive, n2),    // excludes it
	}}, minutes(0, 30))
	require.Equal(t, 8*time.Minute, total(usages[n1].blocked))
	require.Equal(t, 6*time.Minute, total(usages[n2].blocked))
	require.Equal(t, 7*time.Minute, total(usages[nodes].blocked))
}

func TestTicksAreRound(t *testing.T) {
	for _, c := range []struct {
		length time.Duration
		last   string
		n      int
	}{{7 * time.Second, "7 s", 8}, {50 * time.Minute, "50 min", 11}, {58 * time.Hour, "54 h", 10}, {100 * 24 * time.Hour, "96 d", 13}} {
		ticks := timeScale{span{time.Minute, time.Minute + c.length}}.ticks()
		require.Equal(t, "0", ticks[0].Label)
		require.Equal(t, c.last, ticks[len(ticks)-1].Label)
		require.Len(t, ticks, c.n)
	}
}

func TestCountsAreRound(t *testing.T) {
	for most, labels := range map[float64][]string{
		0: {"0", "1"}, 1: {"0", "1"}, 7.5: {"0", "2", "4", "6", "8"}, 20.0000000001: {"0", "5", "10", "15", "20"}, 41_000: {"0", "10k", "20k", "30k", "40k", "50k"},
	} {
		ticks, y := countTicks(most, 10, 110)
		var got []string
		for _, tick := range ticks {
			got = append(got, tick.Label)
		}
		require.Equal(t, labels, got)
		require.EqualValues(t, 110, y(0))
		require.EqualValues(t, 10, ticks[len(ticks)-1].At)
	}
}

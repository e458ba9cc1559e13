package usage

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lockstep/core/job"
)

// drawJob is any job of a few names, users and opcodes.
func drawJob(t *rapid.T) Job {
	j := Job{
		Name:    rapid.SampledFrom([]string{"", "nightly", "backup", "once"}).Draw(t, "name"),
		User:    rapid.SampledFrom([]string{"root", "alice"}).Draw(t, "user"),
		Status:  rapid.SampledFrom([]string{"queued", "running", "success", "error", "canceled"}).Draw(t, "status"),
		ReadyUS: rapid.Int64Range(1, 1e12).Draw(t, "ready"),
	}
	now := j.ReadyUS
	for range rapid.IntRange(0, 3).Draw(t, "opcodes") {
		o := Op{ID: rapid.SampledFrom([]string{"OP_RUN_COMMAND", "OP_TEST_DELAY"}).Draw(t, "opcode"), Failed: rapid.Bool().Draw(t, "failed")}
		if rapid.Bool().Draw(t, "begun") {
			now += rapid.Int64Range(-10, 1e10).Draw(t, "wait")
			o.BeganUS = max(1, now)
			if rapid.Bool().Draw(t, "ended") {
				now += rapid.Int64Range(0, 1e10).Draw(t, "run")
				o.EndedUS = max(1, now)
			}
		}
		if rapid.Bool().Draw(t, "measured") {
			o.Usage = &job.Usage{CPUSeconds: rapid.Float64Range(0, 1e6).Draw(t, "cpu"), MemoryPeakBytes: rapid.Int64Range(0, 1<<40).Draw(t, "memory")}
		}
		j.Ops = append(j.Ops, o)
	}
	return j
}

// naive is a group with all values, of which the quantiles are looked up in the sorted list.
type naive struct {
	jobs, failures, measured int
	cpu                      float64
	wait, run, memory        []float64
}

// take adds a row: what the documentation says of a job, or of an opcode.
func (n *naive) take(failed bool, ready, began, ended int64, used []*job.Usage) {
	n.jobs++
	if failed {
		n.failures++
	}
	if began > 0 {
		n.wait = append(n.wait, math.Max(0, float64(began-ready)/1e6))
		if ended > 0 {
			n.run = append(n.run, math.Max(0, float64(ended-began)/1e6))
		}
	}
	peak := int64(0)
	for _, u := range used {
		n.cpu += u.CPUSeconds
		peak = max(peak, u.MemoryPeakBytes)
	}
	if len(used) > 0 {
		n.measured++
	}
	if peak > 0 {
		n.memory = append(n.memory, float64(peak))
	}
}

func naively(by By, jobs []Job) map[string]*naive {
	groups := map[string]*naive{}
	group := func(name string) *naive {
		if groups[name] == nil {
			groups[name] = &naive{}
		}
		return groups[name]
	}
	for _, j := range jobs {
		var used []*job.Usage
		began, ended, before := int64(0), int64(0), j.ReadyUS
		for i, o := range j.Ops {
			var own []*job.Usage
			if o.Usage != nil {
				own = []*job.Usage{o.Usage}
			}
			if by == ByOpcode && (i == 0 || o.BeganUS > 0) {
				group(o.ID).take(o.Failed, before, o.BeganUS, o.EndedUS, own)
			}
			if i == 0 {
				began = o.BeganUS
			}
			if o.BeganUS > 0 && slices.Contains([]string{"success", "error", "canceled"}, j.Status) {
				ended = max(ended, o.EndedUS)
			}
			before, used = o.EndedUS, append(used, own...)
		}
		switch by {
		case ByName:
			group(j.Name).take(j.Status == "error", j.ReadyUS, began, ended, used)
		case ByUser:
			group(j.User).take(j.Status == "error", j.ReadyUS, began, ended, used)
		}
	}
	return groups
}

// requireQuantiles compares with the list of all values: the largest is exact, the others are exact to 1 %.
func requireQuantiles(t require.TestingT, values []float64, got *Quantiles) {
	if len(values) == 0 {
		require.Nil(t, got)
		return
	}
	slices.Sort(values)
	require.InDelta(t, values[len(values)-1], got.Max, 1e-6*got.Max)
	for share, value := range map[float64]float64{0.5: got.Median, 0.9: got.P90} {
		want := values[int(math.Ceil(share*float64(len(values))))-1]
		require.InDelta(t, want, value, 0.0101*want+1e-6, "%v of %v", share, values)
	}
}

func requireGroup(t require.TestingT, want *naive, got Group) {
	require.Equal(t, []int{want.jobs, want.failures, want.measured}, []int{got.Jobs, got.Failures, got.Measured}, got.Name)
	require.InDelta(t, want.cpu, got.CPU, 1e-9*want.cpu)
	requireQuantiles(t, want.wait, got.Wait)
	requireQuantiles(t, want.run, got.Run)
	requireQuantiles(t, want.memory, got.Memory)
}

func TestASummaryIsThatOfAllValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		jobs := rapid.SliceOfN(rapid.Custom(drawJob), 0, 60).Draw(t, "jobs")
		by := rapid.SampledFrom(Bys).Draw(t, "by")
		s := NewSummary(by)
		for _, j := range jobs {
			s.Add(j)
		}
		want := naively(by, jobs)
		groups, others := s.Groups(0)
		require.Nil(t, others)
		require.Len(t, groups, len(want))
		for _, g := range groups {
			require.Contains(t, want, g.Name)
			requireGroup(t, want[g.Name], g)
		}
		require.True(t, slices.IsSortedFunc(groups, func(a, b Group) int { return cmp.Compare(b.Jobs, a.Jobs) }))
	})
}

// A limit puts the jobs of all other groups together, as if they had one name.
func TestTheOthersAreOneGroup(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		jobs := rapid.SliceOfN(rapid.Custom(drawJob), 1, 60).Draw(t, "jobs")
		s := NewSummary(ByName)
		for _, j := range jobs {
			s.Add(j)
		}
		groups, others := s.Groups(1)
		require.Len(t, groups, 1)
		for i := range jobs {
			if jobs[i].Name != groups[0].Name {
				jobs[i].Name = "others"
			}
		}
		want := naively(ByName, jobs)
		requireGroup(t, want[groups[0].Name], groups[0])
		if want["others"] == nil {
			require.Nil(t, others)
		} else {
			requireGroup(t, want["others"], *others)
		}
	})
}

// The memory of a summary is bounded: what comes after the first names is together, and those names have all of their jobs.
func TestNamesBeyondTheFirstAreTogether(t *testing.T) {
	s := NewSummary(ByName)
	for i := range 3 * distinctMax {
		s.Add(Job{Name: fmt.Sprint("job-", i), Status: "success"})
		s.Add(Job{Name: "job-0", Status: "error"})
	}
	groups, others := s.Groups(0)
	require.Len(t, groups, distinctMax)
	require.Equal(t, Group{Name: "job-0", Jobs: 3*distinctMax + 1, Failures: 3 * distinctMax}, groups[0])
	require.Equal(t, &Group{Jobs: 2 * distinctMax}, others)
	require.Len(t, s.groups, distinctMax)
}

// Whatever is added, a distribution has at most so many classes as there are between the smallest and the largest of its values.
func TestADistributionIsSmall(t *testing.T) {
	var d distribution
	for i := range 100_000 {
		d.add(math.Exp2(float64(i%63) + float64(i)/100_000))
	}
	require.LessOrEqual(t, len(d.classes), 2300)
}

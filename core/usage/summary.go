package usage

import (
	"cmp"
	"slices"

	"lockstep/core/job"
)

// By is what jobs are grouped by.
type By string

// What jobs may be grouped by.
const (
	ByName   By = "name"
	ByUser   By = "user"
	ByOpcode By = "opcode"
)

// Bys are all of them.
var Bys = []By{ByName, ByUser, ByOpcode}

// distinctMax is how many names, users or opcodes a summary tells apart.
const distinctMax = 1000

// Group is what the jobs of a name, user or opcode have used. Quantiles are nil if no job has the value.
type Group struct {
	Name     string     `json:"name"` // or the user, or the opcode; "" for jobs without one
	Jobs     int        `json:"jobs"` // or opcodes
	Failures int        `json:"failures"`
	Wait     *Quantiles `json:"wait_seconds"`
	Run      *Quantiles `json:"run_seconds"`
	Measured int        `json:"measured"` // jobs of which it is known what they have used
	CPU      float64    `json:"cpu_seconds"`
	Memory   *Quantiles `json:"memory_peak_bytes"`
}

// Summary groups jobs. It keeps no job: its memory is bounded whatever the number of jobs and names. The first 1,000 names, as the jobs
// come, have a group that has all of their jobs; the jobs of all other names are together.
type Summary struct {
	by     By
	groups map[string]*sums
	others sums
}

// NewSummary is an empty summary.
func NewSummary(by By) *Summary { return &Summary{by: by, groups: map[string]*sums{}} }

// Add adds a job. By opcode each opcode of the job counts that has begun, and the first one in any case.
func (s *Summary) Add(j Job) {
	switch s.by {
	case ByOpcode:
		ready := j.ReadyUS
		for i := range j.Ops {
			op := &j.Ops[i]
			if i == 0 || op.BeganUS > 0 {
				s.of(op.ID).add(item{op.Failed, ready, op.BeganUS, op.EndedUS, op.Usage})
			}
			ready = op.EndedUS
		}
	case ByUser:
		s.of(j.User).add(j.whole())
	default:
		s.of(j.Name).add(j.whole())
	}
}

// of is the group of a name.
func (s *Summary) of(name string) *sums {
	group, known := s.groups[name]
	switch {
	case known:
		return group
	case len(s.groups) >= distinctMax:
		return &s.others
	}
	group = &sums{}
	s.groups[name] = group
	return group
}

// Groups are the groups with the most jobs, in this order, at most so many (0: all), and the jobs of all others together; nil: there are
// none.
func (s *Summary) Groups(most int) (groups []Group, others *Group) {
	names := make([]string, 0, len(s.groups))
	for name := range s.groups {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(s.groups[b].jobs, s.groups[a].jobs), cmp.Compare(a, b))
	})
	if most == 0 || most > len(names) {
		most = len(names)
	}
	groups = make([]Group, most)
	for i, name := range names[:most] {
		groups[i] = s.groups[name].group(name)
	}
	rest := sums{}
	rest.merge(&s.others)
	for _, name := range names[most:] {
		rest.merge(s.groups[name])
	}
	if rest.jobs > 0 {
		g := rest.group("")
		others = &g
	}
	return groups, others
}

// item is a job, or an opcode of one.
type item struct {
	failed                  bool
	readyUS, beganUS, ended int64
	usage                   *job.Usage
}

// whole is the job as one item: it begins with its first opcode, and ends with the last one that has begun.
func (j *Job) whole() item {
	final := j.Status == job.Success.String() || j.Status == job.Error.String() || j.Status == job.Canceled.String()
	all := item{failed: j.Status == job.Error.String(), readyUS: j.ReadyUS}
	for i := range j.Ops {
		op := &j.Ops[i]
		if i == 0 {
			all.beganUS = op.BeganUS
		}
		if final && op.BeganUS > 0 {
			all.ended = max(all.ended, op.EndedUS)
		}
		all.usage = together(all.usage, op.Usage)
	}
	return all
}

// sums is what a group has used so far.
type sums struct {
	jobs, failures, measured int
	cpu                      float64
	wait, run                distribution // microseconds
	memory                   distribution // bytes
}

func (s *sums) add(i item) {
	s.jobs++
	if i.failed {
		s.failures++
	}
	if i.beganUS > 0 {
		s.wait.add(float64(max(0, i.beganUS-i.readyUS)))
		if i.ended > 0 {
			s.run.add(float64(max(0, i.ended-i.beganUS)))
		}
	}
	if i.usage != nil {
		s.measured++
		s.cpu += i.usage.CPUSeconds
		if i.usage.MemoryPeakBytes > 0 {
			s.memory.add(float64(i.usage.MemoryPeakBytes))
		}
	}
}

func (s *sums) merge(other *sums) {
	s.jobs += other.jobs
	s.failures += other.failures
	s.measured += other.measured
	s.cpu += other.cpu
	s.wait.merge(other.wait)
	s.run.merge(other.run)
	s.memory.merge(other.memory)
}

func (s *sums) group(name string) Group {
	const second = 1e6
	return Group{Name: name, Jobs: s.jobs, Failures: s.failures, Wait: s.wait.quantiles(second), Run: s.run.quantiles(second),
		Measured: s.measured, CPU: s.cpu, Memory: s.memory.quantiles(1)}
}

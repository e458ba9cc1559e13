package throughput

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"lockstep/sim/study"
	"lockstep/sim/study/swf"
)

// TraceOptions say how a trace becomes work.
type TraceOptions struct {
	// Seed chooses the nodes that jobs lock.
	Seed uint64
	// Nodes is the number of nodes, up to NodesMax; 0: the trace's MaxNodes or else MaxProcs, up
	// to NodesMax.
	Nodes int
	// Jobs bounds the number of jobs; 0: all.
	Jobs int
}

// NodesMax bounds the nodes that the jobs of a trace lock.
const NodesMax = 10_000

// procsMax bounds the processors of a job and of the machine.
const procsMax = 1 << 31

// Trace is a Standard Workload Format file as work for lockstep. Each job is one command with the
// run time of the trace's job, and locks nodes in proportion to the job's processors.
type Trace struct {
	// Lines counts the lines by what became of them.
	Lines LineCounts
	Nodes int

	seed  uint64
	procs int64 // of the machine
	jobs  []traceJob
}

// LineCounts counts the lines of a trace.
type LineCounts struct {
	Jobs      int `json:"jobs"`      // used as work
	Failed    int `json:"failed"`    // of these, failed in the trace; here they take as long, and succeed
	Cancelled int `json:"cancelled"` // of these, cancelled while they ran; likewise
	Chained   int `json:"chained"`   // of these, await the end of another
	NeverRan  int `json:"never_ran"` // left out: canceled before they ran
	Partial   int `json:"partial"`   // left out: parts of jobs that are complete on another line
	Unknown   int `json:"unknown"`   // left out: no submit time, run time or number of processors
	Unchained int `json:"unchained"` // await a job that is missing or later; here they await nothing
}

// traceJob is a job in memory: small, because there may be millions.
type traceJob struct {
	submit, run, think milliseconds
	procs              int64
	preceding          int32 // number, or -1
}

// milliseconds are a time of a trace.
type milliseconds int64

func millis(s float64) milliseconds { return milliseconds(s * 1000) }

func (m milliseconds) duration() time.Duration { return time.Duration(m) * time.Millisecond }

// ReadTrace reads a trace. The error names the line that is wrong.
func ReadTrace(from io.Reader, o TraceOptions) (*Trace, error) {
	t := &Trace{seed: o.Seed}
	reader := swf.NewReader(from)
	numbers := map[int64]int32{}
	var widest int64
	for o.Jobs == 0 || len(t.jobs) < o.Jobs {
		j, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if procs, taken := t.Lines.count(j); taken {
			t.add(j, procs, numbers)
			widest = max(widest, procs)
		}
	}
	if t.Lines.Jobs = len(t.jobs); t.Lines.Jobs == 0 {
		return nil, errors.New("there is no job in it that has run")
	}
	return t, t.size(reader.Header(), o.Nodes, widest)
}

// count counts a line, and returns the number of processors that the job asked for.
func (c *LineCounts) count(j swf.Job) (procs int64, taken bool) {
	procs = min(cmp.Or(max(j.Requested, 0), j.Allocated), procsMax)
	switch {
	case j.Status.Partial():
		c.Partial++
		return 0, false
	case j.Status == swf.Cancelled && j.Run <= 0:
		c.NeverRan++
		return 0, false
	case j.Submit < 0 || j.Run < 0 || procs < 1:
		c.Unknown++
		return 0, false
	case j.Status == swf.Failed:
		c.Failed++
	case j.Status == swf.Cancelled:
		c.Cancelled++
	}
	return procs, true
}

func (t *Trace) add(j swf.Job, procs int64, numbers map[int64]int32) {
	job := traceJob{submit: millis(j.Submit), run: millis(j.Run), think: millis(max(j.Think, 0)), procs: procs, preceding: -1}
	if j.Preceding > 0 {
		if preceding, known := numbers[j.Preceding]; known {
			job.preceding = preceding
			t.Lines.Chained++
		} else {
			t.Lines.Unchained++
		}
	}
	numbers[j.Number] = int32(len(t.jobs))
	t.jobs = append(t.jobs, job)
}

// size determines the size of the machine, in nodes and processors.
func (t *Trace) size(h swf.Header, nodes int, widest int64) error {
	t.procs = max(int64(cmp.Or(h.MaxProcs, h.MaxNodes)), widest)
	t.Nodes = cmp.Or(nodes, min(cmp.Or(h.MaxNodes, h.MaxProcs), NodesMax))
	switch {
	case t.Nodes == 0:
		return errors.New("its header has neither MaxNodes nor MaxProcs: say how many --nodes there are")
	case t.Nodes < 0 || t.Nodes > NodesMax:
		return fmt.Errorf("%d nodes: want 1 to %d", t.Nodes, NodesMax)
	}
	t.sort()
	return nil
}

// sort orders the jobs by their arrival; most traces are in that order.
func (t *Trace) sort() {
	order := make([]int32, len(t.jobs))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(t.jobs[a].submit, t.jobs[b].submit) })
	position := make([]int32, len(order))
	sorted := make([]traceJob, len(order))
	for to, from := range order {
		position[from] = int32(to)
		sorted[to] = t.jobs[from]
	}
	for i := range sorted {
		if p := sorted[i].preceding; p >= 0 {
			sorted[i].preceding = position[p]
		}
	}
	t.jobs = sorted
}

// Len is the number of jobs.
func (t *Trace) Len() int { return len(t.jobs) }

// At is when job i was submitted.
func (t *Trace) At(i int) time.Duration { return t.jobs[i].submit.duration() }

// After returns the job of field 17 and the time of field 18.
func (t *Trace) After(i int) (preceding int, think time.Duration) {
	return int(t.jobs[i].preceding), t.jobs[i].think.duration()
}

// width is the number of nodes that job i locks: as many as have its processors.
func (t *Trace) width(i int) int {
	return int((t.jobs[i].procs*int64(t.Nodes) + t.procs - 1) / t.procs)
}

// Job is one command that locks its nodes exclusively.
func (t *Trace) Job(i int) []study.Opcode {
	var op struct {
		Opcode string      `json:"OP_ID"`
		Argv   []string    `json:"argv"`
		Locks  [][2]string `json:"locks"`
	}
	op.Opcode, op.Argv = "OP_RUN_COMMAND", []string{"replay"}
	width := t.width(i)
	if width == t.Nodes {
		op.Locks = [][2]string{{"node/[lockset]", "exclusive"}}
	} else {
		for _, n := range chosen(rand.New(rand.NewPCG(t.seed, uint64(i))), width, t.Nodes) {
			op.Locks = append(op.Locks, [2]string{fmt.Sprintf("node/n%d", n+1), "exclusive"})
		}
	}
	input, err := json.Marshal(op)
	if err != nil {
		panic(fmt.Errorf("a job of a trace cannot be encoded: %w", err)) // plain text can be encoded
	}
	return []study.Opcode{{Input: input, Duration: t.jobs[i].run.duration()}}
}

// chosen draws k different numbers below n, every set with the same probability (Floyd).
func chosen(rng *rand.Rand, k, n int) []int {
	has := make(map[int]bool, k)
	all := make([]int, 0, k)
	for i := n - k; i < n; i++ {
		pick := rng.IntN(i + 1)
		if has[pick] {
			pick = i
		}
		has[pick] = true
		all = append(all, pick)
	}
	return all
}

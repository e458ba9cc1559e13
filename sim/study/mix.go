package study

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"lockstep/sim"
)

// Mix is a kind of work of a cluster: which jobs operators submit, and how often.
type Mix struct {
	Name  string
	About string
	// shares are the relative frequencies of the batches.
	shares []share
}

type share struct {
	weight int
	batch  func(*planner)
}

// Mixes are all mixes. Their jobs have the locks of Ganeti's opcodes of that kind.
var Mixes = []Mix{
	{"operator", "an ordinary day: some of everything", []share{
		{30, (*planner).power}, {20, (*planner).query}, {14, (*planner).create}, {6, (*planner).replaceDisks},
		{3, (*planner).evacuate}, {2, (*planner).verify}, {1, (*planner).maintain}, {1, (*planner).clusterLock}}},
	{"creation", "bulk creation of instances, with verify runs in between", []share{
		{12, (*planner).create}, {4, (*planner).power}, {1, (*planner).verify}}},
	{"evacuation", "one node after the other is evacuated, beside small jobs", []share{
		{4, (*planner).evacuate}, {20, (*planner).power}, {10, (*planner).query}}},
	{"disks", "disks are replaced after a bad batch of them, beside small jobs", []share{
		{10, (*planner).replaceDisks}, {10, (*planner).power}, {5, (*planner).query}}},
	{"verify", "frequent verify runs of all nodes, beside creations and small jobs", []share{
		{4, (*planner).verify}, {10, (*planner).create}, {30, (*planner).power}}},
	{"maintenance", "nodes are evacuated and then taken out for an hour, beside the ordinary work", []share{
		{2, (*planner).evacuateAndMaintain}, {8, (*planner).create}, {3, (*planner).replaceDisks},
		{30, (*planner).power}, {15, (*planner).query}}},
	{"quiet", "instances are started, stopped and shown: next to no contention", []share{
		{2, (*planner).power}, {1, (*planner).query}}},
	{"bursts", "long quiet spells, then very many disk repairs or creations at once", []share{
		{1, (*planner).burstOfDisks}, {1, (*planner).burstOfCreations}, {30, (*planner).power}, {15, (*planner).query}}},
	{"storage", "small groups of nodes, each with one storage that most of its work needs", []share{
		{10, (*planner).storageCopy}, {5, (*planner).storageSnapshot}, {1, (*planner).storageCheck}, {10, (*planner).power}}},
	{"long-tail", "durations without a typical value: most are short, few are very long", []share{
		{10, (*planner).longTail}, {10, (*planner).power}, {5, (*planner).query}}},
}

// FindMix finds a mix by its name.
func FindMix(name string) (Mix, error) {
	at := slices.IndexFunc(Mixes, func(m Mix) bool { return m.Name == name })
	if at < 0 {
		return Mix{}, fmt.Errorf("unknown mix %q: there are %s", name, strings.Join(MixNames(), ", "))
	}
	return Mixes[at], nil
}

// MixNames are the names of all mixes.
func MixNames() []string {
	names := make([]string, len(Mixes))
	for i, m := range Mixes {
		names[i] = m.Name
	}
	return names
}

// MixOptions are the amount of work and the size of the cluster.
type MixOptions struct {
	Seed  uint64
	Jobs  int
	Slots int
	Nodes int
	// Load is the share of all slots that the work would occupy if no job ever waited. It decides
	// over how much time the work is spread.
	Load float64
}

// Validate returns an error that names a value out of range.
func (o MixOptions) Validate() error {
	switch {
	case o.Jobs < 1 || o.Jobs > 1_000_000:
		return fmt.Errorf("%d jobs: want 1 to 1000000", o.Jobs)
	case o.Slots < 1 || o.Slots > 10_000:
		return fmt.Errorf("%d slots: want 1 to 10000", o.Slots)
	case o.Nodes < 3 || o.Nodes > 10_000:
		return fmt.Errorf("%d nodes: want 3 to 10000, for disks are moved to a third one", o.Nodes)
	case !(o.Load > 0 && o.Load <= 100):
		return fmt.Errorf("load %v: want more than 0, at most 100", o.Load)
	}
	return nil
}

// batch are jobs that are submitted together.
type batch struct {
	at   time.Duration // since the beginning of the work
	jobs []plannedJob
}

// plannedJob is a job of a mix.
type plannedJob struct {
	kind string
	name string // that the daemon knows, "" for none
	ops  []sim.OpSpec
}

// instancesPerNode is the number of instances per node at the beginning.
const instancesPerNode = 8

// planner makes the work. It knows on which nodes each instance is, as if all submitted jobs had
// succeeded.
type planner struct {
	rng         *rand.Rand
	nodes       int
	made        int // instances made so far
	instances   []*instance
	jobs        []plannedJob // jobs of the current batch
	workSeconds float64      // of all jobs
}

// instance is an instance with a mirrored disk, on two nodes.
type instance struct {
	name               string
	primary, secondary int
}

// plan makes the batches of a mix, in the order of their times. The same options give the same
// work.
func plan(m Mix, o MixOptions) []batch {
	p := &planner{rng: rand.New(rand.NewPCG(o.Seed, 0x0b5e)), nodes: o.Nodes}
	for range o.Nodes * instancesPerNode {
		p.newInstance()
	}
	total := 0
	for _, s := range m.shares {
		total += s.weight
	}
	var batches []batch
	for jobs := 0; jobs < o.Jobs; {
		p.jobs = nil
		draw := p.rng.IntN(total)
		for _, s := range m.shares {
			if draw -= s.weight; draw < 0 {
				s.batch(p)
				break
			}
		}
		p.jobs = p.jobs[:min(len(p.jobs), o.Jobs-jobs)]
		jobs += len(p.jobs)
		batches = append(batches, batch{jobs: p.jobs})
	}
	// Independent arrivals, at the rate that Load demands.
	span := p.workSeconds / (float64(o.Slots) * o.Load)
	times := make([]float64, len(batches))
	for i := range times {
		times[i] = p.rng.Float64() * span
	}
	slices.Sort(times)
	for i := range batches {
		batches[i].at = time.Duration(times[i] * float64(time.Second)).Round(time.Millisecond)
	}
	return batches
}

func (p *planner) newInstance() *instance {
	p.made++
	i := &instance{name: fmt.Sprintf("i%d", p.made), primary: p.rng.IntN(p.nodes)}
	i.secondary = p.otherNode(i.primary, i.primary)
	p.instances = append(p.instances, i)
	return i
}

// otherNode draws a node that is neither of these.
func (p *planner) otherNode(a, b int) int {
	for {
		if n := p.rng.IntN(p.nodes); n != a && n != b {
			return n
		}
	}
}

func (p *planner) anyInstance() *instance { return p.instances[p.rng.IntN(len(p.instances))] }

// drawSeconds draws the duration of an opcode, uniform on a logarithmic scale.
func (p *planner) drawSeconds(least, most float64) float64 {
	s := math.Round(10*least*math.Pow(most/least, p.rng.Float64())) / 10
	p.workSeconds += s
	return s
}

func (p *planner) op(seconds float64, locks ...string) sim.OpSpec {
	return sim.OpSpec(fmt.Sprintf("run run_for=%g locks=%s", seconds, strings.Join(locks, ",")))
}

func (p *planner) add(kind string, ops ...sim.OpSpec) {
	for i := range ops {
		ops[i] += sim.OpSpec(" kind=" + kind)
	}
	p.jobs = append(p.jobs, plannedJob{kind: kind, ops: ops})
}

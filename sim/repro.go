package sim

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Repro is everything that is needed to repeat a run. The zero values are those of lockstep-sim
// run.
type Repro struct {
	Seed      uint64  `json:"seed"`
	Nodes     int     `json:"nodes"`               // 1 to nodesMax
	Steps     uint64  `json:"steps"`               // steps with faults; later ones are without
	Faults    string  `json:"faults"`              // see parseFaults
	Config    int     `json:"config,omitempty"`    // see runOptions
	Readers   int     `json:"readers,omitempty"`   // see runOptions
	Holders   int     `json:"holders,omitempty"`   // see runOptions
	Crowd     int     `json:"crowd,omitempty"`     // see runOptions
	Hands     int     `json:"hands,omitempty"`     // see runOptions
	Removals  int     `json:"removals,omitempty"`  // see runOptions
	Programs  int     `json:"programs,omitempty"`  // see runOptions
	Ganeti    int     `json:"ganeti,omitempty"`    // see runOptions
	Followers int     `json:"followers,omitempty"` // see runOptions
	Progress  int     `json:"progress,omitempty"`  // see runOptions
	Users     int     `json:"users,omitempty"`     // see runOptions
	Tries     int     `json:"tries,omitempty"`     // see runOptions
	Schedules int     `json:"schedules,omitempty"` // see runOptions
	Times     int     `json:"times,omitempty"`     // see runOptions
	Mutation  string  `json:"plant,omitempty"`
	Recipe    *Recipe `json:"recipe,omitempty"` // nil: the seed's own
}

// nodesMax bounds the nodes of a simulated cluster.
const nodesMax = 9

// Run makes the run and returns its result, in which a violation is. Sink, if set, gets every line of the trace. The error says what is
// wrong with the Repro.
func (c Repro) Run(sink func(Line)) (Result, error) {
	faults, err := parseFaults(c.Faults)
	if err != nil {
		return Result{}, err
	}
	mutations, err := findMutation(c.Mutation)
	if err != nil {
		return Result{}, err
	}
	if c.Nodes < 1 || c.Nodes > nodesMax {
		return Result{}, fmt.Errorf("%d nodes: want 1 to %d", c.Nodes, nodesMax)
	}
	if c.Nodes == 1 {
		if err := c.checkNodes(faults); err != nil {
			return Result{}, err
		}
	}
	return simulate(c.Seed, runOptions{
		Steps:     c.Steps,
		Faults:    faults,
		Nodes:     c.Nodes,
		Config:    c.Config,
		Readers:   c.Readers,
		Holders:   c.Holders,
		Ganeti:    c.Ganeti,
		Crowd:     c.Crowd,
		Hands:     c.Hands,
		Removals:  c.Removals,
		Programs:  c.Programs,
		Followers: c.Followers,
		Progress:  c.Progress,
		Users:     c.Users,
		Tries:     c.Tries,
		Schedules: c.Schedules,
		Times:     c.Times,
		Mutations: mutations,
		Recipe:    c.Recipe,
		Sink:      sink,
	}), nil
}

// checkNodes refuses faults and mutations that need several nodes.
func (c Repro) checkNodes(faults map[string]bool) error {
	if slices.Contains(clusterMutations, c.Mutation) {
		return fmt.Errorf("the plant %s is for clusters: --nodes 3 or more", c.Mutation)
	}
	for kind := range faults {
		if !slices.Contains(clusterFaultKinds, kind) {
			return nil
		}
	}
	if len(faults) > 0 {
		return fmt.Errorf("the faults %s happen to clusters only: --nodes 3 or more", c.Faults)
	}
	return nil
}

// traceMagic is the first line of a trace in a file. The Repro follows as a line of JSON, then
// one line for each event.
const traceMagic = "lockstep-sim trace 1"

// reproMax bounds the line of a Repro, in bytes.
const reproMax = 4 << 20

// WriteTrace makes the run and writes its trace: the head, which describes the run, and the lines.
func (c Repro) WriteTrace(out io.Writer) (Result, error) {
	head, err := json.Marshal(c)
	if err != nil {
		return Result{}, err
	}
	buffered := bufio.NewWriter(out)
	fmt.Fprintf(buffered, "%s\n%s\n", traceMagic, head)
	r, err := c.Run(func(l Line) { fmt.Fprintln(buffered, l) })
	return r, errors.Join(err, buffered.Flush())
}

// ReadRepro reads the head of a trace, which describes the run. The reader continues with the lines.
func ReadRepro(trace *bufio.Scanner) (Repro, error) {
	var c Repro
	trace.Buffer(nil, reproMax)
	if !trace.Scan() || trace.Text() != traceMagic {
		return c, errors.Join(trace.Err(), fmt.Errorf("not a trace: it does not begin with %q", traceMagic))
	}
	if !trace.Scan() {
		return c, errors.Join(trace.Err(), errors.New("the trace says nothing of its run"))
	}
	decoder := json.NewDecoder(strings.NewReader(trace.Text()))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&c); err != nil {
		return c, fmt.Errorf("line 2 of the trace: %w", err)
	}
	return c, nil
}

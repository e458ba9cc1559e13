package scheduler

import (
	"cmp"
	"encoding/json"
	"maps"
	"math"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/deadlock"
	"lockstep/core/job"
	"lockstep/core/lock"
	"lockstep/core/opcode"
	"lockstep/messages"
)

// How many vertices of the graph of waits one search, and all searches of one question, may examine. Each takes some microseconds, and
// more if the job has many opcodes.
const (
	searchedMax      = 200
	searchedTotalMax = 2_000
)

// clientWaits are the waits of processes of jobs for the ends of other jobs. A client has at most one entry, for several jobs. After a
// crash of the scheduler the clients' connections send them again.
type clientWaits struct {
	byClient map[string]*messages.AwaitJobs // by the id of the connection's actor
	byJob    map[job.ID]map[string]struct{} // the clients of a job, by the same id; no set is empty
}

func newClientWaits() clientWaits {
	return clientWaits{byClient: map[string]*messages.AwaitJobs{}, byJob: map[job.ID]map[string]struct{}{}}
}

// set replaces what a client waits for. It reports whether the client had no entry.
func (w *clientWaits) set(client string, m *messages.AwaitJobs) (isNew bool) {
	_, known := w.byClient[client]
	w.end(client)
	if len(m.Ids) == 0 {
		return false
	}
	w.byClient[client] = m
	parent := job.ID(m.Parent)
	if w.byJob[parent] == nil {
		w.byJob[parent] = map[string]struct{}{}
	}
	w.byJob[parent][client] = struct{}{}
	return !known
}

// end drops a client and its waits.
func (w *clientWaits) end(client string) {
	m := w.byClient[client]
	if m == nil {
		return
	}
	delete(w.byClient, client)
	parent := job.ID(m.Parent)
	if delete(w.byJob[parent], client); len(w.byJob[parent]) == 0 {
		delete(w.byJob, parent)
	}
}

// of are the jobs whose ends processes of a job wait for, ascending.
func (w *clientWaits) of(id job.ID) []int64 {
	var all []int64
	for client := range w.byJob[id] {
		all = append(all, w.byClient[client].Ids...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// waitSearch is a search in the graph of waits.
type waitSearch struct {
	*scheduler
	deadlock.Search
	// expected: what opcodes of Ganeti are expected to lock counts, although they may lock less.
	expected bool
	// wanted are the jobs whose ends a process of the job parent would wait for, in place of those that its processes wait for.
	parent job.ID
	wanted []job.ID
	// drafts are jobs that are not submitted yet, by an id that no job has.
	drafts map[job.ID][]json.RawMessage
}

func (s *scheduler) newWaitSearch(expected bool) *waitSearch {
	w := &waitSearch{scheduler: s, expected: expected}
	w.Search = deadlock.Search{Waits: w.waitsOf, Budget: searchedMax}
	return w
}

// waitsOf are the waits of a vertex. A job that has ended, or is not known, waits for nothing.
func (w *waitSearch) waitsOf(v deadlock.Vertex) []deadlock.Wait {
	if ops := w.drafts[v.Job]; ops != nil {
		var waits []deadlock.Wait
		if v.End {
			for _, input := range ops {
				waits = append(waits, w.waitsOfOpcode(v.Job, input)...)
			}
		}
		return waits
	}
	j := w.jobs[v.Job]
	if j == nil {
		return nil
	}
	if v.End {
		return w.waitsOfLaterOpcodes(j)
	}
	waits := w.waitsOfProcesses(j.id)
	for _, d := range w.graph.Unmet(j.id) {
		waits = w.addEnd(waits, j.id, d.Job, deadlock.Dependency)
	}
	if j.asks || !j.running {
		waits = append(waits, w.waitsForLocks(j.id, j.inputs(), j.op)...)
	}
	return append(waits, w.published.Pending(j.id)...)
}

func (w *waitSearch) waitsOfProcesses(id job.ID) (waits []deadlock.Wait) {
	if w.wanted != nil && id == w.parent {
		for _, other := range w.wanted {
			waits = w.addEnd(waits, id, int64(other), deadlock.Process)
		}
		return waits
	}
	for _, other := range w.awaited.of(id) {
		waits = w.addEnd(waits, id, other, deadlock.Process)
	}
	return waits
}

// addEnd adds the wait for the end of another job that has not ended.
func (w *waitSearch) addEnd(waits []deadlock.Wait, id job.ID, other int64, by deadlock.Cause) []deadlock.Wait {
	on := job.ID(other)
	if on == id || w.jobs[on] == nil && w.drafts[on] == nil {
		return waits
	}
	return append(waits, deadlock.Wait{For: deadlock.Vertex{Job: on, End: true}, By: by})
}

// waitsOfLaterOpcodes are the waits of the opcodes after the current one. Which one that is, is not known of a process that does not ask.
func (w *waitSearch) waitsOfLaterOpcodes(j *scheduledJob) []deadlock.Wait {
	if !j.asks && j.running {
		return nil
	}
	var waits []deadlock.Wait
	for _, op := range slices.Sorted(maps.Keys(j.depends)) {
		for _, d := range j.depends[op] {
			if op > j.op {
				waits = w.addEnd(waits, j.id, d.Job, deadlock.Dependency)
			}
		}
	}
	inputs := j.inputs()
	for op := j.op + 1; op < len(inputs); op++ {
		waits = append(waits, w.waitsForLocks(j.id, inputs, op)...)
	}
	return waits
}

// waitsOfOpcode are the waits of an opcode of a job that is not submitted yet.
func (w *waitSearch) waitsOfOpcode(id job.ID, input json.RawMessage) []deadlock.Wait {
	var waits []deadlock.Wait
	deps, _ := opcode.Depends(input) // the submission is refused if they are invalid
	for _, d := range deps {
		waits = w.addEnd(waits, id, d.Job, deadlock.Dependency)
	}
	return append(waits, w.waitsForLocks(id, []json.RawMessage{input}, 0)...)
}

// waitsForLocks are the waits of an opcode for its locks; nil for an opcode that will fail.
func (w *waitSearch) waitsForLocks(id job.ID, inputs []json.RawMessage, op int) []deadlock.Wait {
	if op >= len(inputs) {
		return nil
	}
	needs, err := w.config.Catalogue.RequiredLocks(inputs[op], w.resources)
	if err != nil {
		return nil // the opcode fails
	}
	if w.expected && !needs.NotEmpty() && w.config.GanetiJobs {
		declared := w.config.Catalogue.Declare(inputs[op], w.resources)
		needs = lock.RequiredLocks{Request: declared.Request()}
	}
	return w.published.Needing(id, needs)
}

// inputs are the inputs of the opcodes of a job.
func (j *scheduledJob) inputs() []json.RawMessage {
	decoded := j.decoded
	if decoded == nil {
		var err error
		if decoded, err = job.Decode(j.encoded); err != nil {
			return nil // decoded before
		}
	}
	inputs := make([]json.RawMessage, len(decoded.Ops))
	for i := range decoded.Ops {
		inputs[i] = decoded.Ops[i].Input
	}
	return inputs
}

// awaitJobs records that a process of a job waits for the ends of others, unless that would close a cycle. An observed wait is neither
// examined nor answered; one with drafts, which have no ids yet, is examined and not recorded. While the backlog is worked off the
// question waits: what its jobs wait for is not known yet.
func (s *scheduler) awaitJobs(ctx actor.Context, m *messages.AwaitJobs, sender *actor.PID) {
	if s.backlog.busy() {
		s.backlog.waits.Add(m, sender)
		return
	}
	var cycle *messages.WaitCycle
	if !m.Observed {
		cycle = s.closedCycle(m)
	}
	if cycle == nil && len(m.Drafts) == 0 && s.awaited.set(sender.Id, m) {
		ctx.Watch(sender)
	}
	if !m.Observed {
		ctx.Send(sender, &messages.AwaitJobsResult{Request: m.Request, Cycle: cycle})
	}
}

// draftID is the id of the first draft: more than any job has.
const draftID = math.MaxInt64 - 1<<32

// closedCycle is the cycle that a wait would close; nil if there is none. Until the jobs are known there is none.
func (s *scheduler) closedCycle(m *messages.AwaitJobs) *messages.WaitCycle {
	if s.state == nil {
		return nil
	}
	w := s.newWaitSearch(false)
	w.parent, w.wanted = job.ID(m.Parent), []job.ID{}
	for _, id := range m.Ids {
		w.wanted = append(w.wanted, job.ID(id))
	}
	w.drafts = make(map[job.ID][]json.RawMessage, len(m.Drafts))
	for i, draft := range m.Drafts {
		id := draftID + int64(i)
		inputs := make([]json.RawMessage, len(draft.Ops))
		for k, op := range draft.Ops {
			if input, err := opcode.ResolveDepends(op.Input, id); err == nil { // else the queue refuses the submission
				inputs[k] = input
			}
		}
		w.drafts[job.ID(id)] = inputs
		w.wanted = append(w.wanted, job.ID(id))
	}
	return cycleOf(w.Cycle(deadlock.Vertex{Job: w.parent}), 0)
}

// cycleOf is a cycle in the form of messages; nil without steps. The id of a draft is 0.
func cycleOf(steps []deadlock.Step, slots int) *messages.WaitCycle {
	if len(steps) == 0 {
		return nil
	}
	shown := func(id job.ID) int64 {
		if id >= draftID {
			return 0
		}
		return int64(id)
	}
	c := &messages.WaitCycle{Slots: int64(slots)}
	for _, step := range steps {
		m := &messages.WaitStep{Job: shown(step.Job), On: shown(step.On), By: int32(step.By)}
		if step.By == deadlock.Lock {
			m.Lock = step.Lock.String()
		}
		c.Steps = append(c.Steps, m)
	}
	return c
}

// cycles are the cycles of waits, by the jobs that belong to them. Without a wait of a process there is none: a job has no locks while it
// waits for dependencies, and takes its locks in their order. A job of several cycles has one of them.
func (s *scheduler) cycles() map[job.ID]*messages.WaitCycle {
	if s.state == nil || len(s.awaited.byJob) == 0 {
		return nil
	}
	found := map[job.ID]*messages.WaitCycle{}
	budget := searchedTotalMax
	w := s.newWaitSearch(true)
	for _, id := range slices.Sorted(maps.Keys(s.awaited.byJob)) {
		if found[id] != nil {
			continue
		}
		w.Budget = min(searchedMax, budget)
		before := w.Budget
		steps := w.Cycle(deadlock.Vertex{Job: id})
		budget -= before - w.Budget
		cycle := cycleOf(steps, 0)
		for _, step := range steps {
			found[step.Job] = cmp.Or(found[step.Job], cycle)
		}
	}
	s.slotCycles(w, budget, found)
	return found
}

// slotCycles finds the waits that take all run slots: each job that has one waits for the end of a job that needs one, or
// belongs to a cycle. Other jobs that need a run slot have the first of these waits.
func (s *scheduler) slotCycles(w *waitSearch, budget int, found map[job.ID]*messages.WaitCycle) {
	slots := s.state.SlotsInUse()
	if slots < s.state.Settings().Slots {
		return
	}
	needsSlot := func(v deadlock.Vertex) bool {
		j := s.jobs[v.Job]
		return v.End && j != nil && (!j.running || s.state.Yielded(j.id))
	}
	var paths [][]deadlock.Step
	w.Budget = budget
	for _, id := range s.state.RunningIDs() {
		if found[id] != nil {
			continue
		}
		path := w.Path(deadlock.Vertex{Job: id}, needsSlot)
		if path == nil {
			return
		}
		paths = append(paths, path)
	}
	if paths == nil {
		return
	}
	for _, path := range paths {
		cycle := cycleOf(path, slots)
		for _, step := range path {
			found[step.Job] = cmp.Or(found[step.Job], cycle)
		}
		last := path[len(path)-1].On
		found[last] = cmp.Or(found[last], cycle)
	}
	found[anyJob] = cycleOf(paths[0], slots)
}

// anyJob stands for each job that needs a run slot.
const anyJob = job.ID(-1)

// cycleFor is the cycle of a job among those that were found; a job that waits for a run slot has the cycle that takes all of them. nil:
// none.
func (s *scheduler) cycleFor(found map[job.ID]*messages.WaitCycle, id job.ID, reasons []*messages.Reason) *messages.WaitCycle {
	if c := found[id]; c != nil {
		return c
	}
	if slices.ContainsFunc(reasons, func(r *messages.Reason) bool { return r.GetSlots() != nil }) {
		return found[anyJob]
	}
	return nil
}

// processWaits are the waits of processes for the ends of jobs, by the job of the process. Jobs that have ended are left out.
func (s *scheduler) processWaits() []*messages.JobDependencies {
	var all []*messages.JobDependencies
	for _, id := range slices.Sorted(maps.Keys(s.awaited.byJob)) {
		waiting := &messages.JobDependencies{Id: int64(id)}
		for _, on := range s.awaited.of(id) {
			if s.jobs[job.ID(on)] != nil {
				waiting.On = append(waiting.On, &messages.JobDependency{Job: on, Process: true})
			}
		}
		if s.jobs[id] != nil && waiting.On != nil {
			all = append(all, waiting)
		}
	}
	return all
}

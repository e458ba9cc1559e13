package replication_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lockstep/core/job"
	"lockstep/core/job/jobtest"
	"lockstep/core/paths"
	"lockstep/core/replication"
	"lockstep/messages"
)

// history is the events in a cluster of three nodes. One node never leads, so its files are the content of the log.
type history struct {
	*rapid.T
	log     []*messages.LogEntry
	runs    []int // the incarnation of each node's daemon
	applied []int // the index that each node has applied
	disks   []files
	running []replication.RunningJobs
	master  int
	jobs    map[int64]*task
	note    int
}

// task is a job, and its process if it has one.
type task struct {
	id       int64
	livelock string // "": it has no process
	starts   int64
	course   *job.Job // its opcode's status is what the process has written last
	acts     bool     // the process may write the file
	on       int
	unseen   []byte // the content that the process has written since the last proposal
	over     bool   // the end of the job is in the log
	archived bool
}

const leaders, nodes = 2, 3

func newHistory(t *rapid.T) *history {
	h := &history{T: t, runs: make([]int, nodes), applied: make([]int, nodes), jobs: map[int64]*task{}}
	for range nodes {
		h.disks, h.running = append(h.disks, files{}), append(h.running, replication.RunningJobs{})
	}
	return h
}

func (h *history) self(node int) replication.Applier {
	return replication.Applier{Node: fmt.Sprintf("u%d", node), Incarnation: fmt.Sprintf("%d.%d", node, h.runs[node])}
}

// propose commits an entry of the master.
func (h *history) propose(e *messages.LogEntry) {
	h.log = append(h.log, e)
	if rapid.Bool().Draw(h.T, "at once") {
		h.catchUp(h.master)
	}
}

func (h *history) apply(node, upTo int) {
	batch := h.log[h.applied[node]:upTo]
	h.disks[node].apply(h.self(node), batch)
	for _, e := range batch {
		h.running[node].Apply(e)
	}
	h.applied[node] = upTo
}

func (h *history) catchUp(node int) { h.apply(node, len(h.log)) }

func (h *history) next() int { h.note++; return h.note }

func (h *history) write(k *task, livelock string, status job.Status) {
	h.propose(updateChange(h.self(h.master), paths.JobPath(k.id), jobAs(k.id, livelock, status, h.next())))
}

// step is a random event of the job.
func (h *history) step(k *task) {
	switch rapid.SampledFrom([]string{"start", "start", "undo", "act", "act", "see", "see", "fail", "archive", "serial"}).Draw(h.T, "what") {
	case "start":
		if k.livelock == "" {
			k.starts++
			k.livelock, k.on = fmt.Sprintf("/run/livelocks/%s_1700000000_%d_0123abcd", paths.JobLivelockName(k.id, k.starts), h.next()), h.master
			h.write(k, k.livelock, job.Queued)
			h.catchUp(h.master) // afterwards the process has its permission
			k.acts = rapid.Bool().Draw(h.T, "permitted")
		}
	case "undo": // the process has ended before it began the job
		if k.livelock != "" && !k.over && k.on == h.master && k.course.Status() == job.Queued {
			k.livelock, k.acts = "", false
			h.write(k, paths.UndoneLivelock(k.starts), job.Queued)
		}
	case "act":
		if k.acts {
			h.act(k)
		}
	case "see":
		h.see(k)
	case "fail":
		if k.livelock != "" && !k.over && k.on == h.master && !h.hasEnded(k) {
			h.fail(k)
		}
	case "archive":
		if k.over && !k.archived {
			k.archived = true
			h.propose(archived(h.self(h.master), k.id))
		}
	case "serial":
		h.propose(updateChange(h.self(h.master), paths.SerialPath, paths.FormatSerial(int64(h.next()))))
	}
}

// act makes the process write its file.
func (h *history) act(k *task) {
	jobtest.Step(k.course, func(events []job.Event) job.Event { return rapid.SampledFrom(events).Draw(h.T, "event") })
	status := k.course.Status()
	k.unseen = jobAs(k.id, k.livelock, status, h.next())
	h.disks[k.on][paths.JobPath(k.id)] = string(k.unseen)
	k.acts = !status.Final()
}

func (h *history) hasEnded(k *task) bool {
	j, err := job.Decode([]byte(h.disks[k.on][paths.JobPath(k.id)]))
	return err == nil && j.Status().Final()
}

// see makes the daemon propose the content that the process has written.
func (h *history) see(k *task) {
	if k.unseen == nil || k.on != h.master {
		return
	}
	j, err := job.Decode(k.unseen)
	require.NoError(h, err)
	k.over = j.Status().Final()
	h.propose(observed(h.self(h.master), k.id, k.unseen))
	k.unseen = nil
}

// fail makes the daemon end a job whose process has ended.
func (h *history) fail(k *task) {
	k.acts, k.unseen, k.over = false, nil, true
	h.write(k, k.livelock, job.Error)
}

// restart restarts a node's daemon.
func (h *history) restart(node int) {
	h.runs[node]++
	if node == h.master {
		h.lead()
	}
}

// lead makes the current master propose the progress of its jobs.
func (h *history) lead() {
	h.catchUp(h.master)
	self := h.self(h.master)
	for _, id := range h.running[h.master].StartedOn(self.Node) {
		content := h.disks[h.master][paths.JobPath(id)]
		j, err := job.Decode([]byte(content))
		require.NoError(h, err)
		h.log = append(h.log, observed(self, id, []byte(content)))
		if k := h.jobs[id]; k.on == h.master {
			k.unseen, k.over = nil, j.Status().Final()
		}
	}
	h.catchUp(h.master)
}

// turn makes another node the master. Jobs that were started on other nodes have ended, and fail.
func (h *history) turn() {
	h.master = (h.master + 1) % leaders
	for _, k := range h.all() {
		if k.on != h.master {
			k.acts, k.unseen = false, nil
		}
	}
	h.lead()
	for _, k := range h.all() {
		if k.livelock != "" && !k.over && (k.on != h.master || !k.acts) {
			h.fail(k)
		}
	}
}

func (h *history) all() []*task {
	var all []*task
	for _, k := range h.jobs {
		all = append(all, k)
	}
	slices.SortFunc(all, func(a, b *task) int { return int(a.id - b.id) })
	return all
}

// drawHistory ends when the log contains everything that processes have written.
func drawHistory(t *rapid.T) *history {
	h := newHistory(t)
	for id := range int64(3) {
		h.jobs[id] = &task{id: id, course: jobtest.Queued(id)}
		h.write(h.jobs[id], daemonLock, job.Queued)
	}
	for range rapid.IntRange(1, 40).Draw(t, "steps") {
		switch rapid.IntRange(0, 9).Draw(t, "event") {
		case 0:
			h.restart(rapid.IntRange(0, nodes-1).Draw(t, "node"))
		case 1:
			h.turn()
		case 2:
			node := rapid.IntRange(0, nodes-1).Draw(t, "node")
			h.apply(node, rapid.IntRange(h.applied[node], len(h.log)).Draw(t, "up to"))
		default:
			h.step(h.jobs[rapid.Int64Range(0, 2).Draw(t, "job")])
		}
	}
	for _, k := range h.all() {
		h.see(k)
	}
	for node := range nodes {
		h.catchUp(node)
	}
	return h
}

// design.md "What is replicated": the job files of all nodes are identical, and all nodes agree on which jobs run where.
func TestAllNodesComeToHaveTheSameFiles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := drawHistory(t)
		once := files{}
		for _, e := range h.log {
			once.apply(replication.Applier{Node: "none"}, []*messages.LogEntry{e})
		}
		for node := range nodes {
			require.Equal(t, once, h.disks[node], "node %d", node)
			require.Equal(t, h.running[nodes-1], h.running[node], "node %d", node)
		}
	})
}

// A log that repeats applied entries changes nothing on nodes without job processes.
func TestToApplyEntriesAgainIsHarmlessElsewhere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := drawHistory(t)
		h.again(nodes - 1)
	})
}

// again makes a node start, and its log repeat applied entries.
func (h *history) again(node int) {
	before := h.disks[node].clone()
	h.runs[node]++
	h.applied[node] = rapid.IntRange(0, len(h.log)).Draw(h.T, "from")
	if rapid.Bool().Draw(h.T, "in two batches") {
		h.apply(node, rapid.IntRange(h.applied[node], len(h.log)).Draw(h.T, "up to"))
	}
	h.catchUp(node)
	require.Equal(h, before, h.disks[node], "node %d", node)
}

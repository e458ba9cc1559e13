package queuecopy

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lockstep/core/paths"
)

// disk are the files of a node, by path below the data directory.
type disk map[string]string

// pending is a change of a candidate's disk that a node daemon makes at a time, perhaps after its client is gone.
type pending struct {
	at   time.Time
	make func()
}

// world is a master with its disk, candidates, and Ganeti's processes.
type world struct {
	t       *rapid.T
	now     time.Time
	tracker *Tracker
	here    disk
	written map[string]time.Time
	there   map[string]disk
	calls   map[string][]*openCall // by node, oldest first
	wake    time.Time
	effects []pending
	serial  int64
	content int
	running map[int64]bool
	master  map[string]string // what each candidate names
	sent    map[string]int64  // the serial that each candidate has been sent
	failed  map[string]int    // failed calls of each candidate
	answers answers
	plant   func(*Tracker) // a bug: it changes the tracker after each decision
}

// openCall is a call with what it has read here at its beginning.
type openCall struct {
	Call
	read   string
	has    bool
	serial int64
}

func newWorld(t *rapid.T, nodes int) *world {
	w := &world{t: t, now: time.Unix(1_000_000, 0), tracker: New(All), here: disk{paths.SerialPath: "0"}, written: map[string]time.Time{}, there: map[string]disk{},
		calls: map[string][]*openCall{}, running: map[int64]bool{}, master: map[string]string{}, sent: map[string]int64{}, failed: map[string]int{}, answers: newAnswers()}
	for i := range nodes {
		w.there[fmt.Sprint("n", i)] = disk{}
	}
	w.setNodes(nodes)
	return w
}

func (w *world) setNodes(count int) {
	var nodes []Node
	for i := range count {
		id := fmt.Sprint("n", i)
		w.master[id] = "master"
		nodes = append(nodes, Node{UUID: id, Name: id})
	}
	w.tracker.SetNodes(w.now, "master", nodes)
	w.next()
}

func (w *world) next() {
	d := w.tracker.Next(w.now)
	if w.plant != nil {
		w.plant(w.tracker)
	}
	w.wake = d.Wake
	for _, c := range d.Calls {
		for _, other := range w.calls[c.Node.Name] {
			for _, u := range c.Units {
				require.NotContains(w.t, other.Units, u, "two calls of one file")
			}
		}
		o := &openCall{Call: c}
		if c.Op == Update || c.Op == Refill {
			o.read, o.has = w.here[w.fileOf(c)]
		}
		w.calls[c.Node.Name] = append(w.calls[c.Node.Name], o)
		require.LessOrEqual(w.t, len(w.calls[c.Node.Name]), callsMax)
	}
	w.answers.decided(w, d)
}

func (w *world) fileOf(c Call) string {
	if c.Op == Refill {
		return paths.ArchivePath(int64(c.Units[0]))
	}
	return c.Units[0].Path()
}

// execute carries out what a node daemon does. The result is that of the node daemon.
func (w *world) execute(c *openCall) Result {
	there := w.there[c.Node.Name]
	switch c.Op {
	case AskMaster:
		return Result{Master: w.master[c.Node.Name]}
	case Update, Refill:
		u := c.Units[0]
		if u.IsJob() && !c.has {
			return Result{Missing: true}
		}
		if u == Serial {
			_, _ = fmt.Sscan(c.read, &c.serial)
			c.serial = c.SerialToSend(c.serial)
			there[u.Path()] = fmt.Sprint(c.serial)
			return Result{Serial: c.serial}
		}
		if c.has {
			there[u.Path()] = c.read
		} else {
			delete(there, u.Path())
		}
		return Result{Rewritten: w.here[w.fileOf(c.Call)] != c.read}
	case Archive:
		for _, u := range c.Units {
			content, exists := there[u.Path()]
			if !exists {
				return Result{Err: errors.New("no such file")}
			}
			delete(there, u.Path())
			there[paths.ArchivePath(int64(u))] = content
		}
		return Result{}
	}
	r := Result{}
	for _, u := range c.Units {
		live, archived := paths.JobPath(int64(u)), paths.ArchivePath(int64(u))
		f := Found{Here: w.here[live], There: there[live], ArchivedThere: there[archived], Age: w.now.Sub(w.written[live])}
		if f.Here == "" {
			f.ArchivedHere = w.here[archived]
		}
		r.Found = append(r.Found, f)
	}
	return r
}

// end ends the call of a node: it succeeds, or fails with or without its effect, which may come late.
func (w *world) end(node string, number int, how string) {
	if len(w.calls[node]) == 0 {
		return
	}
	number %= len(w.calls[node])
	c := w.calls[node][number]
	w.calls[node] = slices.Delete(w.calls[node], number, number+1)
	var r Result
	switch how {
	case "ok":
		r = w.execute(c)
	case "lost answer":
		w.execute(c)
		r.Err = errors.New(how)
	case "late":
		w.effects = append(w.effects, pending{w.now.Add(Settle - time.Second), func() { w.execute(c) }})
		w.answers.lateCall(c)
		r.Err = errors.New(how)
	default:
		r.Err = errors.New(how)
	}
	if r.Err != nil {
		w.failed[node]++
	}
	if r.Err == nil && (c.Op == Update || c.Op == Refill) && !r.Missing {
		if c.Units[0] == Serial {
			w.sent[node] = max(w.sent[node], r.Serial)
		} else if c.Units[0].IsJob() {
			require.LessOrEqual(w.t, int64(c.Units[0]), max(w.sent[node], 0), "a job is beyond the serial")
		}
	}
	w.tracker.Done(w.now, c.Number, r)
	w.next()
}

func (w *world) advance(d time.Duration) {
	w.now = w.now.Add(d)
	slices.SortStableFunc(w.effects, func(a, b pending) int { return a.at.Compare(b.at) })
	for len(w.effects) > 0 && !w.effects[0].at.After(w.now) {
		effect := w.effects[0]
		w.effects = w.effects[1:]
		effect.make()
	}
	w.next()
}

func (w *world) write(file string) {
	w.content++
	w.here[file] = fmt.Sprint("content ", w.content)
	w.written[file] = w.now
}

func (w *world) jobs() []int64 {
	var ids []int64
	for file := range w.here {
		if u, archived, ok := UnitOf(file); ok && u.IsJob() && !archived {
			ids = append(ids, int64(u))
		}
	}
	slices.Sort(ids)
	return ids
}

func (w *world) submit() {
	w.serial++
	w.write(paths.JobPath(w.serial))
	w.here[paths.SerialPath] = fmt.Sprint(w.serial)
	w.tracker.Changed(w.now, []string{paths.JobPath(w.serial), paths.SerialPath})
	w.answers.ask(w, w.serial)
	w.next()
}

// processSends is a write of Ganeti's process, and its calls to the candidates, of which some fail and some come late.
func (w *world) processSends(id int64) {
	file := paths.JobPath(id)
	w.write(file)
	content := w.here[file]
	for _, node := range slices.Sorted(maps.Keys(w.there)) {
		put := func() { w.there[node][file] = content }
		switch rapid.IntRange(0, 3).Draw(w.t, "process call") {
		case 0: // fails
		case 1:
			w.effects = append(w.effects, pending{w.now.Add(time.Second), put})
			w.answers.late[node+" "+file] = true
		default:
			put()
		}
	}
}

func (w *world) step() {
	var job int64 = -1
	if ids := w.jobs(); len(ids) > 0 {
		job = rapid.SampledFrom(ids).Draw(w.t, "job")
	}
	switch step := rapid.IntRange(0, 9).Draw(w.t, "step"); {
	case step == 0:
		w.submit()
	case step == 1 && job >= 0 && !w.running[job]: // the daemon writes
		w.write(paths.JobPath(job))
		w.tracker.Changed(w.now, []string{paths.JobPath(job)})
		w.answers.ask(w, job)
		w.next()
	case step == 2 && job >= 0 && !w.running[job]:
		w.running[job] = true
		w.tracker.ProcessBegan(w.now, job)
		w.next()
	case step == 3 && job >= 0 && w.running[job]:
		w.processSends(job)
	case step == 4 && job >= 0 && w.running[job]:
		w.advance(0)
		delete(w.running, job)
		w.tracker.ProcessEnded(w.now, job)
		w.next()
	case step == 5 && job >= 0 && !w.running[job]:
		w.here[paths.ArchivePath(job)] = w.here[paths.JobPath(job)]
		delete(w.here, paths.JobPath(job))
		w.tracker.Changed(w.now, []string{paths.ArchivePath(job)})
		w.next()
	case step == 6:
		if _, drained := w.here[paths.DrainPath]; drained {
			delete(w.here, paths.DrainPath)
		} else {
			w.here[paths.DrainPath] = "drained"
		}
		w.tracker.Changed(w.now, []string{paths.DrainPath})
		w.next()
	case step == 7:
		w.advance(time.Duration(rapid.IntRange(1, 20_000).Draw(w.t, "ms")) * time.Millisecond)
	default:
		node := rapid.SampledFrom(slices.Sorted(maps.Keys(w.there))).Draw(w.t, "node")
		w.end(node, rapid.IntRange(0, callsMax-1).Draw(w.t, "call"), rapid.SampledFrom([]string{"ok", "ok", "ok", "refused", "lost answer", "late"}).Draw(w.t, "how"))
	}
}

// settle ends the processes and lets all calls succeed until no call and no timer is left.
func (w *world) settle() {
	for id := range w.running {
		w.tracker.ProcessEnded(w.now, id)
	}
	w.running = map[int64]bool{}
	w.next()
	for range 10_000 {
		open := 0
		for _, calls := range w.calls {
			open += len(calls)
		}
		if open == 0 && w.wake.IsZero() && len(w.effects) == 0 {
			return
		}
		for _, node := range slices.Sorted(maps.Keys(w.calls)) {
			w.end(node, 0, "ok")
		}
		if open == 0 {
			w.advance(time.Second)
		}
	}
	require.Fail(w.t, "the tracker finds no end", "%+v", w.tracker.State())
}

// checkSerial checks that the serial of a candidate runs ahead, but not far, and makes it equal.
func (w *world) checkSerial(there disk) {
	var serial int64
	_, err := fmt.Sscan(there[paths.SerialPath], &serial)
	require.NoError(w.t, err)
	require.GreaterOrEqual(w.t, serial, w.serial)
	require.LessOrEqual(w.t, serial, w.serial+serialAhead)
	there[paths.SerialPath] = w.here[paths.SerialPath]
}

// Whatever fails and overtakes what, each candidate has the same queue as the master in the end.
func TestCandidatesBecomeEqual(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, 2)
		for range rapid.IntRange(1, 120).Draw(t, "steps") {
			w.step()
		}
		w.settle()
		require.Empty(t, w.answers.wrong)
		require.Empty(t, w.answers.open)
		for node, there := range w.there {
			w.checkSerial(there)
			for file, content := range w.here {
				require.Equal(t, content, there[file], "%s on %s", file, node)
			}
			for file := range there {
				u, archived, _ := UnitOf(file)
				require.True(t, archived || w.here[file] != "", "%s of %d is left on %s", file, u, node)
			}
		}
		for _, n := range w.tracker.State() {
			require.Zero(t, n.Behind)
			require.True(t, n.Since.IsZero())
			require.False(t, n.Comparing)
		}
	})
}

// What is in the queue of a candidate before this node becomes master is made equal, too.
func TestASweepRepairsACandidate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, 1)
		w.serial = int64(rapid.IntRange(1, 600).Draw(t, "serial"))
		w.here[paths.SerialPath] = fmt.Sprint(w.serial)
		there := w.there["n0"]
		for id := int64(1); id <= w.serial; id += int64(rapid.IntRange(1, 40).Draw(t, "gap")) {
			kinds := []string{"live", "archive", "none"}
			content := fmt.Sprint("same ", id)
			for _, side := range []disk{w.here, there} {
				if side[paths.JobPath(id)] = content; rapid.Bool().Draw(t, "other content") {
					side[paths.JobPath(id)] += " or not"
				}
				switch rapid.SampledFrom(kinds).Draw(t, "kind") {
				case "archive":
					side[paths.ArchivePath(id)] = side[paths.JobPath(id)]
					delete(side, paths.JobPath(id))
				case "none":
					delete(side, paths.JobPath(id))
				}
			}
		}
		w.settle()
		w.checkSerial(there)
		for file, content := range w.here {
			require.Equal(t, content, there[file], file)
		}
		for file := range there {
			_, archived, _ := UnitOf(file)
			require.True(t, archived || w.here[file] != "", "%s is left", file)
		}
	})
}

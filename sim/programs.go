package sim

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"lockstep/actors/conn"
	"lockstep/core/lock"
)

// program is a process beside the jobs that takes locks over WConfD's socket. In a cluster it runs on the master, and ends when the daemon
// there does not answer: another master begins without locks.
type program struct {
	world   *World
	process *process
	rpc     *rpcClient
	name    string
	wants   []lock.Item // from its request until it is told that it has none of them any longer
	since   time.Time   // of the request
	has     bool        // from the grant until it asks to be freed of them
}

// programPolls is how often a program asks whether it has its locks.
const programPolls = 20 * time.Millisecond

func (w *World) newProgram(number int, n *node) *program {
	m := n.machine
	p := m.startClient(fmt.Sprintf("program_%d", number))
	made := &program{world: w, process: p, name: fmt.Sprintf("program-%d", number),
		rpc: &rpcClient{world: w, node: m.node, thread: p.thread, wconf: true, peer: conn.Peer{PID: p.pid, Program: "gnt-sim"}}}
	w.programs = append(w.programs, made)
	return made
}

func (p *program) identity() []any { return []any{p.name, p.process.livelock, p.process.pid} }

func (p *program) later(d time.Duration, f func()) {
	p.world.clock.After(d, p.process.life, func() { p.process.then(f) })
}

func (p *program) tracef(format string, args ...any) {
	p.world.trace.addf(topicProcess, "%s: %s", p.name, fmt.Sprintf(format, args...))
}

// take asks for locks until the program has them, and then calls taken. Items are "name" for an exclusive and "name:shared" for a shared
// lock.
func (p *program) take(items []string, taken func()) {
	var request [][2]string
	p.wants = nil
	for _, item := range items {
		name, mode, _ := strings.Cut(item, ":")
		l, err := lock.ParseLock(name)
		if err != nil {
			panic(err)
		}
		if mode == "shared" {
			p.wants = append(p.wants, lock.Item{Lock: l, Mode: lock.Shared})
		} else {
			mode = "exclusive"
			p.wants = append(p.wants, lock.Item{Lock: l, Mode: lock.Exclusive})
		}
		request = append(request, [2]string{name, mode})
	}
	p.since = p.world.clock.Now()
	var ask func()
	ask = func() {
		p.rpc.call("updateLocksWaiting", []any{p.identity(), 0, request}, answerMax, func(blockers json.RawMessage, err error) {
			if err == nil && string(blockers) == "[]" {
				p.has = true
				p.world.notify(programHasLocks{p})
				taken()
				return
			}
			if err != nil && p.world.oracle != nil {
				p.end(false)
				return
			}
			p.later(programPolls, ask)
		})
	}
	ask()
}

// free gives all locks back, and repeats that until it is acknowledged, and then calls freed. In a cluster an error ends the program.
func (p *program) free(freed func()) {
	p.has = false
	p.rpc.call("freeLocks", []any{p.identity()}, answerMax, func(_ json.RawMessage, err error) {
		if err != nil && p.world.oracle != nil {
			p.end(false)
			return
		}
		if err != nil {
			p.later(programPolls, func() { p.free(freed) })
			return
		}
		p.wants = nil
		freed()
	})
}

// end ends the process: in order, after which its lock file is gone, or by a signal.
func (p *program) end(inOrder bool) {
	p.tracef("ends, in order: %v", inOrder)
	if inOrder {
		delete(p.process.machine.livelocks, p.process.livelock)
		p.process.ended("exit status 0")
	} else {
		p.process.kill("SIGKILL")
	}
	p.rpc.hangUp()
}

// losePower ends the process of the program with its machine.
func (p *program) losePower() {
	p.process.ended("lost with its machine")
}

// gone forgets a program whose process has ended.
func (p *program) gone() {
	p.wants, p.has = nil, false
	p.world.programs = slices.DeleteFunc(p.world.programs, func(other *program) bool { return other == p })
}

// programWork is the work of programs in a run over random work: they compete with jobs for locks, and some die with them.
// They have their own dice, so that the other work of a seed does not depend on them.
type programWork struct {
	world  *World
	rng    *rand.Rand
	number int // programs so far
	left   int // requests left, over all programs
	busy   int // programs that are not done
}

const (
	// ProgramSeeds is the usual value of runOptions.Programs.
	ProgramSeeds = 4
	// programDice separates the dice of this work from others of the same seed.
	programDice = 0x9406
)

// programCount is the number of programs in the run of a seed: 1 or 2 in one of oneOf seeds, otherwise 0.
func programCount(seed uint64, oneOf int) int {
	rng := rand.New(rand.NewPCG(seed, programDice))
	if oneOf < 1 || rng.IntN(oneOf) > 0 {
		return 0
	}
	return 1 + rng.IntN(2)
}

func newProgramWork(w *World, count int) *programWork {
	k := &programWork{world: w, rng: rand.New(rand.NewPCG(w.options.Seed, programDice)), left: 12 * count, busy: count}
	for range count {
		k.launch()
	}
	return k
}

func (k *programWork) done() bool { return k == nil || k.busy == 0 }

// launch starts a program when a daemon has made the run directory, also in the place of one that has ended.
func (k *programWork) launch() {
	n := k.world.master()
	if n == nil || !n.daemon.ready {
		k.world.clock.After(time.Second, k.world.life, k.launch)
		return
	}
	k.number++
	p := k.world.newProgram(k.number, n)
	p.process.whenEnded(func() {
		p.gone()
		k.world.clock.After(time.Second, k.world.life, func() {
			if k.left > 0 {
				k.launch()
			} else {
				k.busy--
			}
		})
	})
	k.next(p)
}

func (k *programWork) next(p *program) {
	if k.left == 0 {
		p.end(true)
		return
	}
	k.left--
	p.later(time.Duration(k.rng.IntN(1500))*time.Millisecond, func() {
		if k.rng.IntN(6) == 0 { // it dies at some moment, perhaps with locks, or while it waits
			k.world.clock.After(time.Duration(k.rng.IntN(3000))*time.Millisecond, p.process.life, func() { p.end(false) })
		}
		p.take(k.locks(), func() {
			p.tracef("has its locks")
			p.later(time.Duration(k.rng.IntN(2500))*time.Millisecond, func() { p.free(func() { k.next(p) }) })
		})
	})
}

// locks draws locks that jobs want too, in lock order.
func (k *programWork) locks() []string {
	all := [][]string{
		{"node/a"}, {"node/a:shared"}, {"node/b"}, {"node/a", "node/b"},
		{"instance/i", "node/a:shared"}, {"instance/i"}, {"node-res/a"},
	}
	return all[k.rng.IntN(len(all))]
}

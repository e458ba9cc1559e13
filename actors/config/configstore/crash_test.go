package configstore_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/config/configstore"
	"lockstep/actors/kittest"
	"lockstep/core/config/journal"
	"lockstep/sim/longtest"
	"lockstep/sim/simdisk"
)

// outcome is what the client of a workload knows: the names of the cluster that answered and rejected changes have set.
type outcome struct {
	sent               map[uint64][]string // by request: not answered yet
	answered, rejected map[string]bool
	loaded             uint64 // the last Load that has succeeded
}

// sendChange sends a request of so many records.
func (o *outcome) sendChange(b *bench, records int) {
	m := &configstore.AddRecords{}
	var names []string
	for range records {
		m.Records = append(m.Records, b.record())
		names = append(names, b.name())
	}
	o.sent[b.ask(func(n uint64) any { m.Request = n; return m })] = names
}

// collect takes the answers.
func (o *outcome) collect(b *bench) {
	for _, m := range b.client.Unread() {
		switch m := m.(type) {
		case *configstore.AddRecordsResult:
			into := o.answered
			if m.Failure != nil || m.Refused {
				into = o.rejected
			}
			for _, name := range o.sent[m.Request] {
				into[name] = true
			}
			delete(o.sent, m.Request)
		case *configstore.Loaded:
			if m.Failure == nil {
				b.state, b.records, o.loaded = m.State, m.Number, m.Request
			}
		}
	}
}

// workload makes changes in every state of the journal: alone and together, before, during and after folds. After each step the
// client loads the state, as after a failure. It ends at the first request that has no answer after a minute.
func (b *bench) workload() *outcome {
	o := &outcome{sent: map[uint64][]string{}, answered: map[string]bool{}, rejected: map[string]bool{}}
	for _, step := range []func(){
		func() { o.sendChange(b, 1) },
		func() {
			for range 3 {
				o.sendChange(b, 2)
			}
		},
		func() { b.Advance(100 * time.Millisecond) },
		func() {
			o.sendChange(b, 1)
			b.ask(func(n uint64) any { return &configstore.Flush{Request: n} })
			o.sendChange(b, 1)
		},
		func() { b.Advance(5 * time.Second) },
		func() { o.sendChange(b, 1) },
	} {
		step()
		b.Settle()
		o.collect(b)
		for range 10 {
			if len(o.sent) > 0 {
				b.Advance(6 * time.Second) // a replacement of the journal is repeated
				o.collect(b)
			}
		}
		if len(o.sent) > 0 {
			return o
		}
		b.ask(func(n uint64) any { return &configstore.Load{Request: n} })
		b.Settle()
		o.collect(b)
	}
	return o
}

// requireOutcome requires that the state has each answered change and no rejected one, in memory and on the disk.
func (b *bench) requireOutcome(o *outcome) {
	b.Helper()
	for range 20 {
		if b.load().Failure == nil {
			break
		}
		b.Advance(5 * time.Second)
	}
	b.Advance(time.Minute) // the journal can be replaced meanwhile
	b.agree()
	present := map[string]bool{}
	for name := b.name(); name != ""; name = b.parents[name] {
		present[name] = true
	}
	for name := range o.answered {
		require.True(b, present[name], "the answered change %s is lost", name)
	}
	for name := range o.rejected {
		require.False(b, present[name], "the rejected change %s is there", name)
	}
}

// calls are the calls to the disk of a workload without faults.
func calls(t *testing.T) (all []string) {
	onDisk(t, newDisk(t), func(b *bench) {
		b.load()
		o := b.workload()
		require.Empty(t, o.rejected)
		require.Len(t, o.answered, 10)
		all = b.gate.calls
	})
	return all
}

// The power is lost at each step of the disk, and again at each step of the start after it.
func TestPowerLossAtEachStep(t *testing.T) {
	lossy := func(b *bench, seed uint64) func() {
		return func() { b.disk.LosePower(rand.New(rand.NewPCG(seed, 1))) }
	}
	count := len(calls(t))
	for step := 1; step <= count; step++ {
		t.Run(fmt.Sprint(step), func(t *testing.T) {
			for seed := range longtest.Times(uint64(3)) {
				onDisk(t, newDisk(t), func(b *bench) {
					b.gate.stopAt = step
					if m := b.load(); m.Failure != nil {
						return // nothing has been written
					}
					o := b.workload()
					b.reboot(lossy(b, seed))
					b.gate.stopAt = 1 + rand.New(rand.NewPCG(seed, uint64(step))).IntN(12)
					b.Restart(b.pid)
					b.Advance(time.Second)
					b.reboot(lossy(b, seed+100))
					b.requireOutcome(o)
					b.change()
					b.reboot(nil)
					b.agree()
					require.Nil(t, b.flush())
					b.requireHistory()
				})
			}
		})
	}
}

// A disk that breaks its promise is found: these tests can fail.
func TestALostSyncIsFound(t *testing.T) {
	lost := false
	for seed := range uint64(20) {
		onDisk(t, newDisk(t), func(b *bench) {
			b.disk.Mutations.SkipAppendSync = true
			b.load()
			b.send(b.record())
			b.expectAppended()
			name := b.name()
			b.reboot(func() { b.disk.LosePower(rand.New(rand.NewPCG(seed, 1))) })
			b.load()
			lost = lost || b.name() != name
		})
	}
	require.True(t, lost)
}

// After a fold the journal is another file. A change that is appended to it survives a power loss, and so does what Flush has written.
func TestPowerLossAfterAFold(t *testing.T) {
	for seed := range uint64(20) {
		onBench(t, func(b *bench) {
			release := b.gate.hold("replace config.data")
			b.change()
			b.Advance(100 * time.Millisecond)
			b.change()
			release()
			b.Settle()
			b.change()
			b.reboot(func() { b.disk.LosePower(rand.New(rand.NewPCG(seed, 1))) })
			b.agree()
			b.gate.hold("remove config.journal")
			require.Nil(t, b.flush())
			content, durable := b.surviving("config.data")
			require.True(t, durable)
			require.Equal(t, string(b.state.Config.JSON()), string(content))
			b.gate.free <- struct{}{}
		})
	}
}

// The disk refuses each call once, three times, or for a while, with and without effect. Every answer is true, and memory, journal
// and file agree afterwards.
func TestTheDiskRefusesEachCall(t *testing.T) {
	counts := map[string]int{"config": 14, "config-journal": 12, "config-extra": 3, "config-tempres": 3, "config-history": 6, "sync-dir": 16}
	for _, op := range slices.Sorted(maps.Keys(counts)) {
		for nth := 1; nth <= counts[op]; nth++ {
			t.Run(fmt.Sprintf("%s-%d", op, nth), func(t *testing.T) {
				for _, when := range []simdisk.FaultWhen{simdisk.AfterEffect, simdisk.PartEffect, simdisk.BeforeEffect}[:longtest.Times(3)] {
					for _, times := range []int{1, 3} {
						refuse(t, simdisk.Fault{Op: op, Nth: nth, Times: times, Err: syscall.EIO, When: when})
					}
				}
			})
		}
	}
}

func refuse(t *testing.T, f simdisk.Fault) {
	onDisk(t, newDisk(t), func(b *bench) {
		b.disk.Fail(f)
		for range 10 {
			if b.load().Failure == nil {
				break
			}
			b.Advance(time.Second)
		}
		o := b.workload()
		require.Empty(t, o.sent, "a request has no answer")
		b.requireOutcome(o)
		b.disk.Heal()
		b.change()
		b.drain()
		require.Nil(t, b.find("config.journal"))
		b.requireHistory()
		b.reboot(func() { b.disk.LosePower(rand.New(rand.NewPCG(uint64(f.Nth), 1))) })
		b.requireOutcome(o)
	})
}

// The actor restarts at each moment of an append, its fold and a flush. The client repeats its open requests.
func TestRestartAtEachMoment(t *testing.T) {
	for _, call := range []string{"append config.journal", "replace config.extra", "replace tempres.data", "replace config.data", "remove config.journal", "append config.history",
		"sync .", "identify config.data", "replace config.journal"} {
		onBench(t, func(b *bench) {
			b.change()
			release := b.gate.hold(call)
			open := []*journal.Record{b.record(), b.record()}
			requests := func() {
				b.send(open[0])
				b.ask(func(n uint64) any { return &configstore.Flush{Request: n} })
				b.send(open[1])
			}
			requests()
			b.Advance(150 * time.Millisecond)
			b.Crash(b.pid)
			b.client.Unread()
			release()
			b.Advance(kittest.Backoff)
			kittest.Expect[*configstore.Started](b.client)
			requests()
			b.expectAppended()
			require.Nil(t, kittest.Expect[*configstore.Flushed](b.client).Failure)
			b.expectAppended()
			b.agree()
			b.drain()
			require.Nil(t, b.find("config.journal"))
			b.requireHistory()
			b.reboot(nil)
			b.agree()
		})
	}
}

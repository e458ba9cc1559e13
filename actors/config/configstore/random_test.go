package configstore_test

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"lockstep/actors/config/configstore"
	"lockstep/core/paths"
	"lockstep/sim/longtest"
	"lockstep/sim/simdisk"
)

// Changes, folds, faults of the disk, crashes and power losses in random order: each answered change is there, no rejected one is.
func TestAnyOrderOfFaults(t *testing.T) {
	for seed := range longtest.Times(uint64(200)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			onDisk(t, newDisk(t), func(b *bench) {
				b.load()
				o := &outcome{sent: map[uint64][]string{}, answered: map[string]bool{}, rejected: map[string]bool{}}
				rng := rand.New(rand.NewPCG(seed, 2))
				for range 40 {
					b.event(o, rng)
				}
				b.disk.Heal()
				b.Advance(time.Minute)
				o.collect(b)
				b.reboot(func() { b.disk.LosePower(rng) })
				b.requireOutcome(o)
			})
		})
	}
}

// event lets one thing happen. After a failure, a refusal or a restart the client loads the state.
func (b *bench) event(o *outcome, rng *rand.Rand) {
	switch rng.IntN(16) {
	case 0, 1, 2, 3:
		for range rng.IntN(3) + 1 {
			o.sendChange(b, rng.IntN(2)+1)
		}
	case 4:
		b.ask(func(n uint64) any { return &configstore.Flush{Request: n} })
	case 5, 6, 7:
		b.Advance(time.Duration(rng.IntN(300)) * time.Millisecond)
	case 8:
		b.Advance(5 * time.Second)
	case 9, 10:
		ops := []string{"config", "config-journal", "config-extra", "config-tempres", "sync-dir"}
		when := []simdisk.FaultWhen{simdisk.BeforeEffect, simdisk.PartEffect, simdisk.AfterEffect}
		b.disk.Fail(simdisk.Fault{Op: ops[rng.IntN(len(ops))], Nth: rng.IntN(3) + 1, Times: rng.IntN(3) + 1, Err: syscall.EIO, When: when[rng.IntN(len(when))]})
	case 11:
		b.Crash(b.PID("above-store/store"))
		b.Advance(time.Second)
	case 12:
		b.Restart(b.pid)
		o.forget(b)
	case 13:
		b.reboot(func() { b.disk.LosePower(rng) })
		clear(o.sent)
		b.tryLoad(o)
	case 14:
		b.reboot(nil)
		clear(o.sent)
		b.tryLoad(o)
	case 15:
		if b.find(paths.ConfigPath) != nil {
			b.disk.Touch(paths.ConfigPath)
		}
	}
	if rng.IntN(3) > 0 {
		b.Settle()
		rejected := len(o.rejected)
		o.collect(b)
		if len(o.rejected) > rejected {
			b.settleAnswers(o)
			b.tryLoad(o)
		}
	}
}

// settleAnswers waits for the answers to all requests: those that are based on a rejected change are rejected too.
func (b *bench) settleAnswers(o *outcome) {
	for range 20 {
		if len(o.sent) == 0 {
			return
		}
		b.Advance(3 * time.Second)
		o.collect(b)
	}
}

// forget drops the requests that a former incarnation may not have answered: their outcome is unknown.
func (o *outcome) forget(b *bench) {
	o.collect(b)
	clear(o.sent)
	b.tryLoad(o)
}

// tryLoad loads the state as soon as the files can be read and written.
func (b *bench) tryLoad(o *outcome) {
	for range 40 {
		number := b.ask(func(n uint64) any { return &configstore.Load{Request: n} })
		b.Settle()
		if o.collect(b); o.loaded == number {
			return
		}
		b.Advance(3 * time.Second)
	}
	b.Fatal("the configuration cannot be loaded")
}

package sim

import (
	"math/rand/v2"
	"time"

	"lockstep/core/replication"
)

// programTimes are the shortest times of elections that the programs of a cluster's nodes know.
type programTimes struct {
	// dice choose a program for each start of a daemon, as in a rolling upgrade or its undoing; nil: all nodes have the present program.
	dice *rand.Rand
}

// shortTimes are those of a program that knows shorter times than the first versions.
var shortTimes = replication.Times{Heartbeat: 500 * time.Millisecond, Lease: 375 * time.Millisecond}

// mixesTimes reports whether the nodes of a cluster have programs that know different times: in one of four seeds.
func mixesTimes(seed uint64) bool { return rand.New(rand.NewPCG(seed, 0x71e5)).IntN(4) == 0 }

// mix gives the nodes programs that know different times.
func (t *programTimes) mix(seed uint64) { t.dice = rand.New(rand.NewPCG(seed, 0x71e6)) }

// next chooses the program with which a daemon of a node starts. Two of three are new.
func (t *programTimes) next() replication.Times {
	switch {
	case t.dice == nil:
		return replication.KnownTimes()
	case t.dice.IntN(3) == 0:
		return replication.InitialTimes()
	}
	return shortTimes
}

package sim

import (
	"encoding/json"
	"math/rand/v2"
	"time"

	"lockstep/core/budget"
)

// crowd is one user in a run over random work who takes all connections that the daemon gives: some send nothing, some ask without a pause,
// some take answers late or never. The user has separate dice, so that the other work of a seed does not depend on the crowd.
type crowd struct {
	world *World
	rng   *rand.Rand
	left  int // visits left, over all connections
	busy  int // connections that are not done
}

const (
	// CrowdSeeds is the usual value of runOptions.Crowd.
	CrowdSeeds = 8
	// crowdDice separates the dice of this work from others of the same seed.
	crowdDice = 0xc4d
	// crowdSize is the number of connections that the user wants at a time.
	crowdSize = entranceMax + 4
)

// crowdUser is the client as which the user of a crowd counts.
var crowdUser = budget.Client{Name: "crowd"}

func newCrowd(w *World, seed uint64, oneOf int) *crowd {
	rng := rand.New(rand.NewPCG(seed, crowdDice))
	if oneOf < 1 || rng.IntN(oneOf) > 0 {
		return nil
	}
	k := &crowd{world: w, rng: rng, left: 10 * crowdSize, busy: crowdSize}
	for range crowdSize {
		c := w.newClient()
		c.rpc.as, c.rpc.mayDrop = crowdUser, false
		k.think(c)
	}
	return k
}

func (k *crowd) done() bool { return k == nil || k.busy == 0 }

func (k *crowd) think(c *client) {
	c.later(time.Duration(k.rng.IntN(1000))*time.Millisecond, func() { k.visit(c) })
}

func (k *crowd) visit(c *client) {
	if k.left == 0 {
		c.rpc.takesAfter = 0
		c.rpc.hangUp()
		k.busy--
		return
	}
	k.left--
	asked := func(json.RawMessage, error) { k.think(c) }
	switch k.rng.IntN(4) {
	case 0: // sends nothing
		if c.rpc.conn == nil {
			c.rpc.conn = c.rpc.node.dial(c.rpc)
		}
		c.later(time.Duration(k.rng.IntN(5))*time.Second, func() { k.think(c) })
	case 1:
		c.rpc.takesAfter = 0
		c.rpc.call("LockstepListJobs", []any{map[string]any{}}, answerMax, asked)
	default:
		c.rpc.takesAfter = time.Duration(1+k.rng.IntN(80)) * time.Second
		c.rpc.call("QueryJobs", []any{nil, []string{"id", "status", "opresult"}}, answerMax, asked)
	}
}

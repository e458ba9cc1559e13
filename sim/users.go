package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"lockstep/core/wire"
)

// users is the work of clients of several accounts in a run over random work: each does what its role permits, and what it does not, under
// claims that are not true. It has separate dice, so that the other work of a seed does not depend on it.
type users struct {
	world *World
	rng   *rand.Rand
	left  int      // requests left, over all clients
	busy  int      // clients that are not done
	rules []string // without an end
	made  int      // rules and settings so far
}

const (
	// UserSeeds is the usual value of runOptions.Users.
	UserSeeds = 6
	// userDice separates the dice of this work from others of the same seed.
	userDice = 0x40fe
	// userTriesMax bounds the repetitions of a call that must succeed.
	userTriesMax = 300
)

// firstGrants are the roles that are given when the run begins.
var firstGrants = [][2]string{{"operate", "group:ops"}, {"read", "user:rita"}, {"admin", "uid:2005"}}

// userCount is the number of clients of other accounts in the run of a seed: 3 to 6 in one of oneOf seeds, otherwise 0.
func userCount(seed uint64, oneOf int) int {
	rng := rand.New(rand.NewPCG(seed, userDice))
	if oneOf < 1 || rng.IntN(oneOf) > 0 {
		return 0
	}
	return 3 + rng.IntN(4)
}

func newUsers(w *World, count int) *users {
	k := &users{world: w, rng: rand.New(rand.NewPCG(w.options.Seed, userDice)), left: 12 * count, busy: count + 1}
	k.grantFirst(0)
	first := k.rng.IntN(len(userAccounts))
	for i := range count {
		c := w.newClient()
		c.rpc.account = userAccounts[(first+i)%len(userAccounts)]
		c.rpc.forges, c.rpc.forwards = k.rng.IntN(2) == 0, k.rng.IntN(2) == 0
		k.think(c)
	}
	return k
}

func (k *users) done() bool { return k == nil || k.busy == 0 }

// grantFirst gives the nth of the first roles, and then the others.
func (k *users) grantFirst(n int) {
	if n == len(firstGrants) {
		k.busy--
		return
	}
	k.untilDone("LockstepGrant", []any{firstGrants[n][0], firstGrants[n][1]}, func() { k.grantFirst(n + 1) })
}

// untilDone makes a call of the daemon's user, and repeats it until it has an answer.
func (k *users) untilDone(method string, args []any, then func()) {
	c, tries := k.world.newClient(), 0
	var next func()
	next = func() {
		c.rpc.call(method, args, answerMax, func(_ json.RawMessage, err error) {
			if tries++; err != nil && tries < userTriesMax {
				c.later(time.Second, next)
				return
			}
			then()
		})
	}
	next()
}

// think pauses, and makes the next request of a client.
func (k *users) think(c *client) {
	c.later(time.Duration(k.rng.IntN(1500))*time.Millisecond, func() {
		if k.left == 0 {
			k.busy--
			return
		}
		k.left--
		k.act(c)
	})
}

func (k *users) act(c *client) {
	again := func() { k.think(c) }
	switch k.rng.IntN(12) {
	case 0, 1, 2:
		k.submit(c)
	case 3:
		c.cancel(k.anyJob(), k.rng.IntN(2) == 0, again)
	case 4:
		c.reprioritise(k.anyJob(), k.rng.IntN(20)-10, again)
	case 5:
		k.hold(c)
	case 6:
		k.orderSeveral(c)
	case 7:
		k.changeRule(c)
	case 8:
		k.drain(c)
	case 9:
		k.grant(c)
	case 10:
		k.made++
		c.set(map[string]any{"log_limit": 1_000_000 + k.made}, func(error) { again() })
	default:
		k.knock(c)
	}
}

// anyJob is a job of any user, or one that does not exist.
func (k *users) anyJob() int64 { return 1 + k.rng.Int64N(k.world.serial()+1) }

// submit submits jobs that the role of the client permits, and others: urgent ones, ones with all locks, opcodes of administrators, in
// the name of another account. They claim to be the daemon's user's, and the names of submissions are those that other users choose too.
func (k *users) submit(c *client) {
	op := OpSpec(fmt.Sprintf("run run_for=%g locks=node/a claims request=users.%d", []float64{0, 0.1, 2}[k.rng.IntN(3)], c.sent))
	s := &submission{jobs: [][]OpSpec{{op}}}
	switch k.rng.IntN(8) {
	case 0:
		s.jobs[0][0] += " priority=-5"
	case 1:
		s.jobs[0][0] = "run run_for=0.1 locks=cluster/BGL claims"
	case 2:
		s.jobs[0][0] = "delay 0.1 claims"
	case 3:
		s.jobs = append(s.jobs, []OpSpec{"run run_for=0.1 claims", "run run_for=0.1 locks=node/[lockset] claims"})
	case 4:
		s.as, s.jobs[0][0] = userAccounts[k.rng.IntN(len(userAccounts))], "run run_for=0.1 claims"
	}
	c.submitAs(s, func(*submission) { k.think(c) })
}

// hold holds a job. The daemon's user releases it, since the client may not be permitted to.
func (k *users) hold(c *client) {
	id := k.anyJob()
	c.setHold(id, true, func(bool, bool, string) {
		c.later(time.Duration(k.rng.IntN(2000))*time.Millisecond, func() {
			c.setHold(id, false, func(bool, bool, string) {
				k.busy++
				k.world.newClient().release(id, func() { k.busy-- })
				k.think(c)
			})
		})
	})
}

// orderSeveral gives one order for two jobs, which may be of several users.
func (k *users) orderSeveral(c *client) {
	ids := []int64{k.anyJob(), k.anyJob()}
	args := []any{"priority", ids, k.rng.IntN(20) - 5}
	kill := k.rng.IntN(2) == 0
	if kill {
		args = []any{"kill", ids}
	}
	for _, id := range ids {
		k.world.notify(orderSent{c, id, kill})
	}
	c.rpc.call("LockstepOrderJobs", args, answerMax, func(result json.RawMessage, err error) {
		c.tracef("LockstepOrderJobs %v: is told: %s %v", args, result, err)
		for _, id := range ids {
			k.world.notify(orderAnswered{c, id, err})
		}
		k.think(c)
	})
}

// changeRule adds a rule, or deletes one.
func (k *users) changeRule(c *client) {
	if len(k.rules) > 0 && k.rng.IntN(2) == 0 {
		c.deleteFilter(k.rules[k.rng.IntN(len(k.rules))], func(error) { k.think(c) })
		return
	}
	k.made++
	uuid := fmt.Sprintf("%08x-0000-4000-8000-%012x", userDice, k.made)
	r := rule{uuid: uuid, priority: k.made % 3, predicates: predicateList(nil), action: "CONTINUE"}
	if k.made%2 == 0 {
		r.action, r.lasts = "PAUSE", time.Second
	}
	if r.lasts == 0 {
		k.rules = append(k.rules, r.uuid)
	}
	c.replaceFilter(r, func(string, error) { k.think(c) })
}

// drain drains the queue for a while. The daemon's user ends that.
func (k *users) drain(c *client) {
	c.rpc.call("SetDrainFlag", []any{true}, answerMax, func(_ json.RawMessage, err error) {
		c.tracef("SetDrainFlag: is told: %v", err)
		if isRefusal(err) {
			k.think(c)
			return
		}
		k.busy++
		c.later(time.Duration(k.rng.IntN(1000))*time.Millisecond, func() {
			k.untilDone("SetDrainFlag", []any{false}, func() { k.busy-- })
		})
		k.think(c)
	})
}

// grant gives a role to an account, or takes it. Most of those who ask may not.
func (k *users) grant(c *client) {
	who := []string{"user:" + c.rpc.account.name, "user:gus", "group:dba", "uid:2001"}[k.rng.IntN(4)]
	role := []string{"read", "submit", "operate", "admin"}[k.rng.IntN(4)]
	method := []string{"LockstepGrant", "LockstepRevoke"}[k.rng.IntN(2)]
	c.rpc.call(method, []any{role, who}, answerMax, func(result json.RawMessage, err error) {
		c.tracef("%s %s %s: is told: %s %v", method, role, who, result, err)
		k.think(c)
	})
}

// knock makes a call that only processes of the daemon may make.
func (k *users) knock(c *client) {
	method, args := "LockstepOpenSession", []any{"00", "user=root", "root", "p"}
	switch k.rng.IntN(3) {
	case 0:
		method, args = "LockstepReportJob", []any{k.anyJob(), "/livelock"}
	case 1:
		method, args = "LockstepBeginOpcode", []any{k.anyJob(), "/livelock", 0}
	}
	c.rpc.call(method, args, answerMax, func(_ json.RawMessage, err error) {
		c.tracef("%s: is told: %v", method, err)
		k.think(c)
	})
}

// isRefusal reports whether the error says that the client has no permission.
func isRefusal(err error) bool {
	failed, is := errors.AsType[*wire.Error](err)
	return is && failed.Class == "OpPrereqError" && len(failed.Args) > 1 && string(failed.Args[1]) == `"not_permitted"`
}

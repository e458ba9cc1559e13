package sim

import (
	"encoding/binary"
	"encoding/json"
	"math/rand/v2"
	"time"

	"lockstep/core/answer"
	"lockstep/core/paths"
	"lockstep/core/session"
)

// browsers is the work of browsers at the console in a run over random work, as its edge asks for them: they log in, show their session
// now and then, log out, and show it again. It has its own dice, so that the other work of a seed does not depend on it.
//
// A node without a cluster begins with sessions of an earlier daemon, some of which expire during the run.
type browsers struct {
	world    *World
	rng      *rand.Rand
	requests *requestLog
	left     int // visits left, over all browsers
	busy     int // browsers that are not done
	made     uint64
	old      []session.Session // of an earlier daemon, that no visit has used
	first    []byte            // the file that the earlier daemon has left; nil: none
}

// browserSeeds: about one of so many seeds has browsers.
const browserSeeds = 8

// browserDice separates the dice of this work from others of the same seed.
const browserDice = 0xb0b5

// untilExpiry is when sessions of an earlier daemon expire, after the begin of the run.
var untilExpiry = []time.Duration{-time.Minute, -2 * time.Second, 3 * time.Second, 5 * time.Second, 8 * time.Second, time.Minute}

func newBrowsers(w *World, count, visits int, recipe *Recipe) *browsers {
	dice := rand.NewPCG(w.options.Seed, browserDice)
	k := &browsers{world: w, rng: rand.New(dice), requests: newRequestLog(dice, recipe), left: visits, busy: count}
	if len(w.nodes) == 1 {
		k.leaveSessions()
	}
	for range count {
		k.think(w.newClient())
	}
	return k
}

func (k *browsers) done() bool { return k == nil || k.busy == 0 }

func (k *browsers) newSession() session.Session {
	k.made++
	return session.Session{Hash: session.HashOf(binary.BigEndian.AppendUint64(nil, k.made)), User: "user=sim", Name: "sim", Proof: "p"}
}

// leaveSessions makes the sessions that an earlier daemon has left, with different times until they expire.
func (k *browsers) leaveSessions() {
	table, err := session.Decode(nil)
	if err != nil {
		panic(err)
	}
	for _, d := range untilExpiry {
		s := k.newSession()
		used := k.world.clock.Now().Add(d - session.Idle).Truncate(time.Second)
		table = table.Open(s, used)
		k.old = append(k.old, s)
		k.world.notify(loginKept{s.Hash, used})
	}
	k.first = table.Encode()
}

// firstSessions writes the file of sessions of an earlier daemon, if the run has browsers.
func (n *node) firstSessions() error {
	if n.world.browsers == nil || n.world.browsers.first == nil {
		return nil
	}
	return n.disk.Replace("first-sessions", paths.SessionsPath, n.world.browsers.first)
}

// think schedules the next visit of a browser after a pause.
func (k *browsers) think(c *client) {
	pause := time.Duration(k.rng.IntN(3000)) * time.Millisecond
	k.requests.scheduleNext(c, pause, func() { k.visit(c) })
}

func (k *browsers) visit(c *client) {
	if what := k.requests.begin(c, func() requestKind {
		if k.left == 0 {
			return requestNone
		}
		return requestBrowse
	}); what == requestNone {
		k.busy--
		return
	}
	k.left--
	v := &visit{work: k, client: c, rng: rand.New(rand.NewPCG(k.rng.Uint64(), browserDice))}
	if len(k.old) > 0 && v.rng.IntN(2) == 0 {
		i := v.rng.IntN(len(k.old))
		v.session = k.old[i]
		k.old = append(k.old[:i:i], k.old[i+1:]...)
		v.next()
		return
	}
	v.session = k.newSession()
	v.open()
}

// visit is what one browser does with one session.
type visit struct {
	work    *browsers
	client  *client
	rng     *rand.Rand
	session session.Session
	calls   int
}

// visitCalls is the number of calls of one visit, without the login.
const visitCalls = 8

func (v *visit) open() {
	sent := v.client.world.clock.Now()
	s := v.session
	v.client.world.notify(loginSent{s.Hash})
	v.call("LockstepOpenSession", []any{s.Hash, s.User, s.Name, s.Proof}, func(a answer.Session, err error) {
		v.client.world.notify(loginAnswered{s.Hash, sent, err == nil && a.Valid})
		v.next()
	})
}

// next makes the next call: a look in most cases, and one log-out in some visits.
func (v *visit) next() {
	if v.calls++; v.calls > visitCalls {
		v.work.think(v.client)
		return
	}
	logout := v.calls == 3 && v.rng.IntN(2) == 0
	v.client.later(time.Duration(v.rng.IntN(2500))*time.Millisecond, func() {
		if logout {
			v.logout()
		} else {
			v.look()
		}
	})
}

func (v *visit) look() {
	asked := loginLooked{hash: v.session.Hash, sent: v.client.world.clock.Now(), step: v.client.world.stepCount}
	v.call("LockstepCheckSession", []any{v.session.Hash}, func(a answer.Session, err error) {
		asked.valid, asked.err = a.Valid, err
		v.client.world.notify(asked)
		v.next()
	})
}

func (v *visit) logout() {
	v.client.world.notify(logoutSent{v.session.Hash})
	v.callAsConsole("LockstepEndSession", []any{v.session.Hash}, func(_ json.RawMessage, err error) {
		v.client.tracef("log-out: is told: %v", err)
		v.client.world.notify(logoutAnswered{v.session.Hash, err == nil})
		v.next()
	})
}

func (v *visit) call(method string, args []any, done func(answer.Session, error)) {
	v.callAsConsole(method, args, func(result json.RawMessage, err error) {
		var a answer.Session
		if err == nil {
			mustDecode(result, &a)
		}
		v.client.tracef("%s %.8s: is told: %v %v", method, v.session.Hash, a.Valid, err)
		done(a, err)
	})
}

// callAsConsole makes a call that only the console of a node may make.
func (v *visit) callAsConsole(method string, args []any, done func(json.RawMessage, error)) {
	rpc := v.client.rpc
	rpc.console = true
	rpc.call(method, args, answerMax, func(result json.RawMessage, err error) {
		rpc.console = false
		done(result, err)
	})
}

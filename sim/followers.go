package sim

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"lockstep/core/job"
)

// followers is the work of clients that submit jobs and read all of their output, in a run over random work, beside other readers of the
// same output. Some are slow, stall, vanish, come late or never. They have separate dice, so that the other work of a seed does not depend
// on them.
type followers struct {
	world *World
	rng   *rand.Rand
	left  int // jobs left, over all clients
	busy  int // clients that are not done
}

const (
	// FollowerSeeds is the usual value of runOptions.Followers.
	FollowerSeeds = 8
	// followerDice separates the dice of this work from others of the same seed.
	followerDice = 0xf0110
)

// followerCount is the number of clients that follow jobs in the run of a seed: 1 to 3 in one of oneOf seeds, otherwise 0.
func followerCount(seed uint64, oneOf int) int {
	rng := rand.New(rand.NewPCG(seed, followerDice))
	if oneOf < 1 || rng.IntN(oneOf) > 0 {
		return 0
	}
	return 1 + rng.IntN(3)
}

func newFollowers(w *World, count int) *followers {
	k := &followers{world: w, rng: rand.New(rand.NewPCG(w.options.Seed, followerDice)), left: 4 * count, busy: count}
	for i := range count {
		c, other := w.newClient(), w.newClient()
		if i > 0 {
			k.think(c, other)
			continue
		}
		c.later(time.Second, func() {
			c.set(map[string]any{"output_wait": []float64{2, 10, 60}[k.rng.IntN(3)]}, func(error) { k.think(c, other) })
		})
	}
	return k
}

func (k *followers) done() bool { return k == nil || k.busy == 0 }

// think pauses, and submits the next job. A second client, other, sometimes cancels it.
func (k *followers) think(c, other *client) {
	c.later(time.Duration(k.rng.IntN(2000))*time.Millisecond, func() {
		if k.left == 0 {
			k.busy--
			return
		}
		k.left--
		k.submit(c, other)
	})
}

func (k *followers) submit(c, other *client) {
	ops := make([]OpSpec, 1+k.rng.IntN(2))
	for i := range ops {
		ops[i] = OpSpec(fmt.Sprintf("run writes=%d every=%g run_for=%g", []int{0, 1, 3, 30, 80}[k.rng.IntN(5)],
			[]float64{0, 0.01, 0.2}[k.rng.IntN(3)], []float64{0, 1}[k.rng.IntN(2)]))
		if k.rng.IntN(6) == 0 {
			ops[i] += " timeout=15"
		}
	}
	s := &submission{jobs: [][]OpSpec{ops}, followed: k.rng.IntN(5) > 0}
	c.submitAs(s, func(s *submission) {
		if s.ids == nil {
			k.think(c, other)
			return
		}
		f := &following{followers: k, client: c, other: other, id: s.ids[0]}
		f.begin(s.followed)
	})
}

// following is the readers of one job.
type following struct {
	followers     *followers
	client, other *client
	id            int64
	readers       []*outputReader
	left          int    // readers, orders and waits that have not ended
	status        string // of the job at its end; "": unknown
}

func (f *following) begin(followed bool) {
	k := f.followers
	f.left = 1
	if plan, comes := k.plan(); followed && comes {
		f.read(true, plan)
	}
	for range []int{0, 0, 1, 2, 5}[k.rng.IntN(5)] {
		f.read(false, readingPlan{pause: time.Duration(k.rng.IntN(3000)) * time.Millisecond, stallAt: k.rng.IntN(4), vanishAt: 6 * k.rng.IntN(2)})
	}
	if k.rng.IntN(6) == 0 {
		f.left++
		f.other.later(time.Duration(k.rng.IntN(20))*time.Second, func() { f.other.cancel(f.id, k.rng.IntN(2) == 0, f.ended) })
	}
	f.client.awaitEnd(f.id, func(status string) {
		f.status = status
		for _, r := range f.readers {
			r.jobEnded()
		}
		f.client.later(streamPatience, f.ended)
	})
}

// read adds a reader, now or after a while.
func (f *following) read(follows bool, plan readingPlan) {
	k := f.followers
	f.left++
	f.client.later(time.Duration(k.rng.IntN(4)*k.rng.IntN(12000))*time.Millisecond, func() {
		r := f.client.readOutput(f.id, follows, plan, f.ended)
		f.readers = append(f.readers, r)
		if f.status != "" {
			r.jobEnded()
		}
	})
}

// plan is what the follower of a job does. comes is false if it does not come.
func (k *followers) plan() (p readingPlan, comes bool) {
	frames := max(1, k.rng.IntN(24)-11)
	switch k.rng.IntN(8) {
	case 0:
		return p, false
	case 1:
		p.stallAt, p.stall = frames, time.Duration(1+k.rng.IntN(20_000))*time.Millisecond
	case 2:
		p.stallAt = frames
	case 3:
		p.vanishAt = frames
	case 4, 5:
		p.breaks, p.away = frames, time.Duration(k.rng.IntN(40))*time.Second
	case 6:
		p.pause = time.Duration(k.rng.IntN(1500)) * time.Millisecond
	}
	return p, true
}

// ended is called for each reader, order and wait. The client then reads the log, as one whose readers have all lost their connection does.
func (f *following) ended() {
	if f.left--; f.left > 0 {
		return
	}
	next := func() { f.followers.think(f.client, f.other) }
	if f.status == "" {
		next()
		return
	}
	f.client.readLog(f.id, 0, next)
}

// readLog reads the log of a job, and calls done.
func (c *client) readLog(id int64, tries int, done func()) {
	c.rpc.call("QueryJobs", []any{[]int64{id}, []string{"status", "oplog"}}, answerMax, func(result json.RawMessage, err error) {
		if err != nil && tries < errorsMax {
			c.later(time.Second, func() { c.readLog(id, tries+1, done) })
			return
		}
		var rows [][2]json.RawMessage
		if err == nil {
			mustDecode(result, &rows)
		}
		if len(rows) == 1 && string(rows[0][0]) != "null" {
			c.world.notify(newLogRead(id, rows[0][1]))
		}
		done()
	})
}

// logRead: a client has read the log of an ended job.
type logRead struct {
	id     int64
	pieces []loggedPiece
	total  [2]int64 // bytes of each stream, with those that are missing as far as the log says
	cut    bool     // the log says that output may be missing
}

// loggedPiece is output in a log, with its place in its stream.
type loggedPiece struct {
	stream int
	from   int64
	output []byte
}

func newLogRead(id int64, opLogs json.RawMessage) logRead {
	var logs [][][4]json.RawMessage
	mustDecode(opLogs, &logs)
	read := logRead{id: id}
	var account job.OutputAccount
	for _, log := range logs {
		for _, entry := range log {
			var kind string
			mustDecode(entry[2], &kind)
			kind, payload := job.FromMessage(kind, entry[3])
			before := account.Delivered.Plus(account.Missing)
			account.Add(kind, payload)
			if name, output, is := job.DecodeOutput(kind, payload); is && name == job.LogStdout {
				read.pieces = append(read.pieces, loggedPiece{0, before.Stdout.Bytes, output})
			} else if is {
				read.pieces = append(read.pieces, loggedPiece{1, before.Stderr.Bytes, output})
			}
		}
	}
	all := account.Delivered.Plus(account.Missing)
	read.total, read.cut = [2]int64{all.Stdout.Bytes, all.Stderr.Bytes}, account.Uncertain || account.Unreadable > 0
	return read
}

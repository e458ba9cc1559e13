package sim

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"time"

	"lockstep/core/answer"
	"lockstep/core/wire"
)

// readers is the work of clients that only ask, in a run over random work: they ask for acknowledged jobs by all doors, for
// fields in memory and in the file, most often for a job about which something has just happened: it was acknowledged, its
// file has changed, or a client archives it. They have their own dice, so that the other work of a seed does not depend on them.
type readers struct {
	world    *World
	rng      *rand.Rand
	requests *requestLog
	left     int     // visits left, over all readers
	busy     int     // readers that are not done
	recent   []int64 // the jobs about which something has happened last, at most recentMax
}

const (
	// ReaderSeeds is the usual value of runOptions.Readers: these clients cost time.
	ReaderSeeds = 8
	// readerDice separates the dice of this work from others of the same seed.
	readerDice = 0x4ead
	// visitQuestions is the number of questions of one visit, without a pause.
	visitQuestions = 12
	recentMax      = 4
)

// readerCount is the number of readers in the run of a seed: 1 to 3 in one of oneOf seeds, otherwise 0.
func readerCount(seed uint64, oneOf int) int {
	rng := rand.New(rand.NewPCG(seed, readerDice))
	if oneOf < 1 || rng.IntN(oneOf) > 0 {
		return 0
	}
	return 1 + rng.IntN(3)
}

func newReaders(w *World, count, visits int, recipe *Recipe) *readers {
	dice := rand.NewPCG(w.options.Seed, readerDice)
	k := &readers{world: w, rng: rand.New(dice), requests: newRequestLog(dice, recipe), left: visits, busy: count}
	for range count {
		k.think(w.newClient())
	}
	return k
}

func (k *readers) done() bool { return k == nil || k.busy == 0 }

// observe notes what the next questions are about.
func (k *readers) observe(event any) {
	if k == nil {
		return
	}
	switch e := event.(type) {
	case submissionAnswered:
		k.note(e.submission.ids...)
	case archiveSent:
		k.note(e.id)
	case fileChanged:
		k.note(e.id)
	}
}

func (k *readers) note(ids ...int64) {
	k.recent = append(k.recent, ids...)
	k.recent = k.recent[max(0, len(k.recent)-recentMax):]
}

// think schedules the next visit of a reader after a pause.
func (k *readers) think(c *client) {
	pause := time.Duration(k.rng.IntN(400)) * time.Millisecond
	k.requests.scheduleNext(c, pause, func() { k.visit(c) })
}

func (k *readers) visit(c *client) {
	if what := k.requests.begin(c, func() requestKind {
		if k.left == 0 {
			return requestNone
		}
		return requestRead
	}); what == requestNone {
		k.busy--
		return
	}
	k.left--
	rng := rand.New(rand.NewPCG(k.rng.Uint64(), readerDice))
	questions := visitQuestions
	var next func()
	next = func() {
		id := k.choose(rng)
		if questions--; questions < 0 || id == 0 {
			k.think(c)
			return
		}
		c.read(doors[rng.IntN(len(doors))], id, next)
	}
	next()
}

// choose is the id of a job to ask for, most often a recent one; 0 if there is none.
func (k *readers) choose(rng *rand.Rand) int64 {
	if len(k.recent) > 0 && rng.IntN(8) > 0 {
		return k.recent[rng.IntN(len(k.recent))]
	}
	if last := k.world.serial(); last > 0 {
		return 1 + rng.Int64N(last)
	}
	return 0
}

// door is a way to ask for a job. found takes an answer without an error.
type door struct {
	name  string
	args  func(id int64) []any
	found func(result json.RawMessage) bool
}

var doors = []door{
	{"QueryJobs", func(id int64) []any { return []any{[]int64{id}, []string{"id", "status"}} }, hasRow},
	{"QueryJobs", func(id int64) []any { return []any{[]int64{id}, []string{"id", "opstatus", "archived"}} }, hasRow},
	{"Query", func(id int64) []any {
		return []any{"job", []string{"id", "opresult"}, []any{"==", "id", id}}
	}, hasCell},
	{"WaitForJobChange", func(id int64) []any {
		return []any{id, []string{"opstatus"}, nil, 1 << 40, 0}
	}, func(json.RawMessage) bool { return true }},
	{"LockstepWhy", func(id int64) []any { return []any{id} }, func(json.RawMessage) bool { return true }},
	{"LockstepListJobs", func(id int64) []any { return []any{answer.JobSelection{IDs: []int64{id}}} }, isListed},
}

// hasRow reports whether an answer to QueryJobs has the value of the second field.
func hasRow(result json.RawMessage) bool {
	var rows [][]json.RawMessage
	mustDecode(result, &rows)
	return len(rows) == 1 && len(rows[0]) > 1 && string(rows[0][1]) != "null"
}

// hasCell is hasRow for an answer to Query.
func hasCell(result json.RawMessage) bool {
	var table struct {
		Data [][][2]json.RawMessage `json:"data"`
	}
	mustDecode(result, &table)
	return len(table.Data) == 1 && string(table.Data[0][1][0]) == "0"
}

func isListed(result json.RawMessage) bool {
	var list answer.JobList
	mustDecode(result, &list)
	return len(list.Jobs) == 1
}

// read asks for a job by one door, tells the checkers whether it was found, and calls done.
func (c *client) read(by door, id int64, done func()) {
	asked := jobRead{door: by.name, id: id, sent: c.world.clock.Now(), acknowledged: c.world.isAcknowledged(id)}
	c.rpc.call(by.name, by.args(id), answerMax, func(result json.RawMessage, err error) {
		var failed *wire.Error
		switch {
		case err == nil:
			asked.found = by.found(result)
		case errors.As(err, &failed) && failed.Class == "JobLost":
		default:
			done()
			return
		}
		asked.node = c.rpc.node
		c.tracef("%s of job %d: finds it: %v", by.name, id, asked.found)
		c.world.notify(asked)
		done()
	})
}

// isAcknowledged reports whether a client was told that the job exists.
func (w *World) isAcknowledged(id int64) bool {
	for i := len(w.submissions) - 1; i >= 0; i-- {
		if ids := w.submissions[i].ids; len(ids) > 0 && ids[0] <= id && id <= ids[len(ids)-1] {
			return true
		}
	}
	return false
}

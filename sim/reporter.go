package sim

import (
	"encoding/json"
	"errors"
	"time"

	"lockstep/actors/core/run"
	"lockstep/actors/luxi/wire"
)

// As in lockstep-job.
const (
	beginRetryFirst = 50 * time.Millisecond
	beginRetryMax   = time.Second
	callMax         = 5 * time.Minute
)

// reporter is a job process's talk with the daemon: reports that are dropped if
// nobody hears them, and questions that are asked until they are answered.
type reporter struct {
	process *process
	caller  *caller
	latest  []byte // not told yet
	ask     func() // not asked yet
	busy    bool
}

func newReporter(p *process) *reporter {
	return &reporter{process: p, caller: &caller{world: p.machine.world, node: p.machine.node, thread: p.thread}}
}

// report tells the file's new content, without waiting for anybody.
func (r *reporter) report(encoded []byte) {
	if len(encoded) > r.process.machine.world.options.ReportMax {
		encoded = []byte("null") // the daemon looks at the disk
	}
	r.latest = encoded
	r.next()
}

// begin asks whether opcode op may begin, until there is an answer.
func (r *reporter) begin(op int, then func(*run.Refusal)) {
	r.ask = func() { r.askToBegin(op, beginRetryFirst, then) }
	r.next()
}

// next makes one call after the other.
func (r *reporter) next() {
	switch {
	case r.busy:
	case r.latest != nil:
		encoded := r.latest
		r.latest, r.busy = nil, true
		r.call("LockstepReportJob", []any{r.process.job, r.process.livelock, json.RawMessage(encoded)}, func(json.RawMessage, error) {
			r.busy = false
			r.next()
		})
	case r.ask != nil:
		ask := r.ask
		r.ask, r.busy = nil, true
		ask()
	}
}

func (r *reporter) call(method string, args []any, done func(json.RawMessage, error)) {
	r.caller.call(method, args, callMax, done)
}

func (r *reporter) askToBegin(op int, delay time.Duration, then func(*run.Refusal)) {
	r.call("LockstepBeginOpcode", []any{r.process.job, r.process.livelock, op}, func(result json.RawMessage, err error) {
		if err == nil {
			var refusal *run.Refusal
			mustDecode(result, &refusal)
			r.busy = false
			then(refusal)
			r.next()
			return
		}
		var refused *wire.Error
		if errors.As(err, &refused) && refused.Class == "JobLost" {
			delay = beginRetryMax
		}
		r.process.machine.world.clock.after(delay, r.process.life, func() {
			r.askToBegin(op, min(2*delay, beginRetryMax), then)
		})
	})
}

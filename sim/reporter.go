package sim

import (
	"encoding/json"
	"errors"
	"slices"
	"time"

	"lockstep/core/jobproc"
	"lockstep/core/wire"
)

// As in lockstep-job.
const (
	beginRetryFirst = 50 * time.Millisecond
	beginRetryMax   = time.Second
	callMax         = 5 * time.Minute
	reportMax       = 10 * time.Second
)

var (
	reportFinal = []string{"GenericError", "ProgrammerError"}
	lockFinal   = []string{"GenericError", "ProgrammerError"}
)

// isDecided is isFinal of lockstep-job.
func isDecided(err error, classes []string) bool {
	var refused *wire.Error
	var malformed *wire.RequestError
	return errors.As(err, &malformed) || errors.As(err, &refused) && slices.Contains(classes, refused.Class)
}

// reporter is a job process's conversation with the daemon, as in lockstep-job. A report is
// repeated until a daemon has taken it or a newer one replaces it. Requests for permission are
// repeated until they are answered, on a second connection.
type reporter struct {
	process          *process
	reports          *rpcClient
	permission       *rpcClient
	latest           []byte // not sent yet
	reporting        bool
	onIdle           func() // runs once when all reports are delivered; nil: nothing waits for that
	awaitsPermission bool
}

func newReporter(p *process) *reporter {
	calls := func() *rpcClient { return &rpcClient{world: p.machine.world, node: p.machine.node, thread: p.thread} }
	return &reporter{process: p, reports: calls(), permission: calls()}
}

func (r *reporter) hangUp() {
	r.reports.hangUp()
	r.permission.hangUp()
}

// report sends the file's new content, and does not wait for an answer.
func (r *reporter) report(encoded []byte) {
	if len(encoded) > r.process.machine.world.options.ReportMax {
		encoded = []byte("null") // the daemon reads the disk
	}
	r.latest = encoded
	if !r.reporting && !r.delayed() {
		r.reporting = true
		r.sendLatest(beginRetryFirst)
	}
}

// delayed: with the mutation DelayReports reports wait behind the request for permission.
func (r *reporter) delayed() bool {
	return r.awaitsPermission && r.process.machine.world.mutations.DelayReports
}

func (r *reporter) sendLatest(delay time.Duration) {
	content := r.latest
	r.latest = nil
	if content == nil {
		r.reporting = false
		if told := r.onIdle; told != nil {
			r.onIdle = nil
			told()
		}
		return
	}
	r.reports.call("LockstepReportJob", []any{r.process.job, r.process.livelock, json.RawMessage(content)}, reportMax, func(_ json.RawMessage, err error) {
		if err == nil || isDecided(err, reportFinal) {
			r.sendLatest(beginRetryFirst)
			return
		}
		if r.latest == nil {
			r.latest = content
		}
		r.process.machine.world.clock.After(delay, r.process.life, func() { r.sendLatest(min(2*delay, beginRetryMax)) })
	})
}

// begin asks whether opcode op may begin, once all reports are delivered, until there is an
// answer.
func (r *reporter) begin(op int, then func(*jobproc.Denial)) {
	ask := func() {
		r.awaitsPermission = true
		r.askToBegin(op, beginRetryFirst, then)
	}
	if r.reporting && !r.process.machine.world.mutations.DelayReports {
		r.onIdle = ask
		return
	}
	ask()
}

func (r *reporter) askToBegin(op int, delay time.Duration, then func(*jobproc.Denial)) {
	r.permission.call("LockstepBeginOpcode", []any{r.process.job, r.process.livelock, op}, callMax, func(result json.RawMessage, err error) {
		if err == nil {
			var refusal *jobproc.Denial
			mustDecode(result, &refusal)
			r.awaitsPermission = false
			then(refusal)
			return
		}
		var refused *wire.Error
		if errors.As(err, &refused) && refused.Class == "JobLost" {
			delay = beginRetryMax
		}
		r.process.machine.world.clock.After(delay, r.process.life, func() {
			r.askToBegin(op, min(2*delay, beginRetryMax), then)
		})
	})
}

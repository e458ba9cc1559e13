package jobproc

import (
	"encoding/json"
	"errors"
	"time"

	"lockstep/core/wire"
)

// permission asks the daemon whether an opcode may begin, until the daemon answers.
type permission struct {
	line
	job      int64
	livelock string
	op       int
	step     permissionStep
}

// permissionStep says what has to happen before the process may begin its next opcode.
type permissionStep uint8

const (
	noPermissionNeeded permissionStep = iota
	awaitingRelease                   // the locks of the former opcode are being released
	awaitingReports                   // the daemon does not know yet that the former opcode has ended
	awaitingAnswer
)

func (p *permission) ask(out *Actions) {
	p.step = awaitingAnswer
	p.call(out, "LockstepBeginOpcode", []any{p.job, p.livelock, p.op}, CallTimeout)
}

// answered handles the end of the latest call. decided is false if the daemon must be asked again; a nil denial is the
// permission.
func (p *permission) answered(now time.Time, result json.RawMessage, err error) (denial *Denial, decided bool) {
	if err == nil {
		err = json.Unmarshal(result, &denial)
	}
	if err == nil {
		p.backoff.Reset()
		p.step = noPermissionNeeded
		return denial, true
	}
	var refused *wire.Error
	if errors.As(err, &refused) && refused.Class == "JobLost" {
		// A daemon that has just started may not have adopted this process yet. If the job is really lost, the daemon
		// kills this process.
		p.at = now.Add(p.backoff.Max)
		return nil, false
	}
	p.callAgain(now)
	return nil, false
}

// cancel ends the question for a permission: the job ends without the opcode.
func (p *permission) cancel() {
	p.stop()
	p.step = noPermissionNeeded
}

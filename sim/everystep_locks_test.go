package sim

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"
)

// withdrawnLocks submits a job that has some locks and waits for more when a rule pauses the
// job. The daemon withdraws the job's request, and the job gives all its locks back. Then the
// rule is deleted.
func withdrawnLocks(w *World) (done func() bool) {
	c, o := w.newClient(), w.newClient()
	var sent *submission
	removed := false
	r := rule{uuid: fmt.Sprintf("%08x-0000-4000-8000-%012x", 1, 1), predicates: predicateList([]json.RawMessage{predicate("reason", "reason", "=", "second")}), action: "PAUSE"}
	var add, remove func()
	add = func() {
		o.replaceFilter(r, func(_ string, err error) {
			if err != nil {
				o.later(100*time.Millisecond, add)
				return
			}
			o.later(500*time.Millisecond, remove)
		})
	}
	remove = func() {
		o.deleteFilter(r.uuid, func(err error) {
			if removed = err == nil || refusedAsUnknown(err); !removed {
				o.later(100*time.Millisecond, remove)
			}
		})
	}
	c.whenReady(func() {
		sent = c.submit([][]OpSpec{
			{"run run_for=2 locks=node-res/a"},
			{"run run_for=0.01 any=1:node/a,node/b locks=node-res/a reason=second"},
		}, nil)
	})
	o.later(200*time.Millisecond, func() { o.whenReady(add) })
	return func() bool { return removed && sent != nil && sent.answered }
}

// A crash of the daemon may lose the answer that informs the process of the withdrawal.
func TestTheDaemonCrashesAtEveryStepOfAWithdrawal(t *testing.T) {
	everyStepOf(t, 7, 1, withdrawnLocks, func(w *World) bool { w.Crash(); return true })
}

package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"lockstep/core/wire"
)

// rule is a filter rule as a client sends it.
type rule struct {
	uuid       string // "": the daemon makes one
	priority   int
	predicates json.RawMessage
	action     string // with its limit if it is RATE_LIMIT
	limit      int
	lasts      time.Duration // until its end; 0: it has none
}

func (r rule) String() string {
	action := r.action
	if r.limit > 0 {
		action = fmt.Sprintf("%s %d", r.action, r.limit)
	}
	text := fmt.Sprintf("%s priority %d if %s", action, r.priority, r.predicates)
	if r.lasts > 0 {
		text += fmt.Sprintf(" for %s", r.lasts)
	}
	return text
}

// replaceFilter adds a rule, or replaces the one with its uuid. done gets the uuid.
func (c *client) replaceFilter(r rule, done func(uuid string, err error)) {
	var uuid, action any
	if r.uuid != "" {
		uuid = r.uuid
	}
	if action = r.action; r.limit > 0 {
		action = []any{r.action, r.limit}
	}
	c.tracef("ReplaceFilter %s", r)
	args := []any{uuid, r.priority, r.predicates, action, []any{[]any{"sim", "a test", 1}}}
	c.world.notify(ruleChanging{r.uuid})
	if r.lasts > 0 {
		end := c.world.Now().Add(r.lasts)
		c.changes("LockstepReplaceFilter", append(args, int(r.lasts.Seconds())), func(_ json.RawMessage, err error) {
			c.world.notify(ruleChanged{r.uuid, end, err})
			done(r.uuid, err)
		})
		return
	}
	c.changes("ReplaceFilter", args, func(result json.RawMessage, err error) {
		var made string
		if err == nil {
			mustDecode(result, &made)
		}
		c.world.notify(ruleChanged{uuid: r.uuid, err: err})
		done(made, err)
	})
}

func (c *client) deleteFilter(uuid string, done func(error)) {
	c.tracef("DeleteFilter")
	c.world.notify(ruleChanging{uuid})
	c.changes("DeleteFilter", []any{uuid}, func(_ json.RawMessage, err error) {
		c.world.notify(ruleChanged{uuid: uuid, err: err})
		done(err)
	})
}

// set changes settings; done may be nil.
func (c *client) set(values map[string]any, done func(error)) {
	text, err := json.Marshal(values)
	if err != nil {
		panic(err)
	}
	c.tracef("LockstepSetSettings %s", text)
	c.changes("LockstepSetSettings", []any{json.RawMessage(text)}, func(_ json.RawMessage, err error) {
		if done != nil {
			done(err)
		}
	})
}

// changes makes a call that changes rules or settings, and tells the checkers when it is sent and answered.
func (c *client) changes(method string, args []any, done func(json.RawMessage, error)) {
	c.world.notify(changeSent{})
	c.rpc.call(method, args, answerMax, func(result json.RawMessage, err error) {
		if err != nil {
			c.tracef("%s: is told: %v", method, err)
		} else {
			c.tracef("%s: is told: done", method)
		}
		c.world.notify(changeAnswered{err: err})
		done(result, err)
	})
}

// refusedAsUnknown reports whether the error says that there is no such rule.
func refusedAsUnknown(err error) bool {
	var failed *wire.Error
	return errors.As(err, &failed) && strings.Contains(failed.Error(), "There is no filter rule")
}

// why asks what blocks a job, and passes its status and the reasons, a JSON list, to done.
func (c *client) why(id int64, done func(status string, reasons json.RawMessage, err error)) {
	c.rpc.call("LockstepWhy", []any{id}, answerMax, func(result json.RawMessage, err error) {
		var answer struct {
			Status  string
			Reasons json.RawMessage
		}
		if err == nil {
			mustDecode(result, &answer)
		}
		done(answer.Status, answer.Reasons, err)
	})
}

// queryPending asks for a summary of the reasons of many jobs, and calls done, also after an error. An answer without a row for each job
// panics.
func (c *client) queryPending(ids []int64, done func()) {
	c.rpc.call("LockstepPending", []any{ids}, answerMax, func(result json.RawMessage, err error) {
		var rows [][2]any
		if err == nil {
			mustDecode(result, &rows)
			if len(rows) != len(ids) {
				panic(fmt.Sprintf("sim: LockstepPending of %d jobs: %s", len(ids), result))
			}
		}
		done()
	})
}

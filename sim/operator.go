package sim

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"lockstep/core/config"
	"lockstep/core/filter"
	"lockstep/core/paths"
	"lockstep/core/record"
)

// operator is the client that changes rules and settings in a run over random work, and asks why
// jobs wait. It ends when no client submits and all its rules are deleted, because jobs that a
// rule blocks would never end.
type operator struct {
	work   *workload
	client *client
	rules  []string // uuids of rules that may exist
	made   int
}

func (k *workload) newOperator() {
	k.busy++
	o := &operator{work: k, client: k.world.newClient()}
	o.think()
}

func (o *operator) think() {
	o.work.requests.scheduleNext(o.client, time.Duration(o.work.rng.IntN(3000))*time.Millisecond, o.act)
}

func (o *operator) act() {
	what := o.work.requests.begin(o.client, func() requestKind {
		switch {
		case o.work.left == 0 && len(o.rules) == 0:
			return requestNone
		case o.work.left == 0, len(o.rules) > 0 && o.work.rng.IntN(3) == 0:
			return requestDelete
		default:
			return requestChange
		}
	})
	switch {
	case what == requestDelete && len(o.rules) > 0:
		o.deleteOne()
	case what == requestDelete: // the recipe may delete when no rule is left
		o.think()
	case what == requestChange:
		o.change()
	default:
		o.work.busy--
	}
}

func (o *operator) change() {
	switch rng := o.work.rng; rng.IntN(6) {
	case 0, 1, 2:
		o.replaceOne()
	case 3:
		o.client.set(o.settings(), func(error) { o.think() })
	case 4:
		id := 1 + rng.Int64N(o.work.world.serial()+1)
		o.client.why(id, func(string, json.RawMessage, error) { o.think() })
	default:
		var ids []int64
		for id := range o.work.world.serial() {
			ids = append(ids, id+1)
		}
		o.client.queryPending(ids, o.think)
	}
}

// replaceOne adds a rule, or replaces one, and goes on.
func (o *operator) replaceOne() {
	r := o.rule()
	if len(o.rules) > 0 && o.work.rng.IntN(3) == 0 {
		r.uuid = o.rules[o.work.rng.IntN(len(o.rules))]
	} else {
		o.made++
		r.uuid = fmt.Sprintf("%08x-0000-4000-8000-%012x", o.work.rng.Uint32(), o.made)
		o.rules = append(o.rules, r.uuid)
	}
	if o.ownRule(&r); r.lasts > 0 { // nobody deletes it
		o.rules = slices.DeleteFunc(o.rules, func(uuid string) bool { return uuid == r.uuid })
	}
	o.client.replaceFilter(r, func(string, error) { o.think() })
}

// ownRule makes some rules such that Ganeti's programs cannot read them. It throws no dice: the runs of known seeds stay similar.
func (o *operator) ownRule(r *rule) {
	if o.made%3 == 1 {
		r.lasts = time.Duration(1+o.made%4) * time.Second
	}
	if o.made%5 == 2 {
		r.predicates = predicateList([]json.RawMessage{predicate("lock", "mode", "=", "exclusive"), predicate("name", "name", "!=", "nobody")})
	}
}

func (o *operator) rule() rule {
	rng := o.work.rng
	r := rule{priority: rng.IntN(4), predicates: o.predicates()}
	switch rng.IntN(8) {
	case 0, 1, 2:
		r.action = "PAUSE"
	case 3:
		r.action = "REJECT"
	case 4:
		r.action = "ACCEPT"
	case 5:
		r.action = "CONTINUE"
	default:
		r.action, r.limit = "RATE_LIMIT", 1+rng.IntN(2)
	}
	return r
}

func (o *operator) predicates() json.RawMessage {
	rng := o.work.rng
	some := []json.RawMessage{
		predicate("jobid", "id", ">", "watermark"), predicate("jobid", "id", "<=", "watermark"),
		predicate("opcode", "OP_ID", "=", "OP_RUN_COMMAND"), predicate("opcode", "OP_ID", "=", "OP_TEST_DELAY"),
		predicate("reason", "reason", "=~", "rate-limit"), predicate("opcode", "comment", "=~", "client 1 "),
		predicate("jobid", "id", "<", fmt.Sprint(rng.Int64N(o.work.world.serial()+2))),
	}
	all := []json.RawMessage{}
	for range rng.IntN(3) {
		all = append(all, some[rng.IntN(len(some))])
	}
	return predicateList(all)
}

func (o *operator) settings() map[string]any {
	rng := o.work.rng
	switch rng.IntN(4) {
	case 0:
		return map[string]any{"max_running_jobs": 1 + rng.IntN(4)}
	case 1:
		order := rng.IntN(3)
		// No further dice: the runs of known seeds do not change.
		return map[string]any{
			"order":         []string{config.OrderExpected, config.OrderWeights, config.OrderPlain}[order],
			"reserve_after": []float64{0, 0.1, 3600}[order],
			"archive_after": []float64{0.5, 0.5, 0}[order],
			"keep_last":     1,
			"log_limit":     []int{config.LogLimitMin, 1_000_000, config.LogLimitMax}[order],
		}
	case 2:
		return map[string]any{"predictive_tick": []float64{0.01, 0.1, 1, 30}[rng.IntN(4)], "predictive_ticks": 1 + rng.IntN(5)}
	default:
		return map[string]any{"lock_bypass_after": []float64{0, 0.1, 30}[rng.IntN(3)], "predictive": true, "reserve_after": 0.2}
	}
}

// deleteOne deletes a rule, and forgets it unless it may still exist.
func (o *operator) deleteOne() {
	i := o.work.rng.IntN(len(o.rules))
	o.client.deleteFilter(o.rules[i], func(err error) {
		if err == nil || refusedAsUnknown(err) {
			o.rules = slices.Delete(o.rules, i, i+1)
		}
		o.think()
	})
}

// deleteRules deletes the rules on the disk that have no end, because the jobs that they block must end too. It
// repeats until none is left: a rule may still be in transit. The others must end by themselves.
func (w *World) deleteRules() {
	c := w.newClient()
	var next func()
	next = func() {
		uuids := w.ruleUUIDs()
		if len(uuids) == 0 {
			c.later(time.Minute, func() {
				if len(w.ruleUUIDs()) > 0 {
					next()
				}
			})
			return
		}
		c.deleteFilter(uuids[0], func(err error) {
			if err != nil {
				c.later(time.Second, next)
				return
			}
			next()
		})
	}
	next()
}

// cancelUndecidable cancels jobs that depend on jobs whose end neither the master nor a record
// knows. It repeats every minute until all jobs have ended.
func (w *World) cancelUndecidable() {
	c := w.newClient()
	var next func()
	again := func() { c.later(time.Minute, next) }
	next = func() {
		c.list(func(rows []listed, err error) {
			rows = slices.DeleteFunc(rows, func(r listed) bool { return isFinal(r.Status) })
			switch {
			case err == nil && len(rows) == 0:
			case err != nil:
				again()
			default:
				w.cancelNextUndecidable(c, rows, again)
			}
		})
	}
	again()
}

func (w *World) cancelNextUndecidable(c *client, rows []listed, then func()) {
	if len(rows) == 0 {
		then()
		return
	}
	id := rows[0].ID
	rest := func() { w.cancelNextUndecidable(c, rows[1:], then) }
	c.why(id, func(_ string, reasons json.RawMessage, err error) {
		var all []struct {
			Job     int64
			Unknown bool
		}
		if err == nil {
			mustDecode(reasons, &all)
		}
		for _, r := range all {
			if r.Unknown && !w.hasRecord(id, r.Job) {
				c.cancel(id, true, rest)
				return
			}
		}
		rest()
	})
}

// hasRecord reports whether the committed record says how a dependency has ended.
func (w *World) hasRecord(id, on int64) bool {
	content, _ := w.disk.Surviving(paths.RecordPath(id))
	r, err := record.Decode(content)
	_, known := r.DependencyEnd(on)
	return err == nil && known
}

// ruleUUIDs are the uuids of the filter rules on the disk that have no end, sorted.
func (w *World) ruleUUIDs() []string {
	var stored storedConfig
	if stored.read(w.disk) == nil {
		return nil
	}
	var uuids []string
	for uuid, text := range stored.filterRules() {
		if rule, err := filter.Decode(text); err != nil || rule.Until == 0 {
			uuids = append(uuids, uuid)
		}
	}
	slices.Sort(uuids)
	return uuids
}

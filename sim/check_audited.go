package sim

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	coreaudit "lockstep/core/audit"
	"lockstep/core/paths"
	"lockstep/core/wire"
)

// checkAudited: a change that a client has an answer to has an entry in the audit log, which would survive a power loss at the moment of
// the answer, and is there from then on. The entries are in the order of their numbers and of time. The cancelling of a job may lack its
// entry after a failed write, or if the entry took longer than the call waits.
type checkAudited struct {
	answered []coreaudit.Entry // of changes with an answer
	failed   bool              // a write of the log has failed
	log      []coreaudit.Entry
}

// auditedAnswered: a client has the answer to a call that changes something.
type auditedAnswered struct {
	method, what string
	sent         time.Time
}

// cancelPatience is less than a cancel waits for its entry.
const cancelPatience = 4 * time.Second

func (*checkAudited) Name() string { return "changes are in the audit log" }

func (c *checkAudited) See(w *World, event any) error {
	switch e := event.(type) {
	case diskFailed:
		c.failed = c.failed || strings.HasPrefix(e.path, paths.AuditDir)
	case auditedAnswered:
		return c.change(w, e)
	case powerLost, daemonStarted, finished:
		entries, err := c.read(w)
		if err != nil {
			return err
		}
		for _, a := range c.answered {
			if !slices.Contains(entries, a) {
				return fmt.Errorf("the audit log has lost its entry %d: %s", a.Number, a.What)
			}
		}
	}
	return nil
}

func (c *checkAudited) change(w *World, e auditedAnswered) error {
	entries, err := c.read(w)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(entries, func(a coreaudit.Entry) bool {
		return a.Method == e.method && a.What == e.what && !a.Time.Before(e.sent.Truncate(time.Microsecond))
	})
	mayLack := coreaudit.GoesOn(e.method, nil) && (c.failed || w.clock.Now().Sub(e.sent) > cancelPatience)
	switch {
	case at >= 0:
		c.answered = append(c.answered, entries[at])
	case !mayLack:
		return fmt.Errorf("a client has an answer, and after a power loss the audit log would have no entry: %s", e.what)
	}
	return nil
}

// read reads the log as a power loss would leave it.
func (c *checkAudited) read(w *World) ([]coreaudit.Entry, error) {
	var firsts []uint64
	for _, base := range w.disk.Names(paths.AuditDir) {
		if first, is := paths.ParseAuditPath(paths.AuditDir + "/" + base); is {
			firsts = append(firsts, first)
		}
	}
	slices.Sort(firsts)
	c.log = c.log[:0]
	for _, first := range firsts {
		content, _ := w.disk.Surviving(paths.AuditPath(first))
		entries, err := coreaudit.Decode(first, content)
		if err != nil {
			return nil, fmt.Errorf("audit log: %w", err)
		}
		c.log = append(c.log, entries...)
	}
	for i := 1; i < len(c.log); i++ {
		if c.log[i].Number <= c.log[i-1].Number || c.log[i].Time.Before(c.log[i-1].Time) {
			return nil, fmt.Errorf("entry %d of the audit log is not in its place", c.log[i].Number)
		}
	}
	return c.log, nil
}

// audited is done for the call with that frame. It tells the checkers of the answer to a change.
func (c *rpcClient) audited(frame []byte, done func(json.RawMessage, error)) func(json.RawMessage, error) {
	request, err := wire.DecodeRequest(frame)
	if err != nil || c.wconf {
		return done
	}
	what, changes := coreaudit.Change(request.Method, request.Args)
	if !changes {
		return done
	}
	sent := c.world.clock.Now()
	return func(result json.RawMessage, err error) {
		if err == nil {
			c.world.notify(auditedAnswered{request.Method, what, sent})
		}
		done(result, err)
	}
}

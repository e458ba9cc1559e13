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
// the answer, and is there from then on. It names the account of the client. The entries are in the order of their numbers and of time.
// The cancelling of a job may lack its entry after a failed write, or if the entry took longer than the call waits. A refusal has an
// entry, or one of the same account came at most refusalGap before it, unless faults are being repaired. In a cluster there are no
// entries until all nodes have said that they know the log; a node that joins again as a new one has said nothing yet.
type checkAudited struct {
	answered []coreaudit.Entry // of changes with an answer
	failed   bool              // a write of the log has failed
	stated   time.Time         // when a node has last said what it knows, in a cluster
	joined   time.Time         // when a node has last been told to join again as a new one
	log      []coreaudit.Entry
}

// auditedAnswered: a client has the answer to a call that changes something.
type auditedAnswered struct {
	by           *account
	method, what string
	sent         time.Time
	known        bool // when it was sent, all nodes had said that they know the log
}

// refusalAnswered: a client has the answer that it has no permission.
type refusalAnswered struct {
	by     *account
	method string
	sent   time.Time
	known  bool // as in auditedAnswered
}

// cancelPatience is less than a cancel waits for its entry.
const cancelPatience = 4 * time.Second

// refusalGap is how old an entry about a refusal may be while the next refusal has none yet: a pause, and the time until the log looks
// again.
const refusalGap = 2 * time.Second

func (*checkAudited) Name() string { return "changes are in the audit log" }

func (c *checkAudited) See(w *World, event any) error {
	switch e := event.(type) {
	case diskFailed:
		c.failed = c.failed || strings.HasPrefix(e.path, paths.AuditDir)
	case otherFileChanged:
		if e.path == paths.FeaturesPath && e.disk == w.disk {
			c.stated = w.clock.Now()
		}
	case joinsAsNew:
		c.joined = w.clock.Now()
	case auditedAnswered:
		return c.change(w, e)
	case refusalAnswered:
		return c.refusal(w, e)
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
		return a.Method == e.method && a.What == e.what && a.Key == e.by.key() && a.Refused == "" &&
			!a.Time.Before(e.sent.Truncate(time.Microsecond))
	})
	late := c.failed || w.clock.Now().Sub(e.sent) > cancelPatience
	mayLack := goesOnUnaudited(e) && late || !e.known || !c.allKnow(w)
	switch {
	case at >= 0:
		c.answered = append(c.answered, entries[at])
	case !mayLack:
		return fmt.Errorf("%s has an answer, and after a power loss the audit log would have no entry: %s", e.by.name, e.what)
	}
	return nil
}

// goesOnUnaudited reports whether the change is made when its entry cannot be written: the cancelling of jobs.
func goesOnUnaudited(e auditedAnswered) bool {
	return e.method == "CancelJob" || strings.HasPrefix(e.what, "cancel ") || strings.HasPrefix(e.what, "kill ")
}

func (c *checkAudited) refusal(w *World, e refusalAnswered) error {
	since := e.sent.Add(-refusalGap)
	late := c.failed || w.clock.Now().Sub(e.sent) > cancelPatience || !w.disturbance.noneSince(since)
	if late || !e.known || !c.allKnow(w) || since.Before(c.stated) {
		return nil // the entry that stands for this one may be lost, or wait
	}
	entries, err := c.read(w)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(entries, func(a coreaudit.Entry) bool { return a.Refused != "" && a.Key == e.by.key() && a.Time.After(since) }) {
		return fmt.Errorf("%s was refused %s, and after a power loss the audit log would have no entry about it", e.by.name, e.method)
	}
	return nil
}

// joinsAsNew: a node has lost its data and joins its cluster as a new one.
type joinsAsNew struct{}

// joinPatience is how long the master may take to ask a node again that has joined as a new one, and to write its answer.
const joinPatience = time.Minute

// allKnow reports whether the master knows that all nodes know the log.
func (c *checkAudited) allKnow(w *World) bool {
	return allKnowAudit(w) && (c.joined.IsZero() || w.clock.Now().Sub(c.joined) > joinPatience)
}

// allKnowAudit reports whether all nodes have said that they know the log, as far as is committed.
func allKnowAudit(w *World) bool {
	if w.oracle == nil || !w.options.Users {
		return true
	}
	var known struct{ Nodes map[string][]string }
	if f := w.disk.Find(paths.FeaturesPath); f == nil || json.Unmarshal(f.Data, &known) != nil {
		return false
	}
	return len(known.Nodes) == len(w.nodes) &&
		!slices.ContainsFunc(w.nodes, func(n *node) bool { return !slices.Contains(known.Nodes[n.name], "audit") })
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
	if err != nil || c.wconf || c.account == nil {
		return done
	}
	what, changes := coreaudit.Change(request.Method, request.Args)
	sent, known := c.world.clock.Now(), allKnowAudit(c.world)
	return func(result json.RawMessage, err error) {
		switch {
		case isRefusal(err):
			c.world.notify(refusalAnswered{c.account, request.Method, sent, known})
		case err == nil && changes:
			c.world.notify(auditedAnswered{c.account, request.Method, what, sent, known})
		}
		done(result, err)
	}
}

// Package filters is the filter engine: the actor that evaluates the filter rules for each
// job (designs.md "Job filters"; queue.md 5).
//
// It owns the compiled rules and the verdict on every unfinished job. The rules themselves
// are in the configuration, and the configuration actor changes them on its request. It
// evaluates jobs (EvaluateFilters), changes rules (ChangeFilter) and lists them
// (ListFilters). When a change of the rules changes verdicts, it sends the queue
// VerdictsChanged before it answers the client.
//
// Nothing survives its crash: it asks the queue for all unfinished jobs, and the
// configuration actor for the rules.
package filters

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	clusterconfig "lockstep/actors/config"
	"lockstep/actors/conn"
	"lockstep/actors/kit"
	"lockstep/core/config"
	"lockstep/core/config/model"
	"lockstep/core/filter"
	"lockstep/core/job"
	"lockstep/messages"
)

// Config is what the filter engine needs.
type Config struct {
	Env           *kit.Env
	Queue         *actor.PID
	ClusterConfig *actor.PID
}

// Props makes the filter engine. Its incarnations are numbered from 1.
func Props(c Config) *actor.Props {
	incarnation := uint64(0)
	return c.Env.Props("filters", func() actor.Actor {
		incarnation++
		return &filters{config: c, incarnation: incarnation, request: incarnation << 32, jobs: map[int64]*evaluatedJob{}, changes: map[uint64]*change{}}
	})
}

type filters struct {
	config      Config
	incarnation uint64

	rules    *filter.Set // nil until the rules are known
	rawRules map[string]json.RawMessage
	stored   model.Container[model.FilterRule] // the origin of rules
	deferred []deferredMessage                 // messages to handle once the rules are known

	jobs map[int64]*evaluatedJob
	pass *pass // evaluation of all jobs of a restarted queue; nil: none is under way

	request uint64             // number of the last request to another actor
	changes map[uint64]*change // open changes, by the number of their open request
	taken   conn.Taken         // the requests for changes
}

type deferredMessage struct {
	message any
	sender  *actor.PID
}

// evaluatedJob is an unfinished job with its verdict.
type evaluatedJob struct {
	subject *filter.Subject
	verdict *messages.Verdict // nil: accepted
}

func (f *filters) Receive(ctx actor.Context) { f.handle(ctx, ctx.Message(), ctx.Sender()) }

func (f *filters) handle(ctx actor.Context, message any, sender *actor.PID) {
	switch m := message.(type) {
	case *actor.Started:
		ctx.Request(f.config.ClusterConfig, &messages.PublishConfig{})
		ctx.Request(f.config.Queue, &messages.FiltersStarted{Incarnation: f.incarnation})
	case *messages.QueueStarted:
		f.pass = nil // it was for a former incarnation of this actor or the queue, which gets a new one
		ctx.Request(f.config.Queue, &messages.FiltersStarted{Incarnation: f.incarnation})
		f.requestSerials(ctx)
	case *clusterconfig.Published:
		f.configChanged(ctx, m)
	case *messages.EvaluateFilters:
		if f.ready(message, sender) {
			f.evaluate(ctx, sender, m)
		}
	case *continuePass:
		if f.pass != nil && f.pass.number == m.pass {
			f.evaluateNext(ctx)
		}
	case *messages.ForgetJob:
		delete(f.jobs, m.Id)
		if f.pass != nil {
			f.pass.ended[m.Id] = true
		}
	case *messages.ListFilters:
		if f.ready(message, sender) {
			f.list(ctx, sender, m)
		}
	case *messages.ChangeFilter:
		if !f.taken.IsRepeated(sender, m.Request) {
			f.change(ctx, sender, m)
		}
	case *messages.GetSerialResult:
		f.serialKnown(ctx, m)
	case *messages.EditConfigResult:
		f.written(ctx, m)
	default:
		kit.Unexpected(ctx)
	}
}

// ready reports whether the rules are known; otherwise it defers the message.
func (f *filters) ready(message any, sender *actor.PID) bool {
	if f.rules == nil {
		f.deferred = append(f.deferred, deferredMessage{message, sender})
	}
	return f.rules != nil
}

// configChanged takes the rules of a configuration. If they are as before, no job is
// evaluated again.
func (f *filters) configChanged(ctx actor.Context, m *clusterconfig.Published) {
	if f.rules != nil && m.Config.Filters == f.stored {
		return
	}
	raw := config.FilterRules(m.Config)
	f.stored = m.Config.Filters
	same := func(a, b json.RawMessage) bool { return string(a) == string(b) }
	if f.rules != nil && maps.EqualFunc(raw, f.rawRules, same) {
		return
	}
	f.rawRules, f.rules = raw, f.compile(raw)
	f.reevaluate(ctx)
	waiting := f.deferred
	f.deferred = nil
	for _, h := range waiting {
		f.handle(ctx, h.message, h.sender)
	}
}

// compile compiles the rules of a configuration. A rule that cannot be compiled applies to
// no job. This is logged, because the rule may protect the cluster.
func (f *filters) compile(raw map[string]json.RawMessage) *filter.Set {
	var rules []filter.Rule
	for _, uuid := range slices.Sorted(maps.Keys(raw)) {
		rule, err := filter.Decode(raw[uuid])
		if err != nil {
			f.logUnusableRule(uuid, err)
			continue
		}
		rules = append(rules, rule)
	}
	set, err := filter.NewSet(rules)
	if err != nil {
		f.logUnusableRule("", err)
	}
	return set
}

func (f *filters) logUnusableRule(uuid string, err error) {
	f.config.Env.Log().WithFields(logrus.Fields{"rule": uuid, "err": err}).Error("filter rule cannot be compiled; it applies to no job")
}

// evaluate answers at once for new jobs, and step by step for all jobs of a restarted
// queue.
func (f *filters) evaluate(ctx actor.Context, sender *actor.PID, m *messages.EvaluateFilters) {
	if m.Request == 0 {
		f.evaluateAll(ctx, sender, m.Jobs)
		return
	}
	answer := &messages.EvaluateFiltersResult{Request: m.Request}
	for _, w := range m.Jobs {
		if evaluated := f.evaluateJob(w); evaluated != nil && evaluated.verdict != nil {
			answer.Verdicts = append(answer.Verdicts, evaluated.verdict)
		}
	}
	ctx.Send(sender, answer)
}

// evaluateJob evaluates one job and keeps its subject for later evaluations. It returns nil
// for an invalid job.
func (f *filters) evaluateJob(w *messages.UnfinishedJob) *evaluatedJob {
	j, err := job.Decode(w.Encoded)
	if err != nil {
		return nil // the queue has decoded the job and logged the error
	}
	evaluated := &evaluatedJob{subject: filter.NewSubject(j)}
	evaluated.verdict = f.verdict(w.Id, evaluated.subject)
	f.jobs[w.Id] = evaluated
	return evaluated
}

// verdict is the verdict of the rules on a job, nil for ACCEPT.
func (f *filters) verdict(id int64, s *filter.Subject) *messages.Verdict {
	v := f.rules.Evaluate(s)
	if v.Rule < 0 || v.Action.Verb == filter.Accept {
		return nil
	}
	verdict := &messages.Verdict{Id: id, Rule: v.UUID, Action: int32(v.Action.Verb), Limit: v.Action.Limit}
	trail := f.rules.Rules()[v.Rule].ReasonTrail
	verdict.Reason, verdict.By = ruleReason(trail), ruleAuthor(trail)
	return verdict
}

// userSource is the source of what people write into a reason trail (queue.md 3.6).
const userSource = "gnt:user"

// ruleReason is why a rule exists, for people: the last reason that a person gave, or else
// the last one that is not from the daemon.
func ruleReason(trail []filter.Reason) string {
	text, said := "", false
	for _, r := range trail {
		switch byUser := r.Source == userSource; {
		case r.Text == "" || r.Source == ownSource || r.Source == job.UserSource:
		case byUser || !said:
			text, said = r.Text, said || byUser
		}
	}
	return text
}

// ruleAuthor is the author of a rule, "" if unknown.
func ruleAuthor(trail []filter.Reason) string {
	by := ""
	for _, r := range trail {
		if r.Source == job.UserSource {
			by = r.Text
		}
	}
	return by
}

// reevaluate evaluates all jobs after a change of the rules, and sends the queue the
// verdicts that have changed.
func (f *filters) reevaluate(ctx actor.Context) {
	var changed []*messages.Verdict
	for id, evaluated := range f.jobs {
		now := f.verdict(id, evaluated.subject)
		if sameVerdict(now, evaluated.verdict) {
			continue
		}
		evaluated.verdict = now
		if now == nil {
			now = &messages.Verdict{Id: id}
		}
		changed = append(changed, now)
	}
	if changed != nil {
		slices.SortFunc(changed, func(a, b *messages.Verdict) int { return int(a.Id - b.Id) })
		ctx.Send(f.config.Queue, &messages.VerdictsChanged{Verdicts: changed})
	}
}

func sameVerdict(a, b *messages.Verdict) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Rule == b.Rule && a.Action == b.Action && a.Limit == b.Limit && a.Reason == b.Reason && a.By == b.By
}

// list answers with the rules in the order in which they apply.
func (f *filters) list(ctx actor.Context, sender *actor.PID, m *messages.ListFilters) {
	answer := &messages.ListFiltersResult{Request: m.Request}
	for _, r := range f.rules.Rules() {
		answer.Rules = append(answer.Rules, filter.Encode(&r))
	}
	ctx.Send(sender, answer)
}

// malformed reports whether an error means that the request is invalid; other errors are
// Ganeti's and go to the client (queue.md 5.2).
func malformed(err error) bool {
	var bad *filter.BadUUID
	return !errors.As(err, &bad)
}

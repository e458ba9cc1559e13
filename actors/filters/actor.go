// Package filters is the filter engine: the actor that knows what the filter
// rules make of each job (designs.md "Job filters"; queue.md 5).
//
// It owns the compiled rules and the verdict on every job that has not ended. The
// rules themselves are in the configuration, whose actor it asks to change them.
// It may be asked to judge jobs, and to change and show rules; it tells the queue
// of every verdict that a change of the rules has changed, before it tells the
// client that the change was made. Nothing survives its crash: it asks the queue
// for all jobs, and the configuration's actor for the rules.
package filters

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"lockstep/actors/kit"
	"lockstep/core/config"
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

	rules         *filter.Set // nil until the rules are known
	rawRules      map[string]json.RawMessage
	configContent []byte            // the configuration that they are of
	deferred      []deferredMessage // what was asked before

	jobs map[int64]*evaluatedJob
	pass *pass // over the jobs of a new queue; nil: none is under way

	request uint64             // number of the last question
	changes map[uint64]*change // under way, by the question at hand
}

type deferredMessage struct {
	message any
	sender  *actor.PID
}

// evaluatedJob is a job and what the rules make of it.
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
		f.pass = nil // it was over the jobs of a former incarnation, which will not ask again
		ctx.Request(f.config.Queue, &messages.FiltersStarted{Incarnation: f.incarnation})
		f.requestSerials(ctx)
	case *messages.ConfigPublished:
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
		f.change(ctx, sender, m)
	case *messages.GetSerialResult:
		f.serialKnown(ctx, m)
	case *messages.EditConfigResult:
		f.written(ctx, m)
	default:
		kit.Unexpected(ctx)
	}
}

// ready reports whether the rules are known; what comes before is kept.
func (f *filters) ready(message any, sender *actor.PID) bool {
	if f.rules == nil {
		f.deferred = append(f.deferred, deferredMessage{message, sender})
	}
	return f.rules != nil
}

// configChanged takes the rules. Nothing is judged anew where they are as before.
func (f *filters) configChanged(ctx actor.Context, m *messages.ConfigPublished) {
	if f.rules != nil && bytes.Equal(m.Content, f.configContent) {
		return
	}
	raw, err := config.FilterRules(m.Content)
	if err != nil {
		f.config.Env.Log().WithFields(logrus.Fields{"err": err}).Error("filter rules cannot be read; keeping the former ones")
		return
	}
	f.configContent = m.Content
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

// compile makes rules of the configuration's text. One that is not understood
// does not apply to any job, which has to be said: it may be somebody's lock-out.
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

// evaluate answers for new jobs at once. All jobs of a new queue are judged in passing.
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

// evaluateJob judges one job, and keeps what is needed to do so again; nil if it is none.
func (f *filters) evaluateJob(w *messages.UnfinishedJob) *evaluatedJob {
	j, err := job.Decode(w.Encoded)
	if err != nil {
		return nil // the queue has decoded it, and complained
	}
	evaluated := &evaluatedJob{subject: filter.NewSubject(j)}
	evaluated.verdict = f.verdict(w.Id, evaluated.subject)
	f.jobs[w.Id] = evaluated
	return evaluated
}

// verdict is what the rules make of a job, nil if they accept it.
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

// userSource is where the entries of people come from (queue.md 3.6).
const userSource = "gnt:user"

// ruleReason is why a rule is there, for people: what a person has said last, or
// else the last that anybody but the daemon has.
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

// ruleAuthor is who made a rule, "" if that is not known.
func ruleAuthor(trail []filter.Reason) string {
	by := ""
	for _, r := range trail {
		if r.Source == job.UserSource {
			by = r.Text
		}
	}
	return by
}

// reevaluate has the rules, which have changed, judge everybody, and tells of the
// verdicts that are others now.
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

// list is the rules in the order in which they are applied.
func (f *filters) list(ctx actor.Context, sender *actor.PID, m *messages.ListFilters) {
	answer := &messages.ListFiltersResult{Request: m.Request}
	for _, r := range f.rules.Rules() {
		answer.Rules = append(answer.Rules, filter.Encode(&r))
	}
	ctx.Send(sender, answer)
}

// malformed tells errors that make a request no request from those that clients
// are told of as Ganeti's (queue.md 5.2).
func malformed(err error) bool {
	var bad *filter.BadUUID
	return !errors.As(err, &bad)
}

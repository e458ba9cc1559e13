// Package filters is the filter engine: the actor that evaluates the filter rules for each
// job (designs.md "Job filters"; queue.md 5).
//
// It owns the compiled rules and the verdict on every unfinished job. The rules themselves
// are in the configuration, and the configuration actor changes them on its request. It
// evaluates jobs (EvaluateFilters, and ReachOp for a job that comes to its next opcode),
// changes rules (ChangeFilter), lists them (ListFilters), and hands out rules and jobs to
// those who test a rule (TakeJobs). When a change of the rules changes verdicts, the queue
// has them (VerdictsChanged) before the client is answered.
//
// A rule with an end no longer applies when the end has come, also if it cannot be deleted
// then. The deletion is repeated until it succeeds.
//
// A job may take long to judge, and there may be many, so they are judged in slices.
//
// Nothing survives its crash: it asks the queue for all unfinished jobs, and the
// configuration actor for the rules.
package filters

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"lockstep/actors/config/clusterconfig"
	"lockstep/actors/conn"
	"lockstep/actors/kit"
	"lockstep/actors/opcodes"
	"lockstep/core/access"
	"lockstep/core/config"
	"lockstep/core/config/model"
	"lockstep/core/config/ownrules"
	"lockstep/core/filter"
	"lockstep/core/job"
	"lockstep/core/opcode"
	"lockstep/messages"
)

// Config has the neighbours and settings of the filter engine.
type Config struct {
	Env           *kit.Env
	Queue         *actor.PID
	ClusterConfig *actor.PID
	Catalogue     *opcode.Catalogue
	Daemon        access.Submitter // the daemon's user, to whom jobs without a submitter belong
	// SliceWork is the work between two messages, in steps of about 20 ns; 0: 250,000.
	SliceWork int
}

// Props describes the filter engine, the actor that judges jobs by the filter rules. The catalogue survives a restart.
func Props(c Config) *actor.Props {
	catalogue := c.Catalogue
	return kit.NumberedProps(c.Env, "filters", func(incarnation uint64) actor.Actor {
		return &filters{config: c, incarnation: incarnation, catalogue: &catalogue, slice: cmp.Or(c.SliceWork, sliceWork),
			request: incarnation << 32, jobs: map[int64]*evaluatedJob{}, changes: map[uint64]*change{}}
	})
}

type filters struct {
	config      Config
	incarnation uint64
	catalogue   **opcode.Catalogue // kept for the next incarnation
	slice       int                // Config.SliceWork

	rules     *filter.Set // nil until the rules are known; without those that have ended
	rawRules  map[string]json.RawMessage
	stored    model.Container[model.FilterRule] // the origin of rules, with own
	own       ownrules.Rules
	resources *config.Resources
	declare   filter.Declare    // of catalogue and resources
	deferred  kit.Deferred[any] // messages to handle once the rules are known
	ends

	jobs map[int64]*evaluatedJob
	// order has the ids of jobs in ascending order, and ids of forgotten jobs and of jobs that are not judged yet.
	order []int64
	judging

	request uint64             // number of the last request to another actor
	changes map[uint64]*change // open changes, by the number of their open request
	taken   conn.Taken         // the requests for changes
}

// evaluatedJob is an unfinished job with its verdict.
type evaluatedJob struct {
	subject *filter.Subject
	verdict *messages.Verdict // nil: accepted
	by      *filter.Set       // the rules of the verdict
}

func (f *filters) Receive(ctx actor.Context) { f.handle(ctx, ctx.Message(), ctx.Sender()) }

func (f *filters) handle(ctx actor.Context, message any, sender *actor.PID) {
	switch m := message.(type) {
	case *actor.Started:
		ctx.Request(f.config.ClusterConfig, &messages.PublishConfig{})
		ctx.Request(f.config.Queue, &messages.FiltersStarted{Incarnation: f.incarnation})
	case *messages.QueueStarted:
		// Questions and verdicts of the former incarnation of the queue count no longer: the new one asks about all jobs.
		f.all, f.questions, f.reached, f.changed, f.untaken, f.asked = nil, nil, nil, nil, 0, false
		ctx.Request(f.config.Queue, &messages.FiltersStarted{Incarnation: f.incarnation})
		f.requestSerials(ctx)
	case *clusterconfig.ConfigPublished:
		f.configChanged(ctx, m)
	case *opcodes.Changed:
		*f.catalogue = m.Catalogue
		f.declare = filter.DeclareOf(m.Catalogue, f.resources)
	case *endDue:
		f.endDue(ctx, m)
	case *messages.ReachOp:
		if f.ready(message, sender) {
			f.reachOp(ctx, sender, m)
		}
	case *messages.EvaluateFilters:
		if f.ready(message, sender) {
			f.evaluate(ctx, sender, m)
		}
	case *proceed:
		if m.incarnation == f.incarnation {
			f.scheduled = false
			f.judge(ctx)
		}
	case *messages.VerdictsTaken:
		f.verdictsTaken(ctx, m)
	case *messages.ForgetJob:
		f.forget(m.Id)
	case *TakeJobs:
		if f.ready(message, sender) {
			f.takeJobs(ctx, sender, m)
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
		f.deferred.Add(message, sender)
	}
	return f.rules != nil
}

// configChanged takes the rules of a configuration, and judges all jobs again. If the rules are as before, no job is evaluated again, and
// only the resources are taken.
func (f *filters) configChanged(ctx actor.Context, m *clusterconfig.ConfigPublished) {
	f.resources = config.ResourcesOf(m.Config)
	f.declare = filter.DeclareOf(*f.catalogue, f.resources)
	if f.rules != nil && m.Config.Filters == f.stored && m.Rules == f.own {
		return
	}
	raw := m.FilterRules()
	f.stored, f.own = m.Config.Filters, m.Rules
	same := func(a, b json.RawMessage) bool { return string(a) == string(b) }
	if f.rules != nil && maps.EqualFunc(raw, f.rawRules, same) {
		return
	}
	f.rawRules = raw
	f.rules = f.compile(raw)
	f.awaitEnd(ctx)
	f.rejudge(ctx)
	f.deferred.HandleAll(ctx, f.handle)
}

// compile compiles the rules of a configuration, without those that have ended, and sets nextEnd. A rule that cannot be compiled applies
// to no job. This is logged, because the rule may protect the cluster.
func (f *filters) compile(raw map[string]json.RawMessage) *filter.Set {
	var rules []filter.Rule
	now := f.config.Env.Clock().Now().UnixNano()
	f.ended, f.nextEnd = nil, 0
	for _, uuid := range slices.Sorted(maps.Keys(raw)) {
		rule, err := filter.Decode(raw[uuid])
		if err != nil {
			f.logUnusableRule(uuid, err)
			continue
		}
		if rule.HasEnded(now) {
			f.ended = append(f.ended, uuid)
			continue
		}
		if rule.Until != 0 && (f.nextEnd == 0 || rule.Until < f.nextEnd) {
			f.nextEnd = rule.Until
		}
		rules = append(rules, rule)
	}
	var known []filter.Rule
	if f.rules != nil {
		known = slices.Clone(f.rules.Rules())
	}
	for _, c := range f.changes {
		known = append(known, c.rule)
	}
	set, err := filter.NewSet(rules, known...)
	if err != nil {
		f.logUnusableRule("", err)
	}
	return set
}

func (f *filters) logUnusableRule(uuid string, err error) {
	f.config.Env.Log().WithFields(logrus.Fields{"rule": uuid, "err": err}).Error("filter rule cannot be compiled; it applies to no job")
}

// verdict is a verdict of the rules in force for the queue, nil for ACCEPT.
func (f *filters) verdict(id int64, v filter.Verdict) *messages.Verdict {
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

// ruleAuthor is the last author of a rule, "" if unknown.
func ruleAuthor(trail []filter.Reason) string {
	by := ""
	for _, r := range trail {
		if r.Source == job.UserSource {
			by = r.Text
		}
	}
	return by
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

package filters

import (
	"errors"
	"maps"
	"slices"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"lockstep/core/filter"
	"lockstep/core/job"
	"lockstep/messages"
)

// ownSource is the source of the reason that the daemon appends to a rule's trail (queue.md
// 5.2).
const ownSource = "luxid"

// errNoUUID refuses a rule without a uuid. Gateways choose the uuid of a new rule, so that
// a repeated request makes one rule.
var errNoUUID = errors.New("a filter rule needs a uuid")

// change is an open ChangeFilter: first the queue is asked for the serial, which becomes
// the rule's watermark, then the configuration is edited.
type change struct {
	sender       *actor.PID
	request      uint64 // number of the client's request
	uuid         string
	by           string // "" if unknown
	rule         filter.Rule
	preview      bool // the rule is evaluated only
	awaitsSerial bool // GetSerial is open
}

func (f *filters) change(ctx actor.Context, sender *actor.PID, m *messages.ChangeFilter) {
	if parts := m.GetReplace(); parts != nil {
		f.replace(ctx, sender, m, parts)
		return
	}
	f.edit(ctx, &change{sender: sender, request: m.Request, uuid: m.GetDelete(), by: m.By}, nil)
}

func (f *filters) replace(ctx actor.Context, sender *actor.PID, m *messages.ChangeFilter, parts *messages.FilterParts) {
	request := filter.ReplaceRequest{UUID: parts.Uuid, Priority: parts.Priority, Predicates: parts.Predicates, Action: parts.Action, Reason: parts.Reason}
	rule, err := request.Rule()
	if err != nil {
		ctx.Send(sender, &messages.ChangeFilterResult{Request: m.Request, Failure: messages.Generic(err), Malformed: malformed(err)})
		return
	}
	if rule.UUID == "" {
		ctx.Send(sender, &messages.ChangeFilterResult{Request: m.Request, Failure: messages.Generic(errNoUUID), Malformed: true})
		return
	}
	if m.By != "" {
		rule.ReasonTrail = slices.DeleteFunc(rule.ReasonTrail, func(r filter.Reason) bool { return r.Source == job.UserSource })
		rule.ReasonTrail = append(rule.ReasonTrail, filter.Reason{Source: job.UserSource, Text: m.By, Nanos: f.config.Env.Clock().Now().UnixNano()})
	}
	rule.ReasonTrail = append(rule.ReasonTrail, filter.Reason{Source: ownSource, Nanos: f.config.Env.Clock().Now().UnixNano()})
	f.request++
	f.changes[f.request] = &change{sender: sender, request: m.Request, uuid: rule.UUID, by: m.By, rule: rule, preview: m.Preview, awaitsSerial: true}
	ctx.Request(f.config.Queue, &messages.GetSerial{Request: f.request})
}

// requestSerials sends GetSerial again to a restarted queue.
func (f *filters) requestSerials(ctx actor.Context) {
	for _, request := range slices.Sorted(maps.Keys(f.changes)) {
		if f.changes[request].awaitsSerial {
			ctx.Request(f.config.Queue, &messages.GetSerial{Request: request})
		}
	}
}

// serialKnown sets the watermark of the rule: all jobs that exist now have ids at or below
// it.
func (f *filters) serialKnown(ctx actor.Context, m *messages.GetSerialResult) {
	c := f.changes[m.Request]
	if c == nil || !c.awaitsSerial {
		return
	}
	delete(f.changes, m.Request)
	if f.rules != nil {
		if err := f.rules.CheckBudget(&c.rule); err != nil {
			ctx.Send(c.sender, &messages.ChangeFilterResult{Request: c.request, Failure: messages.Generic(err), Malformed: malformed(err)})
			return
		}
	}
	c.rule.Watermark, c.awaitsSerial = job.ID(m.Serial), false
	if c.preview {
		f.previewRule(ctx, c)
		return
	}
	f.edit(ctx, c, filter.Encode(&c.rule))
}

// previewRule answers which jobs the rule would decide about, among the rules in force. A rule
// with the same uuid is left out.
func (f *filters) previewRule(ctx actor.Context, c *change) {
	answer := &messages.ChangeFilterResult{Request: c.request, Uuid: c.uuid, Unfinished: int64(len(f.jobs))}
	if f.rules != nil {
		others := slices.DeleteFunc(slices.Clone(f.rules.Rules()), func(r filter.Rule) bool { return r.UUID == c.uuid })
		// The error names rules in force that never apply. CheckBudget has checked the new one.
		set, _ := filter.NewSet(append(others, c.rule)) //nolint:errcheck // see above
		answer.Matches, answer.LowestJobs = lowestOf(func(yield func(int64)) {
			for id, evaluated := range f.jobs {
				if v := set.Evaluate(evaluated.subject); v.UUID == c.uuid && v.Action.Verb != filter.Accept {
					yield(id)
				}
			}
		})
	}
	ctx.Send(c.sender, answer)
}

// edit sends EditConfig; without a rule it deletes the rule with the change's uuid.
func (f *filters) edit(ctx actor.Context, c *change, rule []byte) {
	f.request++
	f.changes[f.request] = c
	ctx.Request(f.config.ClusterConfig, &messages.EditConfig{Request: f.request, Filter: c.uuid, Rule: rule, By: c.by})
}

// written answers the client. The rules are in force, because ConfigPublished came before.
func (f *filters) written(ctx actor.Context, m *messages.EditConfigResult) {
	if c := f.changes[m.Request]; c != nil {
		delete(f.changes, m.Request)
		if c.by != "" && m.Failure == nil {
			f.config.Env.Log().WithFields(logrus.Fields{"rule": c.uuid, "deleted": c.rule.UUID == "", "by": c.by}).Info("filter rule changed")
		}
		answer := &messages.ChangeFilterResult{Request: c.request, Uuid: c.uuid, Failure: m.Failure}
		if m.Failure == nil {
			answer.Matches, answer.LowestJobs = f.matches(c.uuid)
		}
		ctx.Send(c.sender, answer)
	}
}

// matchesShown is the maximum number of jobs that an answer names.
const matchesShown = 20

// matches counts the jobs on which a rule decides, and returns the lowest of their ids.
func (f *filters) matches(rule string) (count int64, lowest []int64) {
	return lowestOf(func(yield func(int64)) {
		for id, evaluated := range f.jobs {
			if evaluated.verdict != nil && evaluated.verdict.Rule == rule {
				yield(id)
			}
		}
	})
}

// lowestOf counts ids, and returns the lowest of them.
func lowestOf(each func(yield func(int64))) (count int64, lowest []int64) {
	each(func(id int64) { lowest = append(lowest, id) })
	slices.Sort(lowest)
	return int64(len(lowest)), lowest[:min(len(lowest), matchesShown)]
}

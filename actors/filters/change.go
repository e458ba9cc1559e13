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
	request := filter.ReplaceRequest{
		UUID:       parts.Uuid,
		Priority:   parts.Priority,
		Predicates: parts.Predicates,
		Action:     parts.Action,
		Reason:     parts.Reason,
		Lasts:      parts.Lasts,
	}
	now := f.config.Env.Clock().Now().UnixNano()
	rule, err := request.Rule(now)
	if err != nil {
		ctx.Send(sender, &messages.ChangeFilterResult{Request: m.Request, Failure: messages.Generic(err), Malformed: filter.IsMalformed(err)})
		return
	}
	if rule.UUID == "" {
		ctx.Send(sender, &messages.ChangeFilterResult{Request: m.Request, Failure: messages.Generic(errNoUUID), Malformed: true})
		return
	}
	if m.By != "" {
		rule.ReasonTrail = slices.DeleteFunc(rule.ReasonTrail, func(r filter.Reason) bool {
			return r.Source == job.UserSource || r.Source == job.RemoteSource
		})
		rule.ReasonTrail = append(rule.ReasonTrail, filter.Reason{Source: job.UserSource, Text: m.By, Nanos: now})
	}
	rule.ReasonTrail = append(rule.ReasonTrail, filter.Reason{Source: ownSource, Nanos: now})
	f.request++
	f.changes[f.request] = &change{sender: sender, request: m.Request, uuid: rule.UUID, by: m.By, rule: rule, awaitsSerial: true}
	ctx.Request(f.config.Queue, &messages.GetSerial{Request: f.request})
}

// requestSerials sends GetSerial again to a restarted queue, for each change that awaits the answer.
func (f *filters) requestSerials(ctx actor.Context) {
	for _, request := range slices.Sorted(maps.Keys(f.changes)) {
		if f.changes[request].awaitsSerial {
			ctx.Request(f.config.Queue, &messages.GetSerial{Request: request})
		}
	}
}

// serialKnown sets the watermark of the rule: all jobs that exist now have ids at or below it. The rule is then written, or refused if
// the patterns of all rules would be too expensive.
func (f *filters) serialKnown(ctx actor.Context, m *messages.GetSerialResult) {
	c := f.changes[m.Request]
	if c == nil || !c.awaitsSerial {
		return
	}
	delete(f.changes, m.Request)
	if f.rules != nil {
		if err := f.rules.CheckBudget(&c.rule); err != nil {
			ctx.Send(c.sender, &messages.ChangeFilterResult{Request: c.request, Failure: messages.Generic(err), Malformed: filter.IsMalformed(err)})
			return
		}
	}
	c.rule.Watermark, c.awaitsSerial = job.ID(m.Serial), false
	f.edit(ctx, c, filter.Encode(&c.rule))
}

// edit sends EditConfig; without a rule it deletes the rule with the change's uuid.
func (f *filters) edit(ctx actor.Context, c *change, rule []byte) {
	f.request++
	f.changes[f.request] = c
	ctx.Request(f.config.ClusterConfig, &messages.EditConfig{
		Request: f.request,
		Filter:  c.uuid,
		Rule:    rule,
		Own:     rule != nil && !c.rule.IsGanetis(),
		By:      c.by,
	})
}

// written takes the outcome of an edit. The rules are in force for new jobs, because ConfigPublished came before.
func (f *filters) written(ctx actor.Context, m *messages.EditConfigResult) {
	if uuid, is := f.deleting[m.Request]; is {
		f.deleted(ctx, m, uuid)
		return
	}
	c := f.changes[m.Request]
	if c == nil {
		return
	}
	delete(f.changes, m.Request)
	if m.Failure != nil {
		ctx.Send(c.sender, &messages.ChangeFilterResult{Request: c.request, Uuid: c.uuid, Failure: m.Failure})
		return
	}
	if c.by != "" {
		f.config.Env.Log().WithFields(logrus.Fields{"rule": c.uuid, "deleted": c.rule.UUID == "", "by": c.by}).Info("filter rule changed")
	}
	// Answered when all jobs are judged by the new rules and the queue has the verdicts: the author relies on that.
	f.applied = append(f.applied, c)
	f.judge(ctx)
}

// answerChanges answers the changes whose rules are in force for all jobs.
func (f *filters) answerChanges(ctx actor.Context) {
	for _, c := range f.applied {
		answer := &messages.ChangeFilterResult{Request: c.request, Uuid: c.uuid}
		answer.Matches, answer.LowestJobs = f.matches(c.uuid)
		ctx.Send(c.sender, answer)
	}
	f.applied = nil
}

// matches counts the jobs on which a rule decides, and returns the lowest of their ids.
func (f *filters) matches(rule string) (count int64, lowest []int64) {
	for _, id := range f.order {
		if e := f.jobs[id]; e != nil && e.verdict != nil && e.verdict.Rule == rule {
			if count++; len(lowest) < MatchesShown {
				lowest = append(lowest, id)
			}
		}
	}
	return count, lowest
}

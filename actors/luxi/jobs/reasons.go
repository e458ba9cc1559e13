package jobs

import (
	"fmt"
	"strings"
	"time"

	"lockstep/core/answer"
	"lockstep/core/filter"
	"lockstep/core/lock"
	"lockstep/core/query"
	"lockstep/core/record"
	"lockstep/core/sched"
	whywords "lockstep/core/why"
	"lockstep/messages"
)

// Reasons are the scheduler's reasons for a job in the shape of the answer to a client.
func Reasons(list []*messages.Reason) []answer.Reason {
	reasons := make([]answer.Reason, len(list))
	for i, r := range list {
		reasons[i] = reasonOf(r)
	}
	return reasons
}

func reasonOf(r *messages.Reason) answer.Reason {
	switch kind := r.Kind.(type) {
	case *messages.Reason_Dependency:
		d := kind.Dependency
		return answer.Reason{
			Kind:     answer.WhyDependency,
			Opcode:   int(d.Opcode),
			Job:      d.Job,
			Statuses: append([]string{}, d.Statuses...),
			Unknown:  d.Unknown,
		}
	case *messages.Reason_Filter:
		v := kind.Filter
		return answer.Reason{Kind: answer.WhyFilter, UUID: v.Rule, Action: filter.VerbOf(v).String(), RuleReason: v.Reason, By: v.By}
	case *messages.Reason_FilterLimit:
		l := kind.FilterLimit
		return answer.Reason{
			Kind:       answer.WhyFilterLimit,
			UUID:       l.Verdict.Rule,
			Limit:      l.Limit,
			Running:    l.Running,
			RuleReason: l.Verdict.Reason,
			By:         l.Verdict.By,
		}
	case *messages.Reason_RateLimit:
		l := kind.RateLimit
		return answer.Reason{Kind: answer.WhyRateLimit, Label: l.Label, Limit: l.Limit, Running: l.Running}
	case *messages.Reason_Slots:
		return answer.Reason{Kind: answer.WhySlots, Slots: kind.Slots.Slots, Running: kind.Slots.Running}
	case *messages.Reason_Order:
		return orderReason(kind.Order)
	case *messages.Reason_Hold:
		return answer.Reason{Kind: answer.WhyHold, By: kind.Hold.By}
	case *messages.Reason_Due:
		due := answer.TimeOf(kind.Due.DueUs)
		return answer.Reason{Kind: answer.WhyDue, Due: &due, Try: query.TryOf(kind.Due.Try)}
	default:
		panic(fmt.Sprintf("%T is no kind of reason", kind))
	}
}

func orderReason(o *messages.OrderReason) answer.Reason {
	causes := make([]answer.Cause, len(o.Causes))
	for i, c := range o.Causes {
		causes[i] = answer.Cause{Value: c.Value, Level: lock.Level(c.Level).String(), How: sched.ClaimKind(c.How).String(), Others: int(c.Others),
			Job: c.Job, Owner: c.Owner, Lock: c.Lock}
	}
	return answer.Reason{Kind: answer.WhyOrder, Position: o.Position, Pending: o.Pending, Predictive: o.Predictive, AtLeast: o.AtLeast,
		Weight: o.Weight, StaticWeight: o.StaticWeight, AgeTicks: o.AgeTicks, BigLock: o.BigLock, Causes: causes,
		BlockedBy: lockBlockers(o.BlockedBy), OtherBlockers: o.OtherBlockers, Reserves: o.Reserves, ReservedBy: o.ReservedBy,
		ReservationsBefore: o.ReservationsBefore, NothingPromised: o.NothingPromised}
}

func lockBlockers(list []*messages.LockBlocker) []answer.LockBlocker {
	var blockers []answer.LockBlocker
	for _, b := range list {
		blockers = append(blockers, answer.LockBlocker{Job: b.Job, Owner: b.Owner, Locks: b.Locks, OtherLocks: b.OtherLocks, Holds: b.Holds})
	}
	return blockers
}

// briefOrder describes what a job waits for in the order: for other owners of its locks, for reservations, or for its turn.
func briefOrder(o *messages.OrderReason) string {
	if len(o.BlockedBy) == 0 && o.ReservationsBefore == 0 {
		return positionText(o)
	}
	var parts []string
	if len(o.BlockedBy) > 0 {
		if o.Reserves {
			parts = append(parts, startsAfter(o))
		} else {
			b := o.BlockedBy[0]
			parts = append(parts, awaits(b.Locks[0], answer.Principal{Named: b.Named, Name: b.Owner, Job: b.Job}, b.Holds))
		}
	}
	switch {
	case o.ReservationsBefore == 1:
		parts = append(parts, "1 reservation is before it")
	case o.ReservationsBefore > 1:
		parts = append(parts, fmt.Sprintf("%d reservations are before it", o.ReservationsBefore))
	}
	if o.NothingPromised {
		parts = append(parts, "nothing is promised while more urgent jobs come")
	}
	return strings.Join(parts, ", ")
}

// startsAfter says at whose ends a job with a reservation starts.
func startsAfter(o *messages.OrderReason) string {
	const shown = 3
	first := o.BlockedBy[:min(len(o.BlockedBy), shown)]
	return whywords.Style{Clean: func(name string) string { return name }}.StartsAfter(answer.Reason{
		BlockedBy: lockBlockers(first), OtherBlockers: o.OtherBlockers + int64(len(o.BlockedBy)-len(first))}).String()
}

// positionText describes a job's place in the order. For a job far behind, the scheduler knows only a lower bound.
func positionText(o *messages.OrderReason) string {
	if o.AtLeast {
		return fmt.Sprintf("number %d or later in order", o.Position)
	}
	return fmt.Sprintf("number %d in order", o.Position)
}

// briefReason describes the first reason in a few words. "" means that there is no reason.
func briefReason(list []*messages.Reason, now time.Time) string {
	if len(list) == 0 {
		return ""
	}
	switch kind := list[0].Kind.(type) {
	case *messages.Reason_Dependency:
		if kind.Dependency.Unknown {
			return fmt.Sprintf("waits for job %d, which is not known on this node", kind.Dependency.Job)
		}
		return fmt.Sprintf("waits for job %d", kind.Dependency.Job)
	case *messages.Reason_Filter:
		verb := "rejected"
		if filter.VerbOf(kind.Filter) == filter.Pause {
			verb = "paused"
		}
		return verb + " by a filter rule"
	case *messages.Reason_Hold:
		if by := kind.Hold.By; by != "" {
			return "held by " + record.User(by)
		}
		return "held"
	case *messages.Reason_Due:
		return whywords.Due(query.TryOf(kind.Due.Try), time.UnixMicro(kind.Due.DueUs), now)
	case *messages.Reason_FilterLimit:
		return fmt.Sprintf("rate limit: %d of %d run", kind.FilterLimit.Running, kind.FilterLimit.Limit)
	case *messages.Reason_RateLimit:
		return fmt.Sprintf("rate limit: %d of %d run", kind.RateLimit.Running, kind.RateLimit.Limit)
	case *messages.Reason_Slots:
		text := fmt.Sprintf("no free slot (%d of %d)", kind.Slots.Running, kind.Slots.Slots)
		if len(list) > 1 && list[1].GetOrder() != nil {
			text += ", " + briefOrder(list[1].GetOrder())
		}
		return text
	case *messages.Reason_Order:
		return briefOrder(kind.Order)
	default:
		panic(fmt.Sprintf("%T is no kind of reason", kind))
	}
}

package sim

import (
	"bytes"
	"maps"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"lockstep/actors/config/clusterconfig"
	"lockstep/core/config"
	"lockstep/core/job"
	"lockstep/messages"
)

// Mutations of filter rules, of the scheduler, and of what it learns.

// permitsRejected makes the permission of a denial because of a rule.
func permitsRejected(_ string, m any) any {
	if m, is := m.(*messages.BeginOpResult); is && strings.HasPrefix(m.Text, "rejected") {
		return &messages.BeginOpResult{Request: m.Request}
	}
	return m
}

// callsNothingOff takes the jobs out of a CallOff, which is then answered at once.
func callsNothingOff(_ string, m any) any {
	if m, is := m.(*messages.CallOff); is {
		return &messages.CallOff{Request: m.Request}
	}
	return m
}

// allSucceed reports every end of a job to the scheduler as a success.
func allSucceed(to string, m any) any {
	if left, is := m.(*messages.JobReleased); is && left.Ended && strings.HasSuffix(to, "/scheduler") {
		return &messages.JobReleased{Id: left.Id, Ended: true, Status: int32(job.Success)}
	}
	return m
}

// skipsVerdicts removes the verdicts from answers of the filter engine.
func skipsVerdicts(_ string, m any) any {
	if judged, is := m.(*messages.EvaluateFiltersResult); is && judged.Request != 0 {
		return &messages.EvaluateFiltersResult{Request: judged.Request}
	}
	return m
}

// raisesLimits adds 3 to the limits in the verdicts that the queue receives.
func raisesLimits(to string, m any) any {
	var verdicts []*messages.Verdict
	switch m := m.(type) {
	case *messages.EvaluateFiltersResult:
		verdicts = m.Verdicts
	case *messages.VerdictsChanged:
		if to != "daemon/queue" {
			return m
		}
		verdicts = m.Verdicts
	}
	for i, v := range verdicts {
		verdicts[i] = proto.CloneOf(v)
		verdicts[i].Limit += 3
	}
	return m
}

// hidesRateLimits renames the rate limits in the reason trails that the scheduler receives.
func hidesRateLimits(_ string, m any) any {
	enqueue, is := m.(*messages.EnqueueJobs)
	if !is {
		return m
	}
	enqueue = proto.CloneOf(enqueue)
	for _, w := range enqueue.Jobs {
		w.Encoded = bytes.ReplaceAll(w.Encoded, []byte("rate-limit:"), []byte("rate-limid:"))
	}
	return enqueue
}

// urgent is the priority of an urgent job in its file.
var urgent = regexp.MustCompile(`"priority": ?-\d+`)

// hidesPriorities replaces the priority of urgent jobs in what the scheduler receives of new ones.
func hidesPriorities(_ string, m any) any {
	enqueue, is := m.(*messages.EnqueueJobs)
	if !is {
		return m
	}
	enqueue = proto.CloneOf(enqueue)
	for _, w := range enqueue.Jobs {
		w.Encoded = urgent.ReplaceAll(w.Encoded, []byte(`"priority": 0`))
	}
	return enqueue
}

// dropsEnds drops the messages that tell the scheduler of ended jobs.
func dropsEnds(to string, m any) any {
	if left, is := m.(*messages.JobReleased); is && left.Ended && strings.HasSuffix(to, "/scheduler") {
		return nil
	}
	return m
}

// hidesLaterLocks removes the locks of all opcodes but the first from what the scheduler receives of new jobs, and disables the bound.
func hidesLaterLocks(to string, m any) any {
	enqueue, is := m.(*messages.EnqueueJobs)
	if !is {
		return disablesBypassLimit(to, m)
	}
	enqueue = proto.CloneOf(enqueue)
	for _, w := range enqueue.Jobs {
		j, err := job.Decode(w.Encoded)
		if err != nil {
			continue
		}
		for i := 1; i < len(j.Ops); i++ {
			j.Ops[i].Input = bytes.ReplaceAll(j.Ops[i].Input, []byte(`"locks":`), []byte(`"lacks":`))
		}
		w.Encoded = job.Encode(j)
	}
	return enqueue
}

// marksAll tells the queue at each choice of a job that all jobs that the scheduler has not chosen wait for locks.
func marksAll() func(string, any) any {
	waiting := map[int64]bool{}
	return func(_ string, m any) any {
		switch m := m.(type) {
		case *messages.EnqueueJobs:
			for _, j := range m.Jobs {
				waiting[j.Id] = true
			}
		case *messages.JobReleased:
			delete(waiting, m.Id)
		case *messages.PickJob:
			delete(waiting, m.Id)
			all := several{m}
			for _, id := range slices.Sorted(maps.Keys(waiting)) {
				all = append(all, &messages.StartWaitChanged{Id: id, Wait: messages.StartWait_FOR_LOCKS})
			}
			return all
		}
		return m
	}
}

// keepsMarks drops what ends a mark.
func keepsMarks(_ string, m any) any {
	if changed, is := m.(*messages.StartWaitChanged); is && changed.Wait == messages.StartWait_NOT_WAITING {
		return nil
	}
	return m
}

// movesPromises makes each release of a job release the jobs that wait as well, and sends them to the scheduler again.
func movesPromises() func(string, any) any {
	waiting := map[int64]*messages.UnfinishedJob{}
	return func(to string, m any) any {
		switch m := m.(type) {
		case *messages.EnqueueJobs:
			for _, j := range m.Jobs {
				waiting[j.Id] = j
			}
		case *messages.PickJob:
			delete(waiting, m.Id)
		case *messages.JobReleased:
			if delete(waiting, m.Id); to != "daemon/core/scheduler" {
				return m
			}
			all, again := several{m}, &messages.EnqueueJobs{}
			for _, id := range slices.Sorted(maps.Keys(waiting)) {
				all, again.Jobs = append(all, &messages.JobReleased{Id: id}), append(again.Jobs, waiting[id])
			}
			return append(all, again)
		}
		return m
	}
}

// neverAges gives the scheduler settings with which a weight takes a million ticks to fall to zero.
func neverAges(to string, m any) any {
	if c, is := m.(*clusterconfig.ConfigPublished); is && strings.HasSuffix(to, "/scheduler") {
		settings, err := config.EditSettings(c.Settings, map[string][]byte{"predictive_ticks": []byte("1000000")})
		if err != nil {
			return m
		}
		altered := *c
		altered.Settings = settings
		return &altered
	}
	return m
}

package sim

import (
	"bytes"
	"fmt"
	"path"
	"reflect"
	"strings"

	"google.golang.org/protobuf/proto"

	"lockstep/actors/core/job"
	"lockstep/messages"
)

// drops has messages of some types not reach an actor.
func drops(actor string, types ...any) func(string, any) any {
	return func(to string, m any) any {
		for _, t := range types {
			if to == actor && reflect.TypeOf(m) == reflect.TypeOf(t) {
				return nil
			}
		}
		return m
	}
}

// freesTooSoon makes the death of a process the end of its job, for the locks.
func freesTooSoon(to string, m any) any {
	dead, is := m.(*messages.OwnerDead)
	var id int64
	if is {
		if _, err := fmt.Sscanf(path.Base(dead.Livelock), "job_%d_", &id); err == nil {
			return &messages.JobOver{Id: id}
		}
	}
	return m
}

func allSucceed(to string, m any) any {
	if left, is := m.(*messages.JobLeft); is && left.Ended && strings.HasSuffix(to, "/scheduler") {
		return &messages.JobLeft{Id: left.Id, Ended: true, Status: int32(job.Success)}
	}
	return m
}

func judgesNobody(_ string, m any) any {
	if judged, is := m.(*messages.JobsJudged); is && judged.Request != 0 {
		return &messages.JobsJudged{Request: judged.Request}
	}
	return m
}

func allowsMore(to string, m any) any {
	var verdicts []*messages.Verdict
	switch m := m.(type) {
	case *messages.JobsJudged:
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

func seesNoLimits(_ string, m any) any {
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

func neverAges(to string, m any) any {
	if c, is := m.(*messages.ConfigChanged); is && strings.HasSuffix(to, "/scheduler") {
		return &messages.ConfigChanged{Request: c.Request, Content: c.Content, Settings: []byte(`{"predictive_ticks": 1000000}`)}
	}
	return m
}

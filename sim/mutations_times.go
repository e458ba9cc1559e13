package sim

import (
	"encoding/json"

	"google.golang.org/protobuf/proto"

	"lockstep/messages"
)

// timeMutations are bugs in the times at which jobs start.
var timeMutations = []Mutation{
	{"forgotten-times", "a queue that starts does not see when jobs start", Mutations{Alter: forgetsTimes}},
	{"lost-times", "a job that is rescheduled starts at once", Mutations{Alter: ignoresTimes}},
}

// forgetsTimes removes the times of starts from the records that a queue reads when it starts.
func forgetsTimes(_ string, m any) any {
	answer, is := m.(*messages.AccessStoreResult)
	if !is || answer.GetScan() == nil {
		return m
	}
	answer = proto.CloneOf(answer)
	for _, s := range answer.GetScan().Jobs {
		var r map[string]json.RawMessage
		if len(s.Record) > 0 && json.Unmarshal(s.Record, &r) == nil && r["at"] != nil {
			delete(r, "at")
			s.Record, _ = json.Marshal(r)
		}
	}
	return answer
}

// ignoresTimes makes of another time for a job that it starts now.
func ignoresTimes(_ string, m any) any {
	order, is := m.(*messages.OrderJobs)
	if !is || order.AtUs == 0 {
		return m
	}
	order = proto.CloneOf(order)
	order.AtUs = 0
	return order
}

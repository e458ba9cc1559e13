package sim

import (
	"bytes"
	"encoding/json"
	"slices"

	"google.golang.org/protobuf/proto"

	"lockstep/core/job"
	"lockstep/messages"
)

// tryMutations are bugs in the tries of commands.
var tryMutations = []Mutation{
	{"forgotten-try", "the record of a job loses each try that is added to it", Mutations{Alter: forgetsTry}},
	{"repeated-lost", "a try that is lost with its process is followed by another one whatever the policy is", Mutations{Alter: repeatsLost}},
	{"early-tries", "the pause before the next try is counted from an hour before the end of the last one", Mutations{Alter: shortensPauses}},
	{"left-out-tries", "job processes do not learn that an opcode may be tried again", Mutations{Alter: hidesPolicies}},
	{"late-cancels", "a cancel that comes too late is answered as if it had come in time", Mutations{Alter: confirmsLateCancels}},
	{"ended-tries", "the scheduler takes the end of a try for the end of the job", Mutations{Alter: endsWithTry}},
}

// forgetsTry removes the last try from the records that are written at its end.
func forgetsTry(_ string, m any) any {
	request, is := m.(*messages.AccessStore)
	isTry := func(f *messages.FileWrite) bool { return f.Op == "try-record" }
	if !is || !slices.ContainsFunc(request.GetWrite().GetFiles(), isTry) {
		return m
	}
	request = proto.CloneOf(request)
	for _, f := range request.GetWrite().Files {
		var r map[string]json.RawMessage
		var tries []json.RawMessage
		if !isTry(f) || json.Unmarshal(f.Content, &r) != nil || json.Unmarshal(r["tries"], &tries) != nil {
			continue
		}
		r["tries"], _ = json.Marshal(tries[:len(tries)-1])
		f.Content, _ = json.Marshal(r)
	}
	return request
}

// repeatsLost says of all opcodes with a policy that a lost try is followed by another one.
func repeatsLost(_ string, m any) any {
	lost := func(encoded []byte) (ops []int32) {
		j, err := job.Decode(encoded)
		if err != nil {
			return nil
		}
		for i := range j.Ops {
			if policyIn(j.Ops[i].Input).times > 0 {
				ops = append(ops, int32(i))
			}
		}
		return ops
	}
	switch m := m.(type) {
	case *messages.StartJob:
		m = proto.CloneOf(m)
		m.RetryLost = lost(m.Encoded)
		return m
	case *messages.AdoptJob:
		m = proto.CloneOf(m)
		m.RetryLost = lost(m.Encoded)
		return m
	}
	return m
}

// shortensPauses sets the ends of tries that the queue receives an hour back.
func shortensPauses(_ string, m any) any {
	ended, is := m.(*messages.JobTryEnded)
	if !is {
		return m
	}
	j, err := job.Decode(ended.Encoded)
	if err != nil {
		return m
	}
	j.Ops[j.FirstUnfinished()].End.Sec -= 3600
	ended = proto.CloneOf(ended)
	ended.Encoded = job.Encode(j)
	return ended
}

// hidesPolicies renames the policies of tries in what job processes receive.
func hidesPolicies(_ string, m any) any {
	start, is := m.(*messages.StartJob)
	if !is || !bytes.Contains(start.Launch, []byte(`"retry"`)) {
		return m
	}
	start = proto.CloneOf(start)
	start.Launch = bytes.ReplaceAll(start.Launch, []byte(`"retry"`), []byte(`"unknown_key"`))
	return start
}

// confirmsLateCancels confirms cancels of jobs whose commands run.
func confirmsLateCancels(_ string, m any) any {
	answer, is := m.(*messages.OrderJobResult)
	if !is || answer.Text != "Job no longer waiting, can't cancel" {
		return m
	}
	answer = proto.CloneOf(answer)
	answer.Done = true
	return answer
}

// endsWithTry says of jobs that leave the scheduler without an end that they have failed.
func endsWithTry(_ string, m any) any {
	released, is := m.(*messages.JobReleased)
	if !is || released.Ended {
		return m
	}
	released = proto.CloneOf(released)
	released.Ended, released.Status = true, int32(job.Error)
	return released
}

package sim

import (
	"encoding/json"

	"google.golang.org/protobuf/proto"

	"lockstep/messages"
)

// scheduleMutations are bugs in schedules.
var scheduleMutations = []Mutation{
	{"unnoted-firing", "the file of a schedule does not have the firings whose jobs are recorded", Mutations{Alter: inFirings(forgetsFiring)}},
	{"lost-firing", "the file of a schedule has a due time as decided of which it says nothing", Mutations{Alter: inFirings(forgetsEntry)}},
}

// inFirings changes the files of schedules that the queue writes with jobs.
func inFirings(change func(before, file map[string]json.RawMessage)) func(string, any) any {
	last := map[string][]byte{}
	return func(_ string, m any) any {
		if submit, is := m.(*messages.SubmitJobs); is && submit.Firing != nil {
			last[submit.Firing.Schedule] = submit.Firing.Before
		}
		request, is := m.(*messages.AccessStore)
		if !is || !writesFiring(request) {
			return m
		}
		request = proto.CloneOf(request)
		for _, f := range request.GetWrite().Files {
			var file, before map[string]json.RawMessage
			if f.Op != "fire-schedule" || json.Unmarshal(f.Content, &file) != nil {
				continue
			}
			var name string
			_ = json.Unmarshal(file["name"], &name) // it has one
			if json.Unmarshal(last[name], &before) != nil {
				continue
			}
			change(before, file)
			f.Content, _ = json.Marshal(file)
		}
		return request
	}
}

func writesFiring(request *messages.AccessStore) bool {
	for _, f := range request.GetWrite().GetFiles() {
		if f.Op == "fire-schedule" {
			return true
		}
	}
	return false
}

// forgetsFiring leaves all as it was before the firing.
func forgetsFiring(before, file map[string]json.RawMessage) {
	for _, key := range []string{"last", "history", "open"} {
		if file[key] = before[key]; before[key] == nil {
			delete(file, key)
		}
	}
	delete(file, "firing")
}

// forgetsEntry leaves the history as it was before the firing.
func forgetsEntry(before, file map[string]json.RawMessage) {
	if file["history"] = before["history"]; before["history"] == nil {
		delete(file, "history")
	}
}

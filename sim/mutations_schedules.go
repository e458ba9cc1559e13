package sim

import (
	"encoding/json"

	"google.golang.org/protobuf/proto"

	"lockstep/messages"
)

// scheduleMutations are bugs in schedules.
var scheduleMutations = []Mutation{
	{"unnoted-firing", "the file of a schedule does not have the firings whose jobs are recorded",
		Mutations{NewAlter: inFirings(forgetsFiring)}},
	{"lost-firing", "the file of a schedule has a due time as decided of which it says nothing", Mutations{NewAlter: inFirings(forgetsEntry)}},
}

// inFirings changes the files of schedules that the queue of a daemon writes with jobs.
func inFirings(change func(before, file map[string]json.RawMessage)) func() func(string, any) any {
	return func() func(string, any) any {
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
				if f.Op == "fire-schedule" {
					f.Content = changedFiring(f.Content, last, change)
				}
			}
			return request
		}
	}
}

// changedFiring changes the content of the file of a schedule; last is what the schedules were before.
func changedFiring(content []byte, last map[string][]byte, change func(before, file map[string]json.RawMessage)) []byte {
	var file, before map[string]json.RawMessage
	if json.Unmarshal(content, &file) != nil {
		return content
	}
	var name string
	_ = json.Unmarshal(file["name"], &name) // it has one
	if json.Unmarshal(last[name], &before) != nil {
		return content
	}
	change(before, file)
	changed, _ := json.Marshal(file)
	return changed
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

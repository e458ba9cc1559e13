package sim

import (
	"bytes"
	"fmt"
	"path"

	"google.golang.org/protobuf/proto"

	"lockstep/actors/locks"
	"lockstep/core/paths"
	"lockstep/messages"
)

// Mutations of the lock manager.

// releasesEarly tells the lock manager that a job is cleaned up when its process dies.
func releasesEarly(to string, m any) any {
	dead, is := m.(*messages.OwnerDied)
	var id int64
	if is {
		if _, err := fmt.Sscanf(path.Base(dead.Livelock), "job_%d_", &id); err == nil {
			return &messages.JobCleanedUp{Id: id}
		}
	}
	return m
}

// dropsLockRecords removes the lines with a text from the journal of the locks.
func dropsLockRecords(text string) func(string, any) any {
	return func(_ string, m any) any {
		request, is := m.(*messages.AccessStore)
		if !is || request.GetAppend().GetPath() != paths.LocksJournalPath {
			return m
		}
		request = proto.CloneOf(request)
		var kept []byte
		for line := range bytes.Lines(request.GetAppend().Content) {
			if !bytes.Contains(line, []byte(text)) {
				kept = append(kept, line...)
			}
		}
		request.GetAppend().Content = kept
		return request
	}
}

// dropsFreeLocks removes all records from the journal of the free locks.
func dropsFreeLocks(_ string, m any) any {
	request, is := m.(*messages.AccessStore)
	if !is || request.GetAppend().GetPath() != paths.FreeLocksJournalPath {
		return m
	}
	request = proto.CloneOf(request)
	request.GetAppend().Content = nil
	return request
}

// disablesBypassLimit gives the lock manager the setting without a bound on bypass.
func disablesBypassLimit(to string, m any) any {
	if _, is := m.(*locks.SetBypassLimit); is && to == "daemon/core/locks" {
		return &locks.SetBypassLimit{}
	}
	return m
}

// forgetsWithheld takes the jobs whose requests are withheld out of what a lock manager that starts gets.
func forgetsWithheld(_ string, m any) any {
	if m, is := m.(*messages.SetLockPauses); is {
		return &messages.SetLockPauses{Incarnation: m.Incarnation, Ids: m.Ids}
	}
	return m
}

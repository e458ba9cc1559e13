package sim

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"lockstep/actors/config/configstore"
	"lockstep/core/config/journal"
	"lockstep/core/job"
	"lockstep/core/paths"
	"lockstep/messages"
)

// Mutations of a cluster.

// clusterMutations are the names of the mutations that need several nodes.
var clusterMutations = []string{
	"hasty-log", "skipped-entry", "forgotten-jobs", "no-fence", "lets-in", "no-master", "untold-progress",
	"unsynced-entries", "early-notes", "forgotten-file-system", "ignored-sync-errors", "early-service", "unsynced-leave",
	"lost-records", "unnumbered-snapshots", "unnumbered-starts", "idle-guard",
}

// losesRecords removes records with an even number from the changes that are committed.
func losesRecords(_ string, m any) any {
	commit, is := m.(*configstore.Commit)
	if !is {
		return m
	}
	altered := &configstore.Commit{Request: commit.Request}
	for _, c := range commit.Changes {
		c.Records = slices.DeleteFunc(slices.Clone(c.Records), func(r *journal.Record) bool { return r.Number%2 == 0 })
		altered.Changes = append(altered.Changes, c)
	}
	return altered
}

// removesNumbers removes config.extra from snapshots.
func removesNumbers(_ string, m any) any {
	part, is := m.(*messages.LogSnapshotReceived)
	if !is {
		return m
	}
	part = proto.CloneOf(part)
	part.Files = slices.DeleteFunc(part.Files, func(f *messages.FileWrite) bool { return f.Path == paths.ConfigExtraPath })
	return part
}

// removesStartNumbers writes the files of jobs whose start was undone as if they had never been started.
func removesStartNumbers(_ string, m any) any {
	request, is := m.(*messages.AccessStore)
	undone := func(f *messages.FileWrite) bool { return f.Op == "return-job" }
	if !is || !slices.ContainsFunc(request.GetWrite().GetFiles(), undone) {
		return m
	}
	request = proto.CloneOf(request)
	for _, f := range request.GetWrite().Files {
		if j, err := job.Decode(f.Content); err == nil {
			j.Livelock = ""
			f.Content = job.Encode(j)
		}
	}
	return request
}

// dropsProgress drops replications of a job file for which no request waits.
func dropsProgress(_ string, m any) any {
	if observe, is := m.(*messages.ReplicateJobFile); is && observe.Request == 0 {
		return nil
	}
	return m
}

// noFence removes the wait of a new master before it starts jobs.
func noFence(_ string, m any) any {
	if order, is := m.(*messages.BecomeMaster); is && order.FenceMs > 0 {
		return &messages.BecomeMaster{Term: order.Term}
	}
	return m
}

// dropsRunning removes the running jobs from the first message of the log to a replicator.
func dropsRunning(_ string, m any) any {
	if attached, is := m.(*messages.LogAttached); is {
		return &messages.LogAttached{Applied: attached.Applied, Incarnation: attached.Incarnation}
	}
	return m
}

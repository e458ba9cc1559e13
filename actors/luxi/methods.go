package luxi

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/query"
	"lockstep/core/wire"
	"lockstep/messages"
)

// method serves one request. An error means that the request is not a valid
// one; everything else is answered by the method itself, now or later.
type method func(c *connection, ctx actor.Context, args []json.RawMessage) error

var methods = map[string]method{
	"SubmitJob":               (*connection).submitJob,
	"SubmitJobToDrainedQueue": (*connection).submitJobToDrainedQueue,
	"SubmitManyJobs":          (*connection).submitManyJobs,
	"QueryJobs":               (*connection).queryJobs,
	"WaitForJobChange":        (*connection).waitForJobChange,
	"CancelJob":               (*connection).cancelJob,
	"ChangeJobPriority":       (*connection).changeJobPriority,
	"ArchiveJob":              (*connection).archiveJob,
	"AutoArchiveJobs":         (*connection).autoArchiveJobs,
	"SetDrainFlag":            (*connection).setDrainFlag,
	"SetWatcherPause":         (*connection).setWatcherPause,
	"Query":                   (*connection).query,
	"QueryFields":             (*connection).queryFields,
	"QueryFilters":            (*connection).queryFilters,
	"QueryNodes":              classicQuery("QueryNodes", query.Nodes),
	"QueryInstances":          classicQuery("QueryInstances", query.Instances),
	"QueryGroups":             classicQuery("QueryGroups", query.Groups),
	"QueryNetworks":           classicQuery("QueryNetworks", query.Networks),
	"QueryExports":            (*connection).queryExports,
	"QueryTags":               (*connection).queryTags,
	"QueryClusterInfo":        (*connection).queryClusterInfo,
	"QueryConfigValues":       (*connection).queryConfigValues,
	"PickupJob":               (*connection).pickupJob,
	// Ours: for people, and for job processes.
	"LockstepStatus":        (*connection).lockstepStatus,
	"ReplaceFilter":         (*connection).replaceFilter,
	"LockstepReplaceFilter": (*connection).lockstepReplaceFilter,
	"DeleteFilter":          (*connection).deleteFilter,
	"LockstepWhy":           (*connection).lockstepWhy,
	"LockstepPending":       (*connection).lockstepPending,
	"LockstepGetSettings":   (*connection).lockstepGetSettings,
	"LockstepSetSettings":   (*connection).lockstepSetSettings,
	"LockstepOpcodes":       (*connection).lockstepOpcodes,
	"LockstepLocks":         (*connection).lockstepLocks,
	NodesMethod:             (*connection).lockstepNodes,
	"LockstepNodeRemove":    (*connection).lockstepNodeRemove,
	"LockstepNodePromote":   (*connection).lockstepNodePromote,
	"LockstepNodeCheck":     (*connection).lockstepNodeCheck,
	"LockstepReportJob":     (*connection).reportJob,
	"LockstepBeginOpcode":   (*connection).beginOpcode,
}

func (c *connection) pickupJob(ctx actor.Context, _ []json.RawMessage) error {
	c.fail(ctx, messages.GenericFailure("Luxi call 'PickupJob' is for internal use only"))
	return nil
}

// arguments decodes positional arguments strictly (queue.md 1.4).
func arguments(args []json.RawMessage, into ...any) error { return wire.Arguments(args, into...) }

// jobID is a job id on the wire: an integer, or its decimal text.
type jobID int64

func (id *jobID) UnmarshalJSON(data []byte) error {
	digits := data
	if len(data) > 1 && data[0] == '"' {
		digits = data[1 : len(data)-1]
	}
	parsed, err := strconv.ParseUint(string(digits), 10, 63)
	if err != nil {
		return fmt.Errorf("%s is not a job id", data)
	}
	*id = jobID(parsed)
	return nil
}

func quote(s string) string {
	data, err := json.Marshal(s)
	if err != nil {
		return "?"
	}
	return string(data)
}

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

// method serves one request. An error means that the request is invalid: the connection answers with it and closes.
// Otherwise the method answers, at once or after it has asked other actors.
type method func(c *call, ctx actor.Context, args []json.RawMessage) error

var methods = map[string]method{
	"SubmitJob":               submitJob,
	"SubmitJobToDrainedQueue": submitJobToDrainedQueue,
	"SubmitManyJobs":          submitManyJobs,
	"QueryJobs":               queryJobs,
	"WaitForJobChange":        waitForJobChange,
	"CancelJob":               cancelJob,
	"ChangeJobPriority":       changeJobPriority,
	"ArchiveJob":              archiveJob,
	"AutoArchiveJobs":         autoArchiveJobs,
	"SetDrainFlag":            setDrainFlag,
	"SetWatcherPause":         setWatcherPause,
	"Query":                   queryItems,
	"QueryFields":             queryFields,
	"QueryFilters":            queryFilters,
	"QueryNodes":              classicQuery("QueryNodes", query.Nodes),
	"QueryInstances":          classicQuery("QueryInstances", query.Instances),
	"QueryGroups":             classicQuery("QueryGroups", query.Groups),
	"QueryNetworks":           classicQuery("QueryNetworks", query.Networks),
	"QueryExports":            queryExports,
	"QueryTags":               queryTags,
	"QueryClusterInfo":        queryClusterInfo,
	"QueryConfigValues":       queryConfigValues,
	"PickupJob":               pickupJob,
	// Lockstep's own methods, for its client and for job processes; all are part of docs/protocol.md.
	"LockstepSubmitJobs":     lockstepSubmitJobs,
	"LockstepListJobs":       lockstepListJobs,
	"LockstepPageJobs":       lockstepPageJobs,
	"LockstepNextJobs":       lockstepNextJobs,
	"LockstepStatus":         lockstepStatus,
	"LockstepHoldJob":        lockstepHoldJob,
	"ReplaceFilter":          replaceFilter,
	"LockstepReplaceFilter":  lockstepReplaceFilter,
	"LockstepTestFilter":     lockstepTestFilter,
	"LockstepListFilters":    lockstepListFilters,
	"DeleteFilter":           deleteFilter,
	"LockstepWhy":            lockstepWhy,
	"LockstepPending":        lockstepPending,
	"LockstepOrder":          lockstepOrder,
	"LockstepGetSettings":    lockstepGetSettings,
	"LockstepSetSettings":    lockstepSetSettings,
	"LockstepEvents":         lockstepEvents,
	"LockstepOpcodes":        lockstepOpcodes,
	"LockstepReloadOpcodes":  lockstepReloadOpcodes,
	"LockstepConfigShow":     lockstepConfigShow,
	"LockstepConfigHistory":  lockstepConfigHistory,
	"LockstepConfigCheck":    lockstepConfigCheck,
	"LockstepConfigAdopt":    lockstepConfigAdopt,
	"LockstepConfigDiscard":  lockstepConfigDiscard,
	"LockstepRotateConfdKey": lockstepRotateConfdKey,
	"LockstepLoginLink":      lockstepLoginLink,
	"LockstepRedeemLink":     lockstepRedeemLink,
	"LockstepOpenSession":    lockstepOpenSession,
	"LockstepCheckSession":   lockstepCheckSession,
	"LockstepEndSession":     lockstepEndSession,
	"LockstepLocks":          lockstepLocks,
	NodesMethod:              lockstepNodes,
	"LockstepDistribution":   lockstepDistribution,
	"LockstepNodeRemove":     lockstepNodeRemove,
	"LockstepNodePromote":    lockstepNodePromote,
	"LockstepNodeCheck":      lockstepNodeCheck,
	"LockstepReportJob":      reportJob,
	"LockstepBeginOpcode":    beginOpcode,
	"LockstepAwaitJobs":      lockstepAwaitJobs,
}

func pickupJob(c *call, ctx actor.Context, _ []json.RawMessage) error {
	c.fail(ctx, messages.GenericFailure("Luxi call 'PickupJob' is for internal use only"))
	return nil
}

// arguments decodes positional arguments. Their number and types must be those of into (queue.md 1.4).
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

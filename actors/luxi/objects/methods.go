// Package objects serves the methods about all that is not a job: nodes, groups, instances, networks, locks, filter rules, the
// configuration and the settings, opcodes, logins at the console, and granted roles.
package objects

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/luxi/call"
	"lockstep/core/query"
)

var methods = map[string]call.Method{
	"SetWatcherPause":        setWatcherPause,
	"QueryFilters":           queryFilters,
	"QueryNodes":             classicQuery("QueryNodes", query.Nodes),
	"QueryInstances":         classicQuery("QueryInstances", query.Instances),
	"QueryGroups":            classicQuery("QueryGroups", query.Groups),
	"QueryNetworks":          classicQuery("QueryNetworks", query.Networks),
	"QueryExports":           queryExports,
	"QueryTags":              queryTags,
	"QueryClusterInfo":       queryClusterInfo,
	"QueryConfigValues":      queryConfigValues,
	"ReplaceFilter":          replaceFilter,
	"LockstepReplaceFilter":  lockstepReplaceFilter,
	"LockstepTestFilter":     lockstepTestFilter,
	"LockstepListFilters":    lockstepListFilters,
	"DeleteFilter":           deleteFilter,
	"LockstepGetSettings":    lockstepGetSettings,
	"LockstepSetSettings":    lockstepSetSettings,
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
	"LockstepAudit":          lockstepAudit,
	"LockstepLocks":          lockstepLocks,
	call.NodesMethod:         lockstepNodes,
	"LockstepDistribution":   lockstepDistribution,
	"LockstepNodeRemove":     lockstepNodeRemove,
	"LockstepNodePromote":    lockstepNodePromote,
	"LockstepNodeCheck":      lockstepNodeCheck,
	"LockstepWhoAmI":         lockstepWhoAmI,
	"LockstepListGrants":     lockstepListGrants,
	"LockstepGrant":          lockstepGrant,
	"LockstepRevoke":         lockstepRevoke,
}

// Methods are the names of the methods of this package, in order.
func Methods() []string { return slices.Sorted(maps.Keys(methods)) }

// Serve serves a call as a call.Method does. known is false for a method of another package.
func Serve(c *call.Call, ctx actor.Context, args []json.RawMessage) (known bool, err error) {
	serve, known := methods[c.Method]
	if known {
		err = serve(c, ctx, args)
	}
	return known, err
}

// Queries has a function for each kind of objects. An error means that the fields or the filter are invalid; otherwise
// the function answers, at once or after it has asked other actors.
var Queries = map[string]func(c *call.Call, ctx actor.Context, fields []string, filter json.RawMessage) error{
	"lock":     queryLocks,
	"filter":   queryRules,
	"node":     objectQuery(query.Nodes),
	"group":    objectQuery(query.Groups),
	"instance": objectQuery(query.Instances),
	"network":  objectQuery(query.Networks),
	"export":   objectQuery(query.Exports),
}

package luxi

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/luxi/call"
	"lockstep/actors/luxi/jobs"
	"lockstep/actors/luxi/objects"
	"lockstep/messages"
)

// methods are those that belong neither to jobs nor to objects alone.
var methods = map[string]call.Method{
	"Query":       queryItems,
	"QueryFields": queryFields,
	"PickupJob":   pickupJob,
}

// Methods are the names of all methods, in order.
func Methods() []string {
	return slices.Sorted(slices.Values(slices.Concat(slices.Collect(maps.Keys(methods)), jobs.Methods(), objects.Methods())))
}

func pickupJob(c *call.Call, ctx actor.Context, _ []json.RawMessage) error {
	c.Fail(ctx, messages.GenericFailure("Luxi call 'PickupJob' is for internal use only"))
	return nil
}

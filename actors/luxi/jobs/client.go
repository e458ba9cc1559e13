// Package jobs serves the methods about jobs: submissions, queries, waits and events, orders of clients, and what job processes ask.
package jobs

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/events"
	"lockstep/actors/luxi/call"
	"lockstep/messages"
)

// Client is what a connection keeps for its client between two requests.
type Client struct {
	config  *call.Config
	pending pendingEvents
	origin  origin
	wait    *waitCall // the WaitForJobChange that is not answered; nil: none
}

// NewClient makes the state of a new connection.
func NewClient(c *call.Config) *Client { return &Client{config: c} }

// request is a call of a method of this package.
type request struct {
	*call.Call
	client *Client
}

var methods = map[string]func(r *request, ctx actor.Context, args []json.RawMessage) error{
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
	"LockstepSubmitJobs":      lockstepSubmitJobs,
	"LockstepListJobs":        lockstepListJobs,
	"LockstepPageJobs":        lockstepPageJobs,
	"LockstepUsage":           lockstepUsage,
	"LockstepNextJobs":        lockstepNextJobs,
	"LockstepStatus":          lockstepStatus,
	"LockstepHoldJob":         lockstepHoldJob,
	"LockstepSchedules":       lockstepSchedules,
	"LockstepPutSchedule":     lockstepPutSchedule,
	"LockstepOrderSchedule":   lockstepOrderSchedule,
	"LockstepMayOrder":        lockstepMayOrder,
	"LockstepOrderJobs":       lockstepOrderJobs,
	"LockstepWhy":             lockstepWhy,
	"LockstepPending":         lockstepPending,
	"LockstepOrder":           lockstepOrder,
	"LockstepEvents":          lockstepEvents,
	"LockstepReportJob":       reportJob,
	"LockstepBeginOpcode":     beginOpcode,
	"LockstepAwaitJobs":       lockstepAwaitJobs,
}

// Methods are the names of the methods of this package, in order.
func Methods() []string { return slices.Sorted(maps.Keys(methods)) }

// Serve serves a call as a call.Method does. known is false for a method of another package.
func (k *Client) Serve(c *call.Call, ctx actor.Context, args []json.RawMessage) (known bool, err error) {
	serve, known := methods[c.Method]
	if known {
		err = serve(&request{c, k}, ctx, args)
	}
	return known, err
}

// Comes takes what a request shows of its sender: the marker of a job process in its environment, "" if there is none.
func (k *Client) Comes(marker string) {
	if marker != "" {
		k.origin.marker = marker
	}
}

// Receive handles a change or an event that the client has subscribed to. It reports whether the message is one; false leaves it to
// others.
func (k *Client) Receive(ctx actor.Context) bool {
	switch m := ctx.Message().(type) {
	case *messages.JobChanged:
		if k.wait != nil && !k.wait.Ended() {
			k.wait.changed(ctx, m)
		}
		return true
	case *messages.JobStatesChanged:
		k.pending.add(m)
	case *events.EventPublished:
		k.pending.addOther(m)
	case *events.Gap:
		k.pending.missed = true
	default:
		return false
	}
	k.pending.arrived(ctx)
	return true
}

// QueueStarted subscribes again to the events of jobs after a restart of the queue, if the client has subscribed. Events may have been
// missed, and a waiting call is answered with that.
func (k *Client) QueueStarted(ctx actor.Context) {
	if k.pending.subscribed {
		ctx.Request(k.config.Queue, &messages.SubscribeAllJobs{Progress: true})
		k.pending.missed = true
		k.pending.arrived(ctx)
	}
}

// CoreStarted sends what the client waits for to a scheduler that has started.
func (k *Client) CoreStarted(ctx actor.Context) {
	if k.origin.awaited != nil {
		ctx.Request(k.config.Scheduler, k.origin.awaited)
	}
}

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

package objects

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/config/distributor"
	"lockstep/actors/conn"
	"lockstep/actors/luxi/call"
	"lockstep/core/answer"
	"lockstep/core/distribution"
	"lockstep/core/queuecopy"
	"lockstep/core/wire"
)

// lockstepDistribution takes []. The answer is an answer.Distribution, or null if no node has a node daemon.
func lockstepDistribution(c *call.Call, ctx actor.Context, args []json.RawMessage) error {
	if err := wire.Arguments(args); err != nil {
		return fmt.Errorf("LockstepDistribution: %w", err)
	}
	if c.Config.Distributor == nil {
		c.Succeed(ctx, nil)
		return nil
	}
	q := conn.Question{To: c.Config.Distributor, LostBy: conn.QueueRestart,
		Message: func(number uint64) any { return &distributor.GetNodes{Request: number} }}
	call.Ask(c, ctx, q, func(ctx actor.Context, a *distributor.GetNodesResult) {
		askCopies(c, ctx, func(ctx actor.Context, copies []queuecopy.NodeState) { c.Succeed(ctx, distributionOf(a, copies)) })
	})
	return nil
}

func distributionOf(a *distributor.GetNodesResult, copies []queuecopy.NodeState) answer.Distribution {
	d := answer.Distribution{Serial: a.Serial, Nodes: []answer.DistributionNode{}}
	for _, n := range a.Nodes {
		node := answer.DistributionNode{UUID: n.UUID, Name: n.Name, Address: n.Address, Role: string(n.Role),
			Config: distributed(n.ConfigFile), Ssconf: distributed(n.Ssconf)}
		if i := slices.IndexFunc(copies, func(s queuecopy.NodeState) bool { return s.UUID == n.UUID }); i >= 0 {
			node.Queue = copied(copies[i])
		}
		d.Nodes = append(d.Nodes, node)
	}
	return d
}

func copied(s queuecopy.NodeState) *answer.CopiedQueue {
	q := &answer.CopiedQueue{Behind: s.Behind, Comparing: s.Comparing, Sending: s.Sending, Failures: s.Failures,
		Copied: s.Copied, Median: s.Median.Seconds(), Worst: s.Worst.Seconds()}
	if !s.Since.IsZero() {
		q.Since = answer.TimeOf(s.Since.UnixMicro())
	}
	if s.Failures > 0 {
		q.Error = s.Err.Error()
		q.Failed = answer.TimeOf(s.FailedAt.UnixMicro())
		q.Retry = answer.TimeOf(s.RetryAt.UnixMicro())
	}
	return q
}

// distributed is what a client is told of a file of a node; nil if the node is not to get the file.
func distributed(s distribution.FileState) *answer.DistributedFile {
	if !s.Wanted {
		return nil
	}
	f := &answer.DistributedFile{Serial: s.Serial, Behind: s.Behind, Sending: s.Sending, Failures: s.Failures}
	if s.Failures > 0 && s.Err != nil {
		f.Error = s.Err.Error()
		f.Failed = answer.TimeOf(s.FailedAt.UnixMicro())
	}
	if !s.RetryAt.IsZero() {
		f.Retry = answer.TimeOf(s.RetryAt.UnixMicro())
	}
	return f
}

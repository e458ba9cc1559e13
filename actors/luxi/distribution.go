package luxi

import (
	"encoding/json"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/conn"
	"lockstep/actors/distributor"
	"lockstep/core/answer"
	"lockstep/core/distribution"
)

// lockstepDistribution takes []. The answer is an answer.Distribution, or null if no node has a node daemon.
func lockstepDistribution(c *call, ctx actor.Context, args []json.RawMessage) error {
	if err := arguments(args); err != nil {
		return fmt.Errorf("LockstepDistribution: %w", err)
	}
	if c.config.Distributor == nil {
		c.succeed(ctx, nil)
		return nil
	}
	q := conn.Question{To: c.config.Distributor, LostBy: conn.QueueRestart,
		Message: func(number uint64) any { return &distributor.GetNodes{Request: number} }}
	ask(c, ctx, q, func(ctx actor.Context, a *distributor.GetNodesResult) { c.succeed(ctx, distributionOf(a)) })
	return nil
}

func distributionOf(a *distributor.GetNodesResult) answer.Distribution {
	d := answer.Distribution{Serial: a.Serial, Nodes: []answer.DistributionNode{}}
	for _, n := range a.Nodes {
		d.Nodes = append(d.Nodes, answer.DistributionNode{UUID: n.UUID, Name: n.Name, Address: n.Address, Role: string(n.Role),
			Config: distributed(n.ConfigFile), Ssconf: distributed(n.Ssconf)})
	}
	return d
}

// distributed returns nil for a file that the node is not to get.
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

package node

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"lockstep/core/answer"
	"lockstep/messages"
)

// reloadTimeout is how long a node may take to read its declared opcodes.
const reloadTimeout = 20 * time.Second

// nodeOpcodes reloads the opcodes of all nodes of a cluster. It is call.OpcodeFiles of the master.
type nodeOpcodes struct{ node *node }

// Reload is part of call.OpcodeFiles. A node with a mistake in its files, and a node that does not answer, is reported
// beside the others.
func (o nodeOpcodes) Reload(done func(answer.OpcodesReloaded, error)) {
	go func() {
		nodes, err := o.node.queryNodes()
		if err != nil {
			done(answer.OpcodesReloaded{}, fmt.Errorf("the nodes of the cluster are not known: %w", err))
			return
		}
		result := answer.OpcodesReloaded{Nodes: make([]answer.NodeOpcodes, len(nodes.Members))}
		var asking sync.WaitGroup
		for i, m := range nodes.Members {
			asking.Go(func() { result.Nodes[i] = o.reload(m) })
		}
		asking.Wait()
		for _, n := range result.Nodes {
			if n.Node == o.node.identity.Name {
				result.Declared = n.Declared
			}
		}
		slices.SortFunc(result.Nodes, func(a, b answer.NodeOpcodes) int { return cmp.Compare(a.Node, b.Node) })
		done(result, nil)
	}()
}

func (o nodeOpcodes) reload(m *messages.Member) answer.NodeOpcodes {
	ctx, cancel := context.WithTimeout(context.Background(), reloadTimeout)
	defer cancel()
	result := answer.NodeOpcodes{Node: m.Name}
	var err error
	if m.Name == o.node.identity.Name {
		result.Declared, err = (&backend{o.node}).ReloadOpcodes(ctx)
	} else {
		result.Declared, err = o.node.client.ReloadOpcodes(ctx, m.Address)
	}
	if err != nil {
		result.Error = err.Error()
	}
	return result
}

// ReloadOpcodes is part of peer.Backend. It has this node read its declared opcodes again, and returns their number, or the mistakes in
// the files.
func (b *backend) ReloadOpcodes(ctx context.Context) (declared int, err error) {
	type result struct {
		declared int
		err      error
	}
	done := make(chan result, 1)
	b.node.RequestReload(func(declared int, err error) { done <- result{declared, err} })
	select {
	case r := <-done:
		return r.declared, r.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

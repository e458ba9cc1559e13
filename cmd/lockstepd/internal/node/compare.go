package node

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/config/configstore"
	"lockstep/edge/peer"
	"lockstep/messages"
	"lockstep/persistence"
	"lockstep/supervisor"
)

const (
	filesTimeout = 5 * time.Minute
	// recheckDelay is the pause before differing files are compared again: entries in
	// transit are applied in that time.
	recheckDelay = time.Second
)

// digests calls each for every shared file of this node, or for those of only if there are any. The files of the configuration are
// written first, because each node writes its own at other times. If that fails, they differ from those of
// the other nodes.
func (n *node) digests(ctx context.Context, only []string, each func(peer.FileDigest) error) error {
	answer, err := n.Env.System().Root.RequestFuture(supervisor.ConfigStore(n.Env), &configstore.Flush{}, requestTimeout).Result()
	if m, is := answer.(*configstore.Flushed); is && m.Failure != nil {
		err = m.Failure
	}
	if err != nil {
		n.Log.WithField("err", err).Warn("configuration cannot be written before its comparison with that of other nodes")
	}
	names, err := persistence.SharedFiles(n.Config.DataDir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if len(only) > 0 && !slices.Contains(only, name) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		sum, size, err := persistence.Digest(n.Config.DataDir, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // archived since the list was made
		}
		if err != nil {
			return err
		}
		if err := each(peer.FileDigest{Path: name, SHA256: sum, Size: size}); err != nil {
			return err
		}
	}
	return nil
}

// checksums are SHA-256 sums of files, by path.
type checksums map[string]string

// differences are the files of one node that differ from the master's, by path.
type differences map[string]difference

type difference struct {
	what messages.FileDifference_What
	sum  string // of the node's file; "": it has none
}

// comparison is the result of one comparison of all nodes.
type comparison struct {
	files int // of the master that were compared
	nodes []comparedNode
}

type comparedNode struct {
	differs differences
	err     error // why there is no result
}

// Compare is part of replicator.Peers. It returns at once; to gets the differences of the members' files from this node's, with the
// number.
func (p *peers) Compare(number uint64, members []*messages.Member, leaveOut []string, to *actor.PID) {
	go func() {
		answer := p.compareTwice(members, leaveOut)
		answer.Number = number
		p.node.Env.System().Root.Send(to, answer)
	}()
}

// compareTwice compares the files of the nodes, and after a pause those that differ once more. A file counts that differs both times: it
// was not only on its way.
func (p *peers) compareTwice(members []*messages.Member, leaveOut []string) *messages.NodesCompared {
	began := time.Now()
	first, err := p.compare(members, nil, leaveOut)
	took := time.Since(began)
	if err != nil {
		return &messages.NodesCompared{Failure: messages.Generic(err)}
	}
	all := differences{}
	for _, n := range first.nodes {
		maps.Copy(all, n.differs)
	}
	if len(all) > 0 {
		time.Sleep(recheckDelay)
		only := slices.Sorted(maps.Keys(all))
		if len(only) > peer.OnlyMax {
			only = nil
		}
		began = time.Now()
		second, err := p.compare(members, only, leaveOut)
		took += time.Since(began)
		if err != nil {
			return &messages.NodesCompared{Failure: messages.Generic(err)}
		}
		first.keepStanding(second)
	}
	answer := first.answer(members)
	answer.TookUs = took.Microseconds()
	return answer
}

// compare compares the files of only, with no paths all files, and leaves out those of leaveOut. The nodes read their files at the same
// time. The error is about this node's files; those of others are in the comparison.
func (p *peers) compare(members []*messages.Member, only, leaveOut []string) (comparison, error) {
	wanted := checksums{}
	for _, path := range only {
		wanted[path] = ""
	}
	gather := func(from func(context.Context, func(peer.FileDigest) error) error) (checksums, error) {
		ctx, cancel := context.WithTimeout(context.Background(), filesTimeout)
		defer cancel()
		all := checksums{}
		err := from(ctx, func(f peer.FileDigest) error {
			if _, is := wanted[f.Path]; is || len(only) == 0 {
				all[f.Path] = f.SHA256
			}
			return nil
		})
		for _, path := range leaveOut {
			delete(all, path)
		}
		return all, err
	}
	others, failed := make([]checksums, len(members)), make([]error, len(members))
	var asking sync.WaitGroup
	for i, m := range members {
		asking.Go(func() {
			others[i], failed[i] = gather(func(ctx context.Context, each func(peer.FileDigest) error) error {
				return p.node.client.Files(ctx, m.Address, only, each)
			})
		})
	}
	own, err := gather(func(ctx context.Context, each func(peer.FileDigest) error) error {
		return p.node.digests(ctx, only, each)
	})
	asking.Wait()
	c := comparison{files: len(own), nodes: make([]comparedNode, len(members))}
	for i := range members {
		if c.nodes[i].err = failed[i]; failed[i] == nil {
			c.nodes[i].differs = differencesOf(own, others[i])
		}
	}
	return c, err
}

// differencesOf returns the files of a node that differ from the master's.
func differencesOf(master, node checksums) differences {
	found := differences{}
	for path, sum := range master {
		switch other, there := node[path]; {
		case !there:
			found[path] = difference{what: messages.FileDifference_MISSING}
		case other != sum:
			found[path] = difference{messages.FileDifference_DIFFERS, other}
		}
	}
	for path, sum := range node {
		if _, there := master[path]; !there {
			found[path] = difference{messages.FileDifference_EXTRA, sum}
		}
	}
	return found
}

// keepStanding keeps the differences that a second comparison has found, too, with the same content on the node. If the node's
// content has changed meanwhile, entries about it are in transit.
func (c comparison) keepStanding(second comparison) {
	for i := range c.nodes {
		n := &c.nodes[i]
		if n.err == nil {
			n.err = second.nodes[i].err
		}
		maps.DeleteFunc(n.differs, func(path string, d difference) bool {
			again, differs := second.nodes[i].differs[path]
			return !differs || again != d
		})
	}
}

// answer lists the differences of the members, each sorted by path.
func (c comparison) answer(members []*messages.Member) *messages.NodesCompared {
	answer := &messages.NodesCompared{Files: int64(c.files)}
	for i, m := range members {
		n := &messages.NodeDifferences{Name: m.Name, Answers: c.nodes[i].err == nil}
		if err := c.nodes[i].err; err != nil {
			n.Error = err.Error()
		}
		for path, d := range c.nodes[i].differs {
			n.Files = append(n.Files, &messages.FileDifference{Path: path, What: d.what})
		}
		slices.SortFunc(n.Files, func(a, b *messages.FileDifference) int { return strings.Compare(a.Path, b.Path) })
		answer.Nodes = append(answer.Nodes, n)
	}
	return answer
}

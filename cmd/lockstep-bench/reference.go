package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"lockstep/core/ownership"
	"lockstep/edge/peer"
	"lockstep/edge/raftlog"
	"lockstep/edge/raftlog/reference"
	"lockstep/persistence"
)

// referenceConfig is a node of raft alone, in a separate process as a daemon.
type referenceConfig struct {
	Name     string            `json:"name"`
	Members  map[string]string `json:"members"`  // addresses by name
	Identity string            `json:"identity"` // data directory of the daemon whose certificate it uses
	Dir      string            `json:"dir"`
	// Files: each entry is written to a file by rename, without a sync.
	Files bool `json:"files"`
}

// referenceOrder asks a node to commit entries. Clients 0: it asks only whether the node leads.
type referenceOrder struct {
	Clients int    `json:"clients"`
	Commits int    `json:"commits"` // of all clients together
	Entry   []byte `json:"entry"`
}

type referenceAnswer struct {
	Leads  bool          `json:"leads"`
	Took   time.Duration `json:"took"`   // for all commits
	Median time.Duration `json:"median"` // of one commit
	Error  string        `json:"error"`
}

// newReferenceCommand is one node of raft alone. It carries out orders from its standard input, and ends with the input.
func newReferenceCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "reference CONFIG",
		Short:  "Be a node of raft without a queue",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			var config referenceConfig
			if err := json.Unmarshal([]byte(args[0]), &config); err != nil {
				return err
			}
			return config.serve(c.InOrStdin(), c.OutOrStdout())
		},
	}
}

func (c referenceConfig) serve(orders io.Reader, answers io.Writer) error {
	node, err := c.open()
	if err != nil {
		return err
	}
	in, out := json.NewDecoder(orders), json.NewEncoder(answers)
	for {
		var order referenceOrder
		if err := in.Decode(&order); err != nil {
			break // the measurement has ended
		}
		if err := out.Encode(order.carryOut(node)); err != nil {
			break
		}
	}
	return node.Close()
}

func (c referenceConfig) open() (*reference.Node, error) {
	credentials, err := peer.LoadCredentials(c.Identity)
	if err != nil {
		return nil, err
	}
	listener, err := peer.Listen(c.Members[c.Name], credentials, peer.ListenOptions{})
	if err != nil {
		return nil, err
	}
	streams := raftlog.Streams(listener.Raft(), func(ctx context.Context, address string) (net.Conn, error) {
		return credentials.Dial(ctx, address, peer.ProtocolRaft)
	})
	log, files := filepath.Join(c.Dir, "wal"), filepath.Join(c.Dir, "files")
	if err := errors.Join(os.MkdirAll(log, 0o700), os.MkdirAll(files, 0o700)); err != nil {
		return nil, err
	}
	config := reference.Config{Dir: log, Name: c.Name, Members: c.Members, Streams: streams}
	if c.Files {
		config.Apply = func(index uint64, entry []byte) error {
			return persistence.ReplaceMessage(fmt.Sprintf("%s/job-%d", files, index), entry, ownership.Rules{})
		}
	}
	return reference.Open(config)
}

func (o referenceOrder) carryOut(node *reference.Node) referenceAnswer {
	answer := referenceAnswer{Leads: node.Leads()}
	if o.Clients == 0 {
		return answer
	}
	times := make([]float64, o.Commits)
	began := time.Now()
	err := parallel(o.Commits, o.Clients, func(i int) error {
		began := time.Now()
		err := node.Commit(o.Entry)
		times[i] = float64(time.Since(began))
		return err
	})
	answer.Took, answer.Median = time.Since(began), time.Duration(median(times))
	if err != nil {
		answer.Error = err.Error()
	}
	return answer
}

// referenceNode is the process of a node of raft alone.
type referenceNode struct {
	cmd *exec.Cmd
	in  io.Closer
	out *json.Decoder
	to  *json.Encoder
}

// referenceGroup is raft alone, with as many nodes as a cluster has.
type referenceGroup struct {
	nodes  []*referenceNode
	leader *referenceNode
}

// startReference starts nodes of raft alone, with the certificates of a cluster's nodes, and returns when they have a leader. files: they
// write the files of jobs, too.
func (b *bench) startReference(cluster []*daemon, files bool) (*referenceGroup, error) {
	members := map[string]string{}
	for _, d := range cluster {
		address, err := freeAddress()
		if err != nil {
			return nil, err
		}
		members[d.name] = address
	}
	g := &referenceGroup{}
	for _, d := range cluster {
		n, err := b.startReferenceNode(referenceConfig{Name: d.name, Members: members, Identity: d.dataDir(), Dir: b.newDir(), Files: files})
		if err != nil {
			g.stop()
			return nil, err
		}
		g.nodes = append(g.nodes, n)
	}
	for deadline := time.Now().Add(waitMax); ; {
		for _, n := range g.nodes {
			answer, err := n.order(referenceOrder{})
			if err != nil || answer.Leads {
				g.leader = n
				return g, err
			}
		}
		if time.Now().After(deadline) || b.ctx.Err() != nil {
			g.stop()
			return nil, errors.New("raft alone elects no leader")
		}
		<-time.After(pollPause)
	}
}

func (b *bench) startReferenceNode(c referenceConfig) (*referenceNode, error) {
	config, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(b.self, "reference", string(config))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &referenceNode{cmd: cmd, in: in, to: json.NewEncoder(in), out: json.NewDecoder(bufio.NewReader(out))}, nil
}

func (n *referenceNode) order(o referenceOrder) (answer referenceAnswer, err error) {
	if err = n.to.Encode(o); err == nil {
		err = n.out.Decode(&answer)
	}
	if err == nil && answer.Error != "" {
		err = errors.New(answer.Error)
	}
	if err != nil {
		return answer, fmt.Errorf("raft alone: %w", err)
	}
	return answer, nil
}

func (g *referenceGroup) stop() {
	for _, n := range g.nodes {
		_ = n.in.Close()
		_ = n.cmd.Process.Kill()
		_ = n.cmd.Wait() // killed
	}
}

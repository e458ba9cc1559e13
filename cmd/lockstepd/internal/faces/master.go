package faces

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"lockstep/cmd/lockstepd/internal/settings"
	"lockstep/core/config/journal"
	"lockstep/core/config/model"
	corenoded "lockstep/core/noded"
	"lockstep/core/paths"
	"lockstep/edge/noded"
)

// ownName is the full name of this node: GANETI_HOSTNAME, or the first name that /etc/hosts or the resolver has for the name of
// the machine.
func ownName() string {
	if name := os.Getenv("GANETI_HOSTNAME"); name != "" {
		return name
	}
	host, err := os.Hostname()
	if err != nil {
		return "localhost"
	}
	hosts, _ := os.ReadFile("/etc/hosts")
	for line := range strings.Lines(string(hosts)) {
		line, _, _ = strings.Cut(line, "#")
		if fields := strings.Fields(line); len(fields) > 1 && slices.Contains(fields[1:], host) {
			return fields[1]
		}
	}
	if name, err := net.DefaultResolver.LookupCNAME(context.Background(), host); err == nil && name != "" {
		return strings.TrimSuffix(name, ".")
	}
	return host
}

// checkMaster returns errNotMaster unless ssconf names this node as the master.
func checkMaster(c settings.Config, self string) error {
	content, err := os.ReadFile(filepath.Join(c.DataDir, paths.SsconfPrefix+"master_node"))
	if err != nil {
		return fmt.Errorf("read the name of the master: %w", err)
	}
	if strings.TrimSpace(string(content)) != self {
		return errNotMaster
	}
	return nil
}

// readConfiguration reads and decodes config.data.
func readConfiguration(c settings.Config) (*model.Config, error) {
	path := filepath.Join(c.DataDir, paths.ConfigPath)
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	parsed, _, err := journal.DecodeConfig(data)
	if err != nil {
		return nil, fmt.Errorf("%s: parsing configuration: %w", path, err)
	}
	return parsed, nil
}

// voteTimeout bounds the answer of one node in one round.
const voteTimeout = 30 * time.Second

// vote returns nil when more than half of all nodes, also of those marked offline, name this node as the master.
func vote(c settings.Config, self string, stderr io.Writer) error {
	configuration, err := readConfiguration(c)
	if err != nil {
		return err
	}
	var nodes []corenoded.Node
	for _, n := range configuration.Nodes.All() {
		nodes = append(nodes, corenoded.Node{Name: n.Value.Name, Address: n.Value.PrimaryIP})
	}
	client := noded.NewClient(noded.ConfigOf(c.DataDir))
	return decideVote(self, stderr, func(round int) corenoded.Votes {
		if round > 0 {
			time.Sleep(corenoded.VoteInterval)
		}
		return askAll(client, nodes, self, stderr)
	})
}

// decideVote asks the nodes in rounds until the vote is decided: nil if it is won, else the reason why not. A round that decides nothing
// is reported on stderr.
func decideVote(self string, stderr io.Writer, ask func(round int) corenoded.Votes) error {
	for round := range corenoded.VoteRetries + 1 {
		votes := ask(round)
		if votes.Won() {
			return nil
		}
		if err := votes.Lost(self); err != nil {
			return err
		}
		fmt.Fprintf(stderr, "%d of %d nodes name %s as the master, %d do not answer\n", votes.Favor, votes.Nodes, self, votes.Unknown)
	}
	return errors.New("Couldn't gather voting results of enough nodes")
}

// askAll asks all nodes at once for the name of the master, and counts the answers. A node that does not answer is reported on stderr.
func askAll(client *noded.Client, nodes []corenoded.Node, self string, stderr io.Writer) (votes corenoded.Votes) {
	ctx, cancel := context.WithTimeout(context.Background(), voteTimeout)
	defer cancel()
	var mu sync.Mutex
	var calls sync.WaitGroup
	for _, n := range nodes {
		calls.Go(func() {
			result, err := client.Call(ctx, n, corenoded.AskMasterName())
			var master string
			if err == nil {
				master, err = corenoded.DecodeMasterName(result)
			}
			mu.Lock()
			defer mu.Unlock()
			votes.Count(self, master, err)
			if err != nil {
				fmt.Fprintf(stderr, "%s does not name the master: %v\n", n.Name, err)
			}
		})
	}
	calls.Wait()
	return votes
}

// masterIPTimeout bounds the activation of the address of the cluster.
const masterIPTimeout = 5 * time.Minute

// activateMasterIP has the node daemon of this node put the address of the cluster on the network interface.
func activateMasterIP(ctx context.Context, c settings.Config) error {
	configuration, err := readConfiguration(c)
	if err != nil {
		return err
	}
	cluster := &configuration.Cluster.Value
	master, found := configuration.Nodes.Get(cluster.MasterNode)
	if !found {
		return errors.New("the master is not among the nodes")
	}
	family := int64(2)
	if cluster.IPFamily != 0 {
		family = cluster.IPFamily
	}
	ip := corenoded.MasterIP{Node: cluster.MasterNode, Address: cluster.MasterIP, Netmask: cluster.MasterNetmask, Device: cluster.MasterNetdev,
		Family: family, External: cluster.UseExternalMIPScript}
	ctx, cancel := context.WithTimeout(ctx, masterIPTimeout)
	defer cancel()
	node := corenoded.Node{Name: master.Value.Name, Address: master.Value.PrimaryIP}
	result, err := noded.NewClient(noded.ConfigOf(c.DataDir)).Call(ctx, node, ip.Request())
	if err != nil {
		return err
	}
	return corenoded.DecodeVoid(result)
}

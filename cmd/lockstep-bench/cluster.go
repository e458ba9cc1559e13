package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"lockstep/actors/luxi/call"
	"lockstep/core/answer"
	"lockstep/persistence"
)

// pollPause is the pause between two looks at what starts.
const pollPause = 20 * time.Millisecond

// startCluster makes a cluster by the commands of the documentation. It returns when all nodes have a vote, with a
// connection to the master.
func (b *bench) startCluster(size int) (nodes []*daemon, master *daemon, err error) {
	var token string
	for i := range size {
		d := &daemon{bench: b, root: b.newDir(), name: fmt.Sprintf("n%d", i+1)}
		if err := os.MkdirAll(d.dataDir(), 0o700); err != nil {
			return nil, nil, err
		}
		b.daemons = append(b.daemons, d)
		nodes = append(nodes, d)
		address, err := freeAddress()
		if err != nil {
			return nil, nil, err
		}
		if i == 0 {
			_, err = d.command("init", "--address", address, "--name", d.name)
			d.address = address
		} else {
			_, err = d.command("add", "--address", address, "--name", d.name, "--join", nodes[0].address, "--token-file", token)
		}
		if err == nil {
			err = d.start()
		}
		if err == nil && i == 0 {
			token, err = d.writeToken()
		}
		if err != nil {
			return nil, nil, err
		}
	}
	master, err = b.awaitVotes(nodes)
	return nodes, master, err
}

// freeAddress is an address on loopback at which nothing listens now.
func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}

// command runs a subcommand of lockstep node for the data directory of a daemon, and returns what it prints.
func (d *daemon) command(args ...string) (string, error) {
	args = append(append([]string{"node"}, args...), "--data-dir", d.dataDir())
	out, err := exec.CommandContext(d.bench.ctx, d.bench.program("lockstep"), args...).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return "", fmt.Errorf("lockstep %s: %s", strings.Join(args, " "), exit.Stderr)
	}
	return string(out), err
}

// writeToken makes a join token and returns the name of a file that has it.
func (d *daemon) writeToken() (string, error) {
	token, err := d.command("token")
	if err != nil {
		return "", err
	}
	name := filepath.Join(d.root, "token")
	return name, os.WriteFile(name, []byte(token), 0o600)
}

// awaitVotes returns the master when all nodes have a vote. The error is that of waitMax.
func (b *bench) awaitVotes(nodes []*daemon) (*daemon, error) {
	for deadline := time.Now().Add(waitMax); b.ctx.Err() == nil && time.Now().Before(deadline); <-time.After(pollPause) {
		votes, master := 0, (*daemon)(nil)
		list, err := nodes[0].listNodes()
		if err != nil {
			continue // it does not answer yet
		}
		for _, n := range list.Nodes {
			if n.Voter {
				votes++
			}
		}
		for _, d := range nodes {
			if d.name == list.Master {
				master = d
			}
		}
		if votes == len(nodes) && master != nil {
			return master, nil
		}
	}
	return nil, fmt.Errorf("not all of %d nodes get a vote", len(nodes))
}

func (d *daemon) listNodes() (list answer.Nodes, err error) {
	c, err := d.dial(persistence.LuxiSocket)
	if err != nil {
		return list, err
	}
	defer c.close()
	return list, c.call(&list, call.NodesMethod)
}

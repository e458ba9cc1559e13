package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/cmd/lockstep/internal/jobs"
	"lockstep/cmd/lockstep/internal/nodes"
	"lockstep/core/answer"
)

const (
	demoNodes = 3
	// demoKills is the number of kills of the master.
	demoKills = 2
	// demoPause is the time between two submissions.
	demoPause = 20 * time.Millisecond
	// demoCalm is the time between two kills.
	demoCalm = 1500 * time.Millisecond
	// demoCatchUp bounds the time in which a returned node gets all jobs, on a very busy machine.
	demoCatchUp = time.Minute
)

// clusterDemo demonstrates several nodes on this machine.
type clusterDemo struct {
	*demo
	nodes []*demoNode
	ids   []int64       // of acknowledged jobs
	gap   time.Duration // the longest between two acknowledgements
}

// demoNode is one node.
type demoNode struct {
	*Daemon
	name, address string
}

func runCluster(ctx context.Context, globals *cli.Globals) (err error) {
	ctx, globals, release := untilInterrupted(ctx, globals)
	defer release() // no signal interrupts the cleanup
	root, err := os.MkdirTemp("", "lockstep-demo-")
	if err != nil {
		return err
	}
	d := &clusterDemo{demo: &demo{globals: globals, root: root, colours: globals.Palette()}}
	defer func() {
		var daemons []*Daemon
		for _, n := range d.nodes {
			_ = n.Stop() // an error has no consequence at the end
			daemons = append(daemons, n.Daemon)
		}
		err = firstError(causeOf(ctx, err), Clear(root, daemons...))
	}()
	if err := d.setUp(ctx); err != nil {
		return err
	}
	if err := d.work(ctx); err != nil {
		return err
	}
	return d.conclude(ctx)
}

// setUp makes the cluster with the commands of an operator, starts its daemons, and waits until all have a vote.
func (d *clusterDemo) setUp(ctx context.Context) error {
	token := ""
	for i := range demoNodes {
		address, err := freeAddress()
		if err != nil {
			return err
		}
		root := filepath.Join(d.root, fmt.Sprintf("n%d", i+1))
		n := &demoNode{name: fmt.Sprintf("n%d", i+1), address: address,
			Daemon: NewDaemon(root)}
		if err := os.MkdirAll(filepath.Join(root, "lib"), 0o750); err != nil {
			return err
		}
		args := []string{"node", "init", "--name", n.name, "--address", address, "--data-dir", filepath.Join(root, "lib")}
		if i > 0 {
			args = []string{
				"node", "add", "--name", n.name, "--address", address,
				"--join", d.nodes[0].address, "--data-dir", filepath.Join(root, "lib"),
			}
		}
		d.say("$ lockstep %s", strings.Join(args[:len(args)-2], " "))
		out, err := demoCommand(ctx, token, args)
		if err != nil {
			return err
		}
		if found := regexp.MustCompile(`(?m)^ +([A-Za-z0-9_-]{40,})$`).FindStringSubmatch(out); i == 0 && found != nil {
			token = found[1]
		}
		d.nodes = append(d.nodes, n) // before its start, so that it is always stopped
		if err := n.Start(ctx); err != nil {
			return err
		}
	}
	d.say("\nThree daemons run on loopback. The second and third fetch the queue and get a vote ...")
	return d.awaitVotes(ctx)
}

func demoCommand(ctx context.Context, token string, args []string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	command := exec.CommandContext(ctx, self, args...)
	command.Env = append(os.Environ(), "LOCKSTEP_JOIN_TOKEN="+token)
	var complaints bytes.Buffer
	command.Stderr = &complaints
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("lockstep %s: %w: %s", strings.Join(args, " "), err, complaints.String())
	}
	return string(out), nil
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// list queries the nodes of the cluster from the first node that answers.
func (d *clusterDemo) list(ctx context.Context) (answer.Nodes, error) {
	err := errors.New("there is no node")
	for _, n := range d.nodes {
		cluster, s := answer.Nodes{}, &client.Session{Path: n.Socket, After: d.globals.Streams.After}
		err = s.Call(ctx, "LockstepNodes", []any{}, &cluster)
		s.Close()
		if err == nil {
			return cluster, nil
		}
	}
	return answer.Nodes{}, err
}

func (d *clusterDemo) awaitVotes(ctx context.Context) error {
	for {
		cluster, err := d.list(ctx)
		up := 0
		for _, n := range cluster.Nodes {
			if n.Answers && n.Voter {
				up++
			}
		}
		if err == nil && up == demoNodes && cluster.Master != "" {
			return d.show(ctx)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-d.globals.Streams.After(100 * time.Millisecond):
		}
	}
}

func (d *clusterDemo) show(ctx context.Context) error {
	cluster, err := d.list(ctx)
	if err != nil {
		return err
	}
	d.say("\n%s", d.colours.Title("lockstep node list"))
	for _, n := range cluster.Nodes {
		state, _, _ := strings.Cut(nodes.State(n, d.colours), ":")
		d.say("  %-4s %-16s %-10s %s", n.Name, n.Address, nodes.Role(n), state)
	}
	return nil
}

// work submits job after job to any node that answers, and kills the master twice meanwhile.
func (d *clusterDemo) work(ctx context.Context) error {
	d.say("\nSubmitting a job every %v, each of which writes a line into its own file.", demoPause)
	killed := (*demoNode)(nil)
	next, kills, last := time.Now().Add(demoCalm), 0, time.Now()
	for kills < demoKills || killed != nil || time.Now().Before(next) {
		if err := d.submitOne(ctx); err != nil {
			return err
		}
		took := time.Since(last)
		last = time.Now()
		d.gap = max(d.gap, took)
		switch {
		case killed != nil:
			text := fmt.Sprintf("Job %d was acknowledged %.1f s after the kill. %s returns, and catches up.",
				d.ids[len(d.ids)-1], took.Seconds(), killed.name)
			d.say("%s", d.colours.Title(text))
			if err := killed.Start(ctx); err != nil {
				return err
			}
			killed, next = nil, time.Now().Add(demoCalm)
		case kills < demoKills && time.Now().After(next):
			master, err := d.master(ctx)
			if err != nil {
				return err
			}
			d.say("\n%s", d.colours.Title(fmt.Sprintf("kill -9 of %s, the master, after %d jobs.", master.name, len(d.ids))))
			if err := master.kill(); err != nil {
				return err
			}
			killed, last = master, time.Now()
			kills++
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-d.globals.Streams.After(demoPause):
		}
	}
	return nil
}

func (d *clusterDemo) master(ctx context.Context) (*demoNode, error) {
	cluster, err := d.list(ctx)
	if err != nil {
		return nil, err
	}
	for _, n := range d.nodes {
		if n.name == cluster.Master {
			return n, nil
		}
	}
	return nil, errors.New("no node knows a master")
}

// submitOne submits one job under one name to one node after the other until one acknowledges it. The name makes repeats harmless.
func (d *clusterDemo) submitOne(ctx context.Context) error {
	script := fmt.Sprintf("echo $LOCKSTEP_JOB_ID >> %s/ran-$LOCKSTEP_JOB_ID", d.root)
	jobs := []demoJob{{"cluster", []string{script}, d.root}}
	reasons := client.NewTrails(d.globals.Streams.Now(), d.globals.Streams.RequestName(), "demonstration", "demo")
	for n := 0; ; n++ {
		s := &client.Session{Path: d.nodes[n%demoNodes].Socket, After: d.globals.Streams.After}
		ids, err := submitJobs(ctx, s, jobs, reasons)
		s.Close()
		if err == nil {
			d.ids = append(d.ids, ids...)
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-d.globals.Streams.After(20 * time.Millisecond):
		}
	}
}

// conclude waits for the ends of all jobs and prints a summary. The error says that a job is missing or ran twice.
func (d *clusterDemo) conclude(ctx context.Context) error {
	s := &client.Session{Path: d.nodes[0].Socket, After: d.globals.Streams.After}
	defer s.Close()
	counts := map[string]int{}
	for unfinished := true; unfinished; {
		jobs, err := jobs.FetchList(ctx, s)
		if err != nil {
			return err
		}
		counts, unfinished = map[string]int{}, false
		for _, job := range jobs {
			counts[job.Status]++
			unfinished = unfinished || !client.Final(job.Status)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-d.globals.Streams.After(200 * time.Millisecond):
		}
	}
	missing, err := d.awaitCopies(ctx)
	if err != nil {
		return err
	}
	if err := d.show(ctx); err != nil {
		return err
	}
	twice := 0
	for _, id := range d.ids {
		if content, err := os.ReadFile(filepath.Join(d.root, fmt.Sprintf("ran-%d", id))); err == nil && bytes.Count(content, []byte("\n")) > 1 {
			twice++
		}
	}
	d.say("\n%d jobs were acknowledged: %d succeeded, %d failed because they ran when their node was killed.",
		len(d.ids), counts[client.StatusSuccess], counts[client.StatusError])
	d.say("%d of them are missing on any node, %d ran twice. The longest wait for an answer was %.1f s.", missing, twice, d.gap.Seconds())
	d.say("\nNext:  lockstep node --help                    (three commands make a cluster of three machines)")
	if missing > 0 || twice > 0 || counts[client.StatusSuccess]+counts[client.StatusError] < len(d.ids) {
		return errors.New("the demonstration failed: see above")
	}
	return nil
}

// awaitCopies waits until all nodes have all acknowledged jobs, for at most demoCatchUp, and returns the number of jobs that are still
// missing on some node.
func (d *clusterDemo) awaitCopies(ctx context.Context) (missing int, err error) {
	limit := d.globals.Streams.After(demoCatchUp)
	for {
		if missing = d.missing(); missing == 0 {
			return 0, nil
		}
		select {
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case <-limit:
			return missing, nil
		case <-d.globals.Streams.After(100 * time.Millisecond):
		}
	}
}

// missing is the number of jobs whose file is missing on some node.
func (d *clusterDemo) missing() int {
	missing := 0
	for _, id := range d.ids {
		if slices.ContainsFunc(d.nodes, func(n *demoNode) bool {
			_, err := os.Stat(filepath.Join(n.root, "lib", "queue", fmt.Sprintf("job-%d", id)))
			return err != nil
		}) {
			missing++
		}
	}
	return missing
}

// kill ends the daemon with SIGKILL and waits for its end.
func (d *Daemon) kill() error {
	if err := d.cmd.Process.Kill(); err != nil {
		return err
	}
	<-d.done
	return nil
}

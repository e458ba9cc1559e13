package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	systemd "github.com/coreos/go-systemd/v22/daemon"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"

	"lockstep/actors/config/clusterconfig"
	"lockstep/actors/kit"
	"lockstep/cmd/internal/places"
	"lockstep/cmd/lockstepd/internal/datadir"
	"lockstep/cmd/lockstepd/internal/janitor"
	"lockstep/cmd/lockstepd/internal/listeners"
	"lockstep/cmd/lockstepd/internal/process"
	"lockstep/cmd/lockstepd/internal/settings"
	"lockstep/core/config/reserve"
	"lockstep/core/opcode"
	"lockstep/edge/ownerwatch"
	"lockstep/edge/peer"
	"lockstep/messages"
	"lockstep/persistence"
	"lockstep/supervisor"
)

// drainTimeout bounds an orderly stop. What was acknowledged is on the disk, so that the end of
// the time loses nothing.
const drainTimeout = 10 * time.Second

// answersTimeout is how long an orderly stop waits for clients to receive their answers.
const answersTimeout = 2 * time.Second

// readyPollInterval is the pause between questions whether the queue is ready. A crash of the
// queue loses a question.
const readyPollInterval = time.Second

// run runs the daemon, from the directories to the orderly stop. Its error says in one line what
// the operator must correct.
func run(c settings.Config) error {
	if err := process.DropJobMarker(); err != nil {
		return err
	}
	if err := datadir.CheckSetUp(c); err != nil {
		return err
	}
	stop, reload := process.Signals()
	log := c.NewLog()
	if err := persistence.MakeDirs(c.DataDir, c.RunDir, c.LogDir, c.Owners); err != nil {
		return err
	}
	queue, err := persistence.LockQueue(c.DataDir, c.Owners)
	if err != nil {
		return err
	}
	runDir, err := persistence.LockRun(c.RunDir)
	if err != nil {
		return errors.Join(err, queue.Release())
	}
	sockets, err := lockSockets(c)
	if err != nil {
		return errors.Join(err, runDir.Release(), queue.Release())
	}
	stop, lost := context.WithCancelCause(stop)
	defer lost(nil)
	go janitor.WatchLock(stop, queue, lost)
	err = runLocked(c, log, stop, reload, nil)
	if replaced, ok := errors.AsType[*persistence.LockReplacedError](context.Cause(stop)); ok {
		err = errors.Join(replaced, err)
	}
	return errors.Join(err, sockets.Release(), runDir.Release(), queue.Release())
}

// lockSockets makes the directory of the sockets, and locks it if it is not in the run directory,
// which is locked: another daemon with another run directory could have it, too.
func lockSockets(c settings.Config) (*persistence.RunLock, error) {
	if err := persistence.MakeSocketDir(c.RunDir, c.SocketDir, c.Owners); err != nil {
		return nil, fmt.Errorf("socket-dir: %w", err)
	}
	if c.SocketDir == persistence.SocketDir(c.RunDir) {
		return nil, nil
	}
	return persistence.LockRun(c.SocketDir)
}

// checkStart fails if this node must not start with the given configuration, and returns the identity of the node, nil without a cluster.
func checkStart(c settings.Config) (*peer.Identity, error) {
	if !places.IsProgram(c.JobProgram) {
		return nil, fmt.Errorf("job-program: %s is not a program that can be started", c.JobProgram)
	}
	if err := c.Ganeti.CheckPrograms(); err != nil {
		return nil, err
	}
	// Again, because lockstep node init may have run before this process got the lock.
	if err := datadir.CheckSetUp(c); err != nil {
		return nil, err
	}
	return datadir.LoadIdentity(c.DataDir)
}

// runLocked runs while this process holds the locks of the queue and of the run directory. p is nil under the name lockstepd.
func runLocked(c settings.Config, log *logrus.Logger, stop context.Context, reload <-chan os.Signal, p *phase) error {
	identity, err := checkStart(c)
	if err != nil {
		return err
	}
	if identity != nil {
		c.NodeName = identity.Name
	}
	files, err := persistence.OpenFiles(c.DataDir, c.Owners)
	if err != nil {
		return err
	}
	defer files.Close()
	if p.hasQueue() {
		if err := datadir.CheckQueue(c, files, identity); err != nil {
			return err
		}
	}
	prepared, err := datadir.Prepare(c, p.hasQueue(), files, log, identity != nil && datadir.HasLog(c.DataDir))
	if err != nil {
		return err
	}
	if err := datadir.NoteRunDir(c, files); err != nil {
		return err
	}
	livelock, err := persistence.CreateLivelock(persistence.LivelockDir(c.RunDir), persistence.DaemonLivelock, c.Owners)
	if err != nil {
		return err
	}
	defer func() { _ = livelock.Release() }() // left behind, a free lock also means a dead process
	janitor.SweepLivelocks(c.RunDir, log, files)
	jobStderr, err := persistence.OpenLog(filepath.Join(c.LogDir, "jobs.log"), c.Owners)
	if err != nil {
		return err
	}
	defer jobStderr.Close()
	d := newService(c, log, files, reload, p)
	d.openProcesses(jobStderr, identity)
	defer d.processes.Close()
	owners := ownerwatch.New(persistence.LivelockDir(c.RunDir), livelock.Path(), func(livelock string) {
		d.env.System().Root.Send(supervisor.Locks(d.env), &messages.OwnerDied{Livelock: livelock})
	})
	defer owners.Close()
	callers := ownerwatch.NewCallers(persistence.LivelockDir(c.RunDir), livelock.Path(), func(by reserve.Caller) {
		d.env.System().Root.Send(supervisor.ClusterConfig(d.env), &clusterconfig.CallerDied{Caller: by})
	})
	defer callers.Close()
	d.setPorts(owners, callers)
	if err := d.loadSettings(livelock.Path()); err != nil {
		return err
	}
	closeServers, err := d.openServers(identity)
	if err != nil {
		return err
	}
	defer closeServers()
	d.settings.Prepared = prepared
	if identity != nil {
		return d.runNode(identity, stop)
	}
	if c.Ganeti.Enabled {
		return d.runGaneti(stop)
	}
	return d.runAlone(stop)
}

// openServers opens the server of queries about the configuration, and makes MonD. identity is nil without a cluster.
func (d *service) openServers(identity *peer.Identity) (closeServers func(), err error) {
	node := ""
	if identity != nil {
		node = identity.Address
	}
	queries, err := listeners.OpenConfd(d.config, d.log, node)
	if err != nil {
		return nil, err
	}
	var collectors []prometheus.Collector
	if queries != nil {
		d.ports.Confd = queries
		collectors = append(collectors, queries)
	}
	d.remoteAPI.AddCollectors(collectors...)
	d.mond, d.ports.Monitor = listeners.NewMond(d.config, d.env, d.processes, collectors...)
	return func() {
		if queries != nil {
			_ = queries.Close() // nothing is lost with it
		}
	}, nil
}

// runAlone runs the daemon of a queue that belongs to no cluster of lockstep.
func (d *service) runAlone(stop context.Context) error {
	if err := persistence.RemoveLease(d.config.RunDir); err != nil {
		return err
	}
	tree, err := supervisor.Tree(d.ports, d.settings)
	if err != nil {
		return err
	}
	return d.serve(tree, stop)
}

// serve accepts connections until the daemon is stopped or fails.
func (d *service) serve(tree *supervisor.Running, stop context.Context) error {
	to, question := tree.Root, any(&messages.AnnounceQueue{})
	if !d.phase.hasQueue() {
		to, question = supervisor.ClusterConfig(d.env), &messages.PublishConfig{}
	}
	if err := awaitAnswer(stop, d.env, tree, to, question); err != nil {
		d.stopTree(tree)
		return err
	}
	gateways := listeners.Gateways{Luxi: func() *actor.PID { return tree.Luxi }, Wconfd: func() *actor.PID { return tree.Wconfd }}
	open, err := listeners.Open(d.config, d.phase.borrowed(), d.env, gateways, d.remoteAPI, d.mond)
	if err != nil {
		d.stopTree(tree)
		return err
	}
	d.announceStart()
	background, end := context.WithCancel(stop)
	defer end()
	go watchdog(background, d.log, d.env.System(), to, question)
	if d.phase.hasQueue() {
		go janitor.Run(background, d.log, d.files, d.config, func() bool { return true })
	}
	go d.reloadOpcodes(background, func(c *opcode.Catalogue) { supervisor.SetOpcodes(d.env, c) })
	select {
	case <-stop.Done():
	case <-tree.Done:
		return errors.Join(errTreeFailed, open.Close())
	}
	d.log.Info("stopping; running jobs continue")
	notifySystemd(d.log, systemd.SdNotifyStopping)
	err = open.Close()
	d.drain(tree.Root)
	d.env.System().Root.Stop(tree.Root)
	<-tree.Done
	open.Wait(answersTimeout)
	return err
}

// stopTree stops the actors before their files are closed.
func (d *service) stopTree(tree *supervisor.Running) {
	d.env.System().Root.Stop(tree.Root)
	<-tree.Done
}

// errTreeFailed is the error after actors have failed too often.
var errTreeFailed = errors.New("the daemon cannot go on; its log says why. Running jobs go on, and are adopted at the next start")

// announce logs that the daemon has started.
func (d *service) announce(text string) {
	d.log.WithFields(logrus.Fields{"run_dir": d.config.RunDir, "data_dir": d.config.DataDir, "pid": os.Getpid()}).Info(text)
	notifySystemd(d.log, systemd.SdNotifyReady)
}

// drain completes everything that a tree has accepted.
func (d *service) drain(root *actor.PID) {
	if _, err := d.env.System().Root.RequestFuture(root, &messages.Drain{}, drainTimeout).Result(); err != nil {
		d.log.WithField("err", err).Warn("drain not finished in time; unanswered requests are dropped, acknowledged ones are on disk")
	}
}

// errStoppedEarly is the error of a daemon that was stopped before it served clients.
var errStoppedEarly = errors.New("stopped before the queue was read")

// announceStart tells that clients are served.
func (d *service) announceStart() {
	switch {
	case d.phase == nil:
		d.announce("lockstepd started: jobs are accepted")
		return
	case d.phase.hasQueue():
		d.announce("locks, configuration and queue are served")
	default:
		d.announce("locks and configuration are served, without the queue: ganeti-luxid does not run")
	}
	d.phase.ready()
}

// awaitAnswer returns when an actor of the tree answers a question, or the tree has stopped.
func awaitAnswer(stop context.Context, env *kit.Env, tree *supervisor.Running, to *actor.PID, question any) error {
	for {
		_, err := env.System().Root.RequestFuture(to, question, readyPollInterval).Result()
		if err == nil {
			return nil
		}
		select {
		case <-tree.Done:
			return errors.New("the files cannot be read; the log says why")
		case <-stop.Done():
			return errStoppedEarly
		default:
		}
	}
}

// randomOctets returns octets that cannot be guessed.
func randomOctets(count int) []byte {
	b := make([]byte, count)
	_, _ = rand.Read(b) // never fails
	return b
}

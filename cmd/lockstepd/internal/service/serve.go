package service

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"

	systemd "github.com/coreos/go-systemd/v22/daemon"

	"lockstep/actors/kit"
	"lockstep/cmd/lockstepd/internal/janitor"
	"lockstep/cmd/lockstepd/internal/listeners"
	"lockstep/core/opcode"
	"lockstep/messages"
	"lockstep/supervisor"
)

// drainTimeout bounds an orderly stop. What was acknowledged is on the disk, so that the end of
// the time loses nothing.
const drainTimeout = 10 * time.Second

// AnswersTimeout is how long an orderly stop waits for clients to receive their answers.
const AnswersTimeout = 2 * time.Second

// readyPollInterval is the pause between questions whether the queue is ready. A crash of the
// queue loses a question.
const readyPollInterval = time.Second

// Serve accepts connections until the daemon is stopped or fails. A stop completes what was accepted. The error is ErrTreeFailed if the
// actors have failed.
func (d *Service) Serve(tree *supervisor.Running, stop context.Context) error {
	to, question := tree.Root, any(&messages.AnnounceQueue{})
	if !d.phase.HasQueue() {
		to, question = supervisor.ClusterConfig(d.Env), &messages.PublishConfig{}
	}
	if err := awaitAnswer(stop, d.Env, tree, to, question); err != nil {
		d.stopTree(tree)
		return err
	}
	gateways := listeners.Gateways{Luxi: func() *actor.PID { return tree.Luxi }, Wconfd: func() *actor.PID { return tree.Wconfd },
		Accounts: d.Accounts}
	open, err := listeners.Open(d.Config, d.phase.borrowed(), d.Env, gateways, d.RemoteAPI, d.Mond)
	if err != nil {
		d.stopTree(tree)
		return err
	}
	d.announceStart()
	background, end := context.WithCancel(stop)
	defer end()
	go d.Watchdog(background, to, question)
	if d.phase.HasQueue() {
		go janitor.Run(background, d.Log, d.Files, d.Config, func() bool { return true })
	}
	go d.ReloadOpcodes(background, func(c *opcode.Catalogue) { supervisor.SetOpcodes(d.Env, c) })
	select {
	case <-stop.Done():
	case <-tree.Done:
		return errors.Join(ErrTreeFailed, open.Close())
	}
	d.AnnounceStop("stopping; running jobs continue")
	err = open.Close()
	d.Drain(tree.Root)
	d.Env.System().Root.Stop(tree.Root)
	<-tree.Done
	open.Wait(AnswersTimeout)
	return err
}

// stopTree stops the actors and waits for their end, before their files are closed.
func (d *Service) stopTree(tree *supervisor.Running) {
	d.Env.System().Root.Stop(tree.Root)
	<-tree.Done
}

// ErrTreeFailed is the error after actors have failed too often.
var ErrTreeFailed = errors.New("the daemon cannot go on; its log says why. Running jobs go on, and are adopted at the next start")

// Announce logs that the daemon has started, and tells systemd.
func (d *Service) Announce(text string) {
	d.Log.WithFields(logrus.Fields{"run_dir": d.Config.RunDir, "data_dir": d.Config.DataDir, "pid": os.Getpid()}).Info(text)
	notifySystemd(d.Log, systemd.SdNotifyReady)
}

// AnnounceStop logs that the orderly stop begins, and tells systemd.
func (d *Service) AnnounceStop(text string) {
	d.Log.Info(text)
	notifySystemd(d.Log, systemd.SdNotifyStopping)
}

// Drain completes everything that a tree has accepted, as far as that is possible within drainTimeout.
func (d *Service) Drain(root *actor.PID) {
	if _, err := d.Env.System().Root.RequestFuture(root, &messages.Drain{}, drainTimeout).Result(); err != nil {
		d.Log.WithField("err", err).Warn("drain not finished in time; unanswered requests are dropped, acknowledged ones are on disk")
	}
}

// ErrStoppedEarly is the error of a daemon that was stopped before it served clients.
var ErrStoppedEarly = errors.New("stopped before the queue was read")

// announceStart tells that clients are served: in the log, to systemd, and by Ready of the phase.
func (d *Service) announceStart() {
	switch {
	case d.phase == nil:
		d.Announce("lockstepd started: jobs are accepted")
		return
	case d.phase.HasQueue():
		d.Announce("locks, configuration and queue are served")
	default:
		d.Announce("locks and configuration are served, without the queue: ganeti-luxid does not run")
	}
	d.phase.Ready()
}

// awaitAnswer asks an actor of the tree again and again, and returns nil when it answers. The error says that the tree has stopped, or is
// ErrStoppedEarly.
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
			return ErrStoppedEarly
		default:
		}
	}
}

// OpenServers opens the server of queries about the configuration, and makes MonD, which is opened later. closeServers closes what was
// opened. node is the address of this node in its cluster, "" without one.
func (d *Service) OpenServers(node string) (closeServers func(), err error) {
	queries, err := listeners.OpenConfd(d.Config, d.Log, node)
	if err != nil {
		return nil, err
	}
	var collectors []prometheus.Collector
	if queries != nil {
		d.Ports.Confd = queries
		collectors = append(collectors, queries)
	}
	d.RemoteAPI.AddCollectors(collectors...)
	d.Mond, d.Ports.Monitor = listeners.NewMond(d.Config, d.Env, d.Processes, collectors...)
	return func() {
		if queries != nil {
			_ = queries.Close() // nothing is lost with it
		}
	}, nil
}

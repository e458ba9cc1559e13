package faces

import (
	"context"
	"errors"
	"net"
	"os"
	"time"

	"github.com/sirupsen/logrus"

	"lockstep/cmd/lockstepd/internal/datadir"
	"lockstep/cmd/lockstepd/internal/janitor"
	"lockstep/cmd/lockstepd/internal/process"
	"lockstep/cmd/lockstepd/internal/service"
	"lockstep/cmd/lockstepd/internal/settings"
	"lockstep/core/ownership"
	"lockstep/edge/attach"
	"lockstep/edge/socket"
	"lockstep/persistence"
)

// attachGrace is how long a start waits for a ganeti-luxid that has lost the former ganeti-wconfd, so that the tree of actors is
// started once.
const attachGrace = 3 * attachInterval

// runWconfd is ganeti-wconfd: configuration and locks, and the queue for ganeti-luxid. It holds the locks of the directories until stop
// ends.
func runWconfd(stop context.Context, c settings.Config, o options, ready func()) (err error) {
	if err := process.DropJobMarker(); err != nil {
		return err
	}
	if err := datadir.CheckSetUp(c); err != nil {
		return err
	}
	runDir, err := persistence.LockRun(c.RunDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, runDir.Release()) }()
	dataDir, err := persistence.LockData(c.DataDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dataDir.Release()) }()
	wconfd, err := socket.ListenUnix(persistence.SocketPath(c.RunDir, persistence.WconfSocket), c.Owners.Of(ownership.WconfSocket))
	if err != nil {
		return err
	}
	defer func() { _ = wconfd.Close() }()
	server, err := attach.Listen(persistence.SocketPath(c.RunDir, attachSocket), attachOwner(c))
	if err != nil {
		return err
	}
	defer func() { _ = server.Close() }()
	w := &wconfdPhases{config: c, start: o.startActors, log: o.newLog(c), wconfd: wconfd, queues: make(chan *attach.Queue), ready: ready}
	go w.accept(stop, server)
	return w.run(stop)
}

// wconfdPhases runs the phases, one after the other.
type wconfdPhases struct {
	config settings.Config
	start  Start
	log    *logrus.Logger
	wconfd net.Listener
	queues chan *attach.Queue // each ganeti-luxid that runs
	ready  func()
}

// accept passes on each ganeti-luxid. The next one waits until the former is served no more.
func (w *wconfdPhases) accept(stop context.Context, server *attach.Server) {
	for {
		queue, err := server.Accept()
		if err != nil {
			return
		}
		select {
		case w.queues <- queue:
		case <-stop.Done():
			queue.Close()
			return
		}
	}
}

func (w *wconfdPhases) run(stop context.Context) error {
	var queue *attach.Queue
	select {
	case queue = <-w.queues:
	case <-time.After(attachGrace):
	case <-stop.Done():
		return nil
	}
	for stop.Err() == nil {
		if queue != nil {
			w.withQueue(stop, queue)
			queue = nil
			continue
		}
		next, err := w.withoutQueue(stop)
		if err != nil {
			return err
		}
		queue = next
	}
	if queue != nil {
		queue.Close()
	}
	return nil
}

// withQueue runs until the ganeti-luxid ends. If the queue cannot be served, the ganeti-luxid is told why, and ends.
func (w *wconfdPhases) withQueue(stop context.Context, queue *attach.Queue) {
	defer queue.Close()
	ctx, cancel := doneOf(stop, queue.Gone())
	defer cancel()
	lock, err := persistence.LockQueue(w.config.DataDir, w.config.Owners)
	if err == nil {
		held, lost := context.WithCancelCause(ctx)
		go janitor.WatchLock(held, lock, lost)
		err = w.runPhase(held, &service.Phase{
			Sockets: map[string]net.Listener{persistence.WconfSocket: w.wconfd, persistence.LuxiSocket: queue.Listener},
			Ready:   func() { w.ready(); queue.Ready() },
		})
		if replaced, ok := errors.AsType[*persistence.LockReplacedError](context.Cause(held)); ok {
			err = errors.Join(replaced, err)
		}
		lost(nil)
		err = errors.Join(err, lock.Release())
	}
	if stop.Err() == nil {
		persistence.RemoveStalePIDFile(persistence.PIDFilePath(w.config.RunDir, luxidName))
	}
	if err != nil && ctx.Err() == nil {
		w.log.WithField("err", err).Error("the queue cannot be served; ganeti-luxid ends")
		queue.Fail(err)
	}
}

// withoutQueue serves configuration and locks until a ganeti-luxid begins, which it returns; nil: stop has ended.
func (w *wconfdPhases) withoutQueue(stop context.Context) (*attach.Queue, error) {
	ctx, cancel := context.WithCancel(stop)
	defer cancel()
	begun := make(chan *attach.Queue, 1)
	go func() {
		defer close(begun)
		select {
		case queue := <-w.queues:
			begun <- queue
			cancel()
		case <-ctx.Done():
		}
	}()
	err := w.runPhase(ctx, &service.Phase{Sockets: map[string]net.Listener{persistence.WconfSocket: w.wconfd}, Ready: w.ready})
	cancel()
	queue := <-begun
	if err != nil && queue != nil {
		queue.Fail(err)
		queue.Close()
	}
	return queue, err
}

func (w *wconfdPhases) runPhase(ctx context.Context, p *service.Phase) error {
	err := w.start(w.config, w.log, ctx, make(chan os.Signal), p)
	if errors.Is(err, service.ErrStoppedEarly) && ctx.Err() != nil {
		err = nil
	}
	return err
}

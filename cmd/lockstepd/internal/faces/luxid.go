package faces

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/sirupsen/logrus"

	"lockstep/cmd/lockstepd/internal/settings"
	"lockstep/core/ownership"
	"lockstep/edge/attach"
	"lockstep/edge/socket"
	"lockstep/persistence"
)

const (
	// attachInterval is the pause between two attempts to reach ganeti-wconfd.
	attachInterval = 100 * time.Millisecond
	// attachPatience is how long a start waits for ganeti-wconfd. Clients can connect before, and wait.
	attachPatience = 15 * time.Second
	// queueEndMax bounds the orderly end of the queue. daemon-util kills the daemon after 30 seconds.
	queueEndMax = 25 * time.Second
)

// runLuxid is ganeti-luxid: it owns the queue's socket, and ganeti-wconfd serves the queue while this process lives. Without a
// ganeti-wconfd clients wait, and are refused after standInAfter.
func runLuxid(stop context.Context, c settings.Config, o options, ready func()) error {
	log := o.newLog(c)
	listener, err := socket.ListenUnix(persistence.SocketPath(c.RunDir, persistence.LuxiSocket), c.Owners.Of(ownership.LuxiSocket))
	if err != nil {
		return err
	}
	defer func() { _ = listener.Close() }()
	local, isUnix := listener.(*net.UnixListener)
	if !isUnix {
		return errors.New("the queue's socket is no unix socket")
	}
	go func() {
		if err := activateMasterIP(stop, c); err != nil && stop.Err() == nil {
			log.WithField("err", err).Error("the address of the cluster was not activated")
		}
	}()
	late := time.AfterFunc(attachPatience, func() {
		log.Warn("ganeti-wconfd does not run or does not answer; clients wait")
		ready()
	})
	defer late.Stop()
	path := persistence.SocketPath(c.RunDir, attachSocket)
	var refuses *standIn
	defer func() { refuses.end() }()
	for stop.Err() == nil {
		client, err := attach.Dial(path, local)
		if err != nil {
			if refuses == nil {
				refuses = newStandIn(listener, standInAfter, log)
			}
			pause(stop, attachInterval)
			continue
		}
		refuses.end()
		refuses = nil
		if err := holdQueue(stop, client, c.RunDir, log, func() {
			if late.Stop() {
				ready()
			}
		}); err != nil {
			return err
		}
		pause(stop, attachInterval)
	}
	return nil
}

// holdQueue keeps the queue served until stop ends or ganeti-wconfd does, which is no error. An error says why ganeti-wconfd does not
// serve it.
func holdQueue(stop context.Context, client *attach.Client, runDir string, log *logrus.Logger, ready func()) error {
	defer client.Close()
	ended := make(chan error, 1)
	go func() {
		err := client.AwaitReady()
		if err == nil {
			log.Info("the queue is served")
			ready()
			err = client.AwaitEnd()
		}
		ended <- err
	}()
	var err error
	select {
	case err = <-ended:
	case <-stop.Done():
		client.End()
		select {
		case err = <-ended:
		case <-time.After(queueEndMax):
			log.Warn("ganeti-wconfd has not ended the queue in time; what was answered is on the disk")
		}
	}
	if refused, ok := errors.AsType[*attach.QueueError](err); ok {
		return refused
	}
	if stop.Err() == nil {
		persistence.RemoveStalePIDFile(persistence.PIDFilePath(runDir, wconfdName))
		log.Warn("ganeti-wconfd has ended; clients wait for the next one")
	}
	return nil
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

package main

import (
	"context"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	systemd "github.com/coreos/go-systemd/v22/daemon"
	"github.com/sirupsen/logrus"
)

// notifySystemd tells systemd, where it started us with Type=notify.
func notifySystemd(log *logrus.Logger, state string) {
	if _, err := systemd.SdNotify(false, state); err != nil {
		log.WithField("err", err).Warn("systemd cannot be told how the daemon is")
	}
}

// watchdog says that the daemon is well as long as an actor answers a question, where
// systemd wants to hear that (WatchdogSec=).
func watchdog(ctx context.Context, log *logrus.Logger, sys *actor.ActorSystem, pid *actor.PID, question any) {
	interval, err := systemd.SdWatchdogEnabled(false)
	if err != nil || interval == 0 {
		return
	}
	ticks := time.NewTicker(interval / 3)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		if _, err := sys.Root.RequestFuture(pid, question, interval/3).Result(); err != nil {
			log.WithField("err", err).Warn("the daemon does not answer itself; systemd is not told that the daemon is well")
			continue
		}
		notifySystemd(log, systemd.SdNotifyWatchdog)
	}
}

package service

import (
	"context"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	systemd "github.com/coreos/go-systemd/v22/daemon"
	"github.com/sirupsen/logrus"
)

// notifySystemd sends a state to systemd, if systemd has started the daemon with Type=notify.
func notifySystemd(log *logrus.Logger, state string) {
	if _, err := systemd.SdNotify(false, state); err != nil {
		log.WithField("err", err).Warn("notification of systemd failed")
	}
}

// Watchdog notifies systemd until ctx ends, as long as an actor answers a question. Without WatchdogSec= in the unit it does nothing.
func (d *Service) Watchdog(ctx context.Context, pid *actor.PID, question any) {
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
		if _, err := d.Env.System().Root.RequestFuture(pid, question, interval/3).Result(); err != nil {
			d.Log.WithField("err", err).Warn("health check of the actors failed; watchdog notification withheld from systemd")
			continue
		}
		notifySystemd(d.Log, systemd.SdNotifyWatchdog)
	}
}

// Package process has what the daemon does with its own process: signals, the place of process 1 in a container, and the environment
// of a daemon that a job has started.
package process

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// Signals handles signals. The first SIGTERM or SIGINT ends stop; the second one kills the daemon
// at once. reload gets each SIGHUP. It is called first, because an unhandled SIGHUP would end the
// daemon.
func Signals() (stop context.Context, reload <-chan os.Signal) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	stop, release := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	context.AfterFunc(stop, release)
	return stop, hangups
}

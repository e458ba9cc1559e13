package ganeti

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"lockstep/edge/luxiclient"
	"lockstep/persistence"
)

// System is the machine, beside its files.
type System interface {
	// Run runs a program to its end and returns what it has printed.
	Run(name string, args ...string) (output string, err error)
	// Watchers returns the processes of ganeti-watcher.
	Watchers() []int
	// Answers returns an error unless ganeti-luxid answers a query.
	Answers() error
	Now() time.Time
	// Pause waits before a check is repeated.
	Pause()
}

// machine is the System of production: programs, sockets and the clock of this machine. Tests have a made-up one.
type machine struct{}

const (
	pauseInterval = 200 * time.Millisecond
	answerTimeout = 10 * time.Second
	runTimeout    = 5 * time.Minute
)

// Run is part of System. It runs a program for at most runTimeout, and returns its output and its errors together.
func (machine) Run(name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), runTimeout)
	defer cancel()
	output, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	return string(output), err
}

// Watchers is part of System. A process that has ended meanwhile is left out.
func (machine) Watchers() (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range files {
		line, err := os.ReadFile(path)
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		for i, arg := range strings.Split(string(line), "\x00") {
			if err == nil && i < 2 && filepath.Base(arg) == "ganeti-watcher" {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// Answers is part of System. It makes one call to the daemon of the queue, and returns its error.
func (machine) Answers() error {
	ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
	defer cancel()
	c, err := luxiclient.Dial(ctx, persistence.SocketPath(runDir, persistence.LuxiSocket), luxiclient.Options{})
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	var values []string
	return c.Call(ctx, "QueryConfigValues", []any{[]string{"cluster_name"}}, &values)
}

// Now is part of System.
func (machine) Now() time.Time { return time.Now() }

// Pause is part of System. It sleeps for pauseInterval.
func (machine) Pause() { time.Sleep(pauseInterval) }

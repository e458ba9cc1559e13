package main

import (
	"fmt"
	"os/exec"
	"strings"
	"time"

	"lockstep/persistence"
)

// scenarioOutput measures the output of a command on its way to who follows it, beside the same bytes through cat, and what other jobs and
// the daemon's memory notice of it.
func scenarioOutput(b *bench) error {
	d, c, err := b.startDaemon(false)
	if err != nil {
		return err
	}
	defer d.kill()
	defer c.close()
	for round := range b.each(b.rounds) {
		err := alternate(round,
			func() error { return b.passOutput("Output", d.follow()) },
			func() error { return b.passOutput("BareOutput", b.bareOutput()) },
			func() error { return b.timeEach("JobAlone", b.sizes.serialJobs, c.runNoOp) },
			func() error { return b.besideOutput(d, c) })
		if err != nil {
			return err
		}
	}
	return d.stop()
}

func (b *bench) writer() []string {
	return []string{"head", "-c", fmt.Sprint(b.sizes.output), "/dev/zero"}
}

// follow is `lockstep run` of a command that writes sizes.output bytes. Its own output is discarded.
func (d *daemon) follow() *exec.Cmd {
	socket := persistence.SocketPath(d.runDir(), persistence.LuxiSocket)
	args := append([]string{"--socket", socket, "run", "--"}, d.bench.writer()...)
	return exec.CommandContext(d.bench.ctx, d.bench.program("lockstep"), args...)
}

// bareOutput is a pipe to cat with as many bytes.
func (b *bench) bareOutput() *exec.Cmd {
	return exec.CommandContext(b.ctx, "sh", "-c", strings.Join(b.writer(), " ")+" | cat")
}

// passOutput records how many bytes a second come through a program.
func (b *bench) passOutput(name string, program *exec.Cmd) error {
	began := time.Now()
	if err := program.Run(); err != nil {
		return fmt.Errorf("%s: %w", program, err)
	}
	b.recordRate(name, time.Since(began), b.sizes.output)
	return nil
}

// besideOutput measures no-ops, and how much the daemon's memory grows, while output flows.
func (b *bench) besideOutput(d *daemon, c *client) error {
	before, err := residentBytes(d.cmd.Process.Pid)
	if err != nil {
		return err
	}
	program := d.follow()
	if err := program.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- program.Wait() }()
	var noOps []float64
	var grown float64
	for {
		began := time.Now()
		if err := c.runNoOp(); err != nil {
			return err
		}
		noOps = append(noOps, float64(time.Since(began).Nanoseconds()))
		during, err := residentBytes(d.cmd.Process.Pid)
		if err != nil {
			return err
		}
		grown = max(grown, during-before)
		select {
		case err := <-ended:
			b.record("JobBesideOutput", median(noOps), len(noOps))
			b.record("OutputMemory", grown, 1)
			return err
		default:
		}
	}
}

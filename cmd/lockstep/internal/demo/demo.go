// Package demo has the command demo: a workload on real files, on one daemon or on three,
// which it starts in a temporary directory, kills and starts again. It owns these daemons
// and leaves no process and no file.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/cmd/lockstep/internal/follow"
	"lockstep/cmd/lockstep/internal/jobs"
)

// demoLimit bounds the whole demonstration.
const demoLimit = 2 * time.Minute

// demoWidth is how wide its table is, in columns, where there is no terminal.
const demoWidth = 110

// NewCommand is the command demo.
func NewCommand(globals *cli.Globals) *cobra.Command {
	cluster := false
	command := &cobra.Command{
		Use:   "demo",
		Short: "Show what the queue does, with a throw-away daemon",
		Long: `Start a daemon of its own in a temporary directory, give it a small workload of
real commands on real files, show it live, kill the daemon in the middle of it
and start it again, sum up, and clean up. Nothing outside that directory is
touched. It takes about ten seconds and needs sh, tar, gzip and sha256sum, and
lockstepd and lockstep-job beside this program.

With --cluster it is three daemons that share a queue: jobs are submitted all the
time while the master is killed, twice, and another node takes over.

Ctrl-C, SIGTERM, SIGHUP and a closed standard output end it: its jobs are killed,
its daemons stopped, its directory removed. It prints text only: there is no
--json.`,
		Example: `  lockstep demo
  lockstep demo --cluster`,
		Args: cli.WantArgs(0, 0, "demo takes no arguments"),
		RunE: func(command *cobra.Command, _ []string) error {
			if globals.JSON {
				return cli.Usagef("demo prints text for people, and has no --json")
			}
			ctx, cancel := context.WithTimeout(command.Context(), demoLimit)
			defer cancel()
			if cluster {
				return runCluster(ctx, globals)
			}
			return runOne(ctx, globals)
		},
	}
	command.Flags().BoolVar(&cluster, "cluster", false, "three daemons that take over from one another")
	return command
}

func runOne(ctx context.Context, globals *cli.Globals) (err error) {
	ctx, globals, release := untilInterrupted(ctx, globals)
	defer release() // no signal ends the cleaning
	root, err := os.MkdirTemp("", "lockstep-demo-")
	if err != nil {
		return err
	}
	d := &demo{globals: globals, root: root, colours: globals.Palette(), daemon: NewDaemon(root)}
	defer func() {
		stopErr := d.daemon.Stop()
		err = firstError(causeOf(ctx, err), stopErr, Clear(root, d.daemon))
	}()
	if err := d.daemon.Start(ctx); err != nil {
		return err
	}
	return d.run(ctx)
}

// causeOf is why ctx has ended, where that has led to err.
func causeOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return cause
	}
	return err
}

// firstError is what went wrong first: the rest follows from it.
func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// demo is one demonstration.
type demo struct {
	globals *cli.Globals
	root    string
	colours term.Palette
	daemon  *Daemon
}

// untilInterrupted gives a context that ends on Ctrl-C, SIGTERM, when the terminal is
// closed, and when the reader of standard output has gone. For the last the caller must use
// the globals that it returns.
//
// SIGPIPE is taken, so that it does not end the program before it has cleaned up. It says
// nothing about standard output: the socket of a daemon that was killed raises it, too.
func untilInterrupted(ctx context.Context, globals *cli.Globals) (context.Context, *cli.Globals, func()) {
	signals, release := globals.Streams.Interrupts(syscall.SIGHUP, syscall.SIGPIPE)
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		for {
			select {
			case s := <-signals:
				if s != syscall.SIGPIPE {
					cancel(&cli.ExitError{Code: cli.SignalCode(s)})
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	watched := *globals
	watched.Streams.Out = &readOutput{Writer: globals.Streams.Out, unread: func() {
		cancel(&cli.ExitError{Code: cli.SignalCode(syscall.SIGPIPE)})
	}}
	return ctx, &watched, func() { cancel(nil); release() }
}

// readOutput is a writer that tells when its reader has gone.
type readOutput struct {
	io.Writer
	unread func()
}

func (o *readOutput) Write(p []byte) (int, error) {
	n, err := o.Writer.Write(p)
	if errors.Is(err, syscall.EPIPE) {
		o.unread()
	}
	return n, err
}

func (d *demo) run(ctx context.Context) error {
	work := filepath.Join(d.root, "files")
	bytes, err := makeFiles(work)
	if err != nil {
		return err
	}
	jobs := workload(work)
	d.say("A daemon of its own has started, in %s.", d.root)
	d.say("Submitting %d jobs on %.1f MB of real files: four compress and checksum a directory each,", len(jobs), float64(bytes)/1e6)
	d.say("side by side; one has three steps, in order; one shows its progress; one will fail.\n")
	daemon := d.session()
	defer daemon.Close()
	ids, err := submitJobs(ctx, daemon, jobs, client.NewTrails(d.globals.Streams.Now(), d.globals.Streams.RequestName(), "demonstration", "demo"))
	if err != nil {
		return err
	}
	if err := d.watch(ctx, jobs, ids); err != nil {
		return err
	}
	return d.sumUp(ctx, daemon, ids)
}

func (d *demo) say(format string, args ...any) {
	fmt.Fprintf(d.globals.Streams.Out, format+"\n", args...)
}

func (d *demo) session() *client.Session {
	return &client.Session{Path: d.daemon.Socket, After: d.globals.Streams.After}
}

// watch shows all jobs live. As soon as the one that takes longest has come half
// way, the daemon is killed and started again: the jobs do not notice.
func (d *demo) watch(ctx context.Context, jobs []demoJob, ids []int64) error {
	lines := make(chan line)
	for i := range jobs {
		go func() { lines <- d.follow(ctx, jobs[i], ids[i], lines) }()
	}
	killed := false
	for open := len(jobs); open > 0; {
		line := <-lines
		if line.ended {
			open--
		}
		if line.err != nil {
			if cause := context.Cause(ctx); cause != nil {
				return cause
			}
			return line.err
		}
		if line.text != "" {
			d.say("%s", line.text)
		}
		if line.half && !killed {
			killed = true
			d.say("\n%s", d.colours.Title("kill -9 of the daemon. Jobs are processes of their own: they go on."))
			if err := d.daemon.crash(ctx); err != nil {
				return err
			}
			d.say("%s\n", d.colours.Title("The daemon is back, and has found what still runs and what has ended."))
		}
	}
	return nil
}

// line is what a job's follower has to show.
type line struct {
	text  string
	half  bool // the job has come half way
	ended bool
	err   error
}

// follow sends what happens to a job, and returns its end.
func (d *demo) follow(ctx context.Context, job demoJob, id int64, lines chan<- line) line {
	session := d.session()
	defer session.Close()
	label := fmt.Sprintf("%2d  %-22s", id, job.name)
	f := &follow.Follower{Session: session, ID: id}
	last := ""
	for {
		c, err := f.Next(ctx)
		if err != nil {
			return line{ended: true, err: err}
		}
		for _, entry := range c.Entries {
			lines <- line{text: label + "  " + term.Visible(entry.Text()), half: entry.Text() == demoHalf}
		}
		if c.Status != last && c.Status != client.StatusQueued && (!client.Final(c.Status) || c.Final) {
			last = c.Status
			text := label + "  " + cli.StatusText(d.colours, c.Status)
			if c.Final {
				return line{text: text, ended: true}
			}
			lines <- line{text: text}
		}
	}
}

// sumUp shows the list as `lockstep list` does, and where it all was.
func (d *demo) sumUp(ctx context.Context, daemon *client.Session, ids []int64) error {
	list, err := jobs.FetchList(ctx, daemon, jobs.ListOptions{})
	if err != nil {
		return err
	}
	streams := d.globals.Streams
	width := streams.Width
	if width == 0 {
		width = demoWidth
	}
	d.say("\n%s\n%s\n", d.colours.Title("lockstep list"), jobs.ListTable(list, streams.Now(), d.colours, width))
	counts := map[string]int{}
	for _, job := range list {
		counts[job.Status]++
	}
	files, err := filepath.Glob(filepath.Join(d.root, "lib", "queue", "job-*"))
	if err != nil {
		return err
	}
	d.say("%d jobs: %d succeeded, %d failed, as it was meant to. Each ran once, though the daemon was killed.",
		len(ids), counts[client.StatusSuccess], counts[client.StatusError])
	d.say("Each was a file of JSON that anyone can read (%d files in queue/), and is gone now.", len(files))
	d.say("\nNext:  make run                                (a daemon in ./var, in the foreground)")
	d.say("       bin/lockstep run -- make -j4 all        (in another terminal: a command as a job)")
	if len(list) != len(ids) || counts[client.StatusSuccess] != len(ids)-1 || counts[client.StatusError] != 1 {
		return fmt.Errorf("the demonstration went wrong: see the list above")
	}
	return nil
}

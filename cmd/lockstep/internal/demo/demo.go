// Package demo has the command demo: it starts one daemon or three in a temporary directory, runs a
// workload on real files, kills a daemon and starts it again. At the end, also after a signal, no
// process and no file is left.
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

// demoLimit bounds the time of the whole demonstration.
const demoLimit = 2 * time.Minute

// demoWidth is the width of the table, in columns, without a terminal.
const demoWidth = 110

// NewCommand is the command demo.
func NewCommand(globals *cli.Globals) *cobra.Command {
	cluster := false
	command := &cobra.Command{
		Use:   "demo",
		Short: "Show the queue at work, with a temporary daemon",
		Long: `Start a daemon in a temporary directory, submit a small workload of real commands on
real files, show it live, kill the daemon meanwhile and start it again, print a
summary, and clean up. Nothing outside that directory changes. It takes about ten
seconds and needs sh, tar, gzip and sha256sum, and lockstepd and lockstep-job beside
this program.

With --cluster three daemons share a queue: jobs are submitted all the time while the
master is killed, twice, and another node takes over.

Ctrl-C, SIGTERM, SIGHUP and a closed standard output end the demonstration: it kills
its jobs, stops its daemons and removes its directory. There is no --json.`,
		Example: `  lockstep demo
  lockstep demo --cluster`,
		Args: cli.WantArgs(0, 0, "demo takes no arguments"),
		RunE: func(command *cobra.Command, _ []string) error {
			if globals.JSON {
				return cli.Usagef("demo has no --json")
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
	defer release() // no signal interrupts the cleanup
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

// causeOf is the cause of ctx's end if that led to err, else err.
func causeOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return cause
	}
	return err
}

// firstError returns the first error that is not nil; later errors are consequences of it.
func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// demo is one run of `lockstep demo`: a daemon in a temporary directory, a workload, and what is shown of it.
type demo struct {
	globals *cli.Globals
	root    string
	colours term.Palette
	daemon  *Daemon
}

// untilInterrupted returns a context that ends on Ctrl-C, on SIGTERM, when the terminal is closed, and
// when the reader of standard output is gone. The last needs the returned globals.
//
// SIGPIPE is caught, so that it does not end the program before the cleanup. It does not end the
// context: the socket of a killed daemon raises it, too.
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

// readOutput is a writer that reports when its reader is gone.
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
	d.say("A temporary daemon has started, in %s.", d.root)
	d.say("Submitting %d jobs on %.1f MB of real files: four compress and checksum a directory each,", len(jobs), float64(bytes)/1e6)
	d.say("side by side; one has three steps, in order; one shows its progress; one will fail.\n")
	daemon := d.session()
	defer daemon.Close()
	trails := client.NewTrails(d.globals.Streams.Now(), d.globals.Streams.RequestName(), "demonstration", "demo")
	ids, err := submitJobs(ctx, daemon, jobs, trails)
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

// watch shows all jobs live. When the longest job is half way, it kills the daemon and starts it
// again; the jobs continue.
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
			d.say("\n%s", d.colours.Title("kill -9 of the daemon. Jobs are separate processes: they continue."))
			if err := d.daemon.crash(ctx); err != nil {
				return err
			}
			d.say("%s\n", d.colours.Title("The daemon is back, and has found the running jobs and those that have ended."))
		}
	}
	return nil
}

// line is a line that a job's follower shows.
type line struct {
	text  string
	half  bool // the job is half way
	ended bool
	err   error
}

// follow sends the lines about a job to lines, and returns the last one, which says that the job has ended.
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

// sumUp shows the list as `lockstep list` does, and the number of the job files. The error says that a job has not ended as intended.
func (d *demo) sumUp(ctx context.Context, daemon *client.Session, ids []int64) error {
	list, err := jobs.FetchList(ctx, daemon)
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
	d.say("%d jobs: %d succeeded, %d failed, as intended. Each ran once, although the daemon was killed.",
		len(ids), counts[client.StatusSuccess], counts[client.StatusError])
	d.say("Each was a readable file of JSON (%d files in queue/), which is removed now.", len(files))
	d.say("To look at your own queue: \"make run\", then \"bin/lockstep open\" for the web console, or \"bin/lockstep top\".")
	d.say("\nNext:  make run                                (a daemon in ./var, in the foreground)")
	d.say("       bin/lockstep run -- make -j4 all        (in another terminal: a command as a job)")
	if len(list) != len(ids) || counts[client.StatusSuccess] != len(ids)-1 || counts[client.StatusError] != 1 {
		return fmt.Errorf("the demonstration went wrong: see the list above")
	}
	return nil
}

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/job"
	"lockstep/core/ownership"
	"lockstep/core/paths"
	"lockstep/core/wire"
	"lockstep/edge/reaper"
	"lockstep/persistence"
)

// The steps of a start, from the child's side.
const (
	atSpawn       = "spawn"      // nothing is done yet
	atLivelock    = "livelock"   // the livelock exists, its name is not sent
	atName        = "name"       // the name is sent
	atPermission  = "permission" // the permission has arrived
	atRequest     = "request"    // the launch spec is requested
	atLaunchSpecs = "hand"       // the launch spec has arrived: the child may act
	atWaiting     = "waiting"    // the child has written that it has begun
	atEnd         = "end"        // the child has written its end and has not exited
)

var steps = []string{atSpawn, atLivelock, atName, atPermission, atRequest, atLaunchSpecs, atWaiting, atEnd}

const childEnv = "LOCKSTEPD_TEST_CHILD"

// child is a job process with the protocol of the first release, written out by hand: an
// upgrade of the daemon must stay compatible with it. At one step the child dies, or
// reports the step and waits.
type child struct {
	id              int64
	dataDir, runDir string
	stopAt          string
	dies            bool
	marks           bool   // as lockstep-job does today: the lock file has a mark, and the child dies with the daemon
	reached         string // the file to touch
	livelock        *persistence.Livelock
}

func childMain(spec string) {
	var c child
	stop, reached, _ := strings.Cut(spec, "|")
	switch stop {
	case leakStep:
		leak(reached)
	case attackStep:
		attackerMain()
	case socketCall:
		callSocket(reached)
	}
	c.stopAt, c.dies = strings.CutPrefix(stop, "die-")
	c.stopAt, c.marks = strings.CutPrefix(c.stopAt, "marked-")
	c.reached = reached
	c.id, _ = strconv.ParseInt(os.Args[1], 10, 64)
	c.dataDir, c.runDir = os.Args[2], os.Args[3]
	c.runJob()
	os.Exit(0)
}

func (c *child) must(err error) {
	if err != nil {
		if c.livelock != nil {
			_ = c.livelock.Release()
		}
		os.Exit(1)
	}
}

func (c *child) reach(step string) {
	if step != c.stopAt {
		return
	}
	c.must(os.WriteFile(c.reached, nil, 0o600))
	if c.dies {
		os.Exit(9) // the lock file stays, as after a kill
	}
	// The child waits until the daemon is gone and its end of the pipe closes.
	_, _ = wire.NewReader(os.Stdin, 1).ReadFrame()
	if c.marks {
		os.Exit(9)
	}
}

// note writes the lock file of a child that marks it.
func (c *child) note(content func(reaper.Leader) []byte) {
	if c.marks {
		self, err := reaper.Self()
		c.must(err)
		c.must(c.livelock.WriteOwnerInfo(content(self)))
	}
}

func (c *child) runJob() {
	c.reach(atSpawn)
	var err error
	c.livelock, err = persistence.CreateLivelock(filepath.Join(c.runDir, "livelocks"), paths.JobLivelockNameStart(c.id), ownership.Rules{})
	c.must(err)
	c.note(reaper.Leader.EncodeNotBegun)
	c.reach(atLivelock)
	in := wire.NewReader(os.Stdin, 1<<20)
	c.must(wire.WriteFrame(os.Stdout, []byte(c.livelock.Path())))
	c.reach(atName)
	_, err = in.ReadFrame()
	c.must(err)
	c.reach(atPermission)
	c.must(wire.WriteFrame(os.Stdout, nil))
	c.reach(atRequest)
	_, err = in.ReadFrame()
	c.must(err)
	c.reach(atLaunchSpecs)
	c.note(reaper.Leader.Encode)
	file := filepath.Join(c.dataDir, "queue", fmt.Sprintf("job-%d", c.id))
	content, err := os.ReadFile(file)
	c.must(err)
	j, err := job.Decode(content)
	c.must(err)
	j.Ops[0].Status, j.Start, j.Ops[0].Start = job.Waiting, stampNow(), stampNow()
	c.write(file, j)
	c.reach(atWaiting)
	trace, err := os.OpenFile(filepath.Join(filepath.Dir(c.dataDir), "ran"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	c.must(err)
	_, err = fmt.Fprintln(trace, c.id)
	c.must(err)
	j.Ops[0].Status, j.Ops[0].Result = job.Success, []byte("null")
	j.Ops[0].End, j.End = stampNow(), stampNow()
	c.write(file, j)
	c.reach(atEnd)
	_ = c.livelock.Release()
}

func (c *child) write(file string, j *job.Job) {
	temp := file + ".old-style.tmp"
	c.must(os.WriteFile(temp, job.Encode(j), 0o640))
	c.must(os.Rename(temp, file))
}

func stampNow() job.Timestamp { return job.TimestampOf(time.Now()) }

// childProgram is a program for --job-program.
func (d *daemon) childProgram(stopAt, reached string) string {
	self, err := os.Executable()
	require.NoError(d.t, err)
	path := d.path("child")
	require.NoError(d.t, os.WriteFile(path+".new", []byte(fmt.Sprintf("#!/bin/sh\n%s='%s|%s' exec %s \"$@\"\n", childEnv, stopAt, reached, self)), 0o755))
	require.NoError(d.t, os.Rename(path+".new", path))
	return path
}

func (d *daemon) awaitStep(file string) {
	d.t.Helper()
	require.Eventually(d.t, func() bool { _, err := os.Stat(file); return err == nil }, patience, 2*time.Millisecond)
}

// runCount is the number of times that the job's command has run.
func (d *daemon) runCount() int {
	content, err := os.ReadFile(d.path("ran"))
	if err != nil {
		return 0
	}
	return strings.Count(string(content), "\n")
}

func TestAJobProcessOfAnOlderVersionWorks(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start("--job-program", d.childProgram("nowhere", d.path("reached")))
	c := d.dial()
	require.Equal(t, "success", c.await(c.submit(command("true"))).Status)
	require.Equal(t, 1, d.runCount())
}

// The child dies at each step. A child that dies before it may act is replaced: the job waits
// until a child survives. From then on the death of the child fails the job, unless the job
// had ended. The test fails if jobActor.processGone gives back only jobs whose process could
// not be spawned.
func TestTheChildDiesAtEachStep(t *testing.T) {
	t.Parallel()
	for _, step := range steps {
		t.Run(step, func(t *testing.T) {
			d := newDaemon(t)
			d.start("--job-program", d.childProgram("die-"+step, d.path("reached")))
			c := d.dial()
			id := c.submit(command("true"))
			switch step {
			case atSpawn, atLivelock, atName, atPermission:
				require.Contains(t, c.whyNotStarted(id), "the process")
				d.childProgram("nowhere", d.path("reached"))
				require.Equal(t, "success", c.await(id).Status)
				require.Equal(t, 1, d.runCount())
			case atEnd:
				require.Equal(t, "success", c.await(id).Status)
				require.Equal(t, 1, d.runCount())
			case atRequest: // it may be dead before the daemon writes, or after
				d.awaitStep(d.path("reached"))
				d.childProgram("nowhere", d.path("reached"))
				if j := c.await(id); j.Status != "success" {
					require.Contains(t, string(j.Results[0]), "detected death")
					require.Zero(t, d.runCount())
				}
			default:
				j := c.await(id)
				require.Equal(t, "error", j.Status)
				require.Contains(t, string(j.Results[0]), "detected death")
				require.Equal(t, step == atLaunchSpecs, strings.Contains(string(j.Results[0]), "it may have begun"))
				require.Zero(t, d.runCount())
			}
		})
	}
}

// The daemon dies while the child is at each step. The job runs once, or fails because it may
// have run. The daemon never starts it twice.
func TestTheDaemonDiesAtEachStep(t *testing.T) {
	t.Parallel()
	for _, step := range steps {
		t.Run(step, func(t *testing.T) {
			d := newDaemon(t)
			reached := d.path("reached")
			d.start("--job-program", d.childProgram(step, reached))
			id := d.dial().submit(command("sh", "-c", "echo $LOCKSTEP_JOB_ID >> "+d.path("ran")))
			d.awaitStep(reached)
			d.kill()
			d.start()
			j := d.dial().await(id)
			switch j.Status {
			case "success":
				require.Equal(t, 1, d.runCount())
			case "error":
				require.Contains(t, string(j.Results[0]), "detected death")
				require.Zero(t, d.runCount())
			default:
				t.Fatal(j.Status)
			}
		})
	}
}

// The child marks its lock file as lockstep-job does, and dies with the daemon at each step. Before the child revokes the mark, the job
// is queued again and runs once; with secrets, which the daemon had in memory, it fails as after any restart.
func TestTheDaemonDiesWithAMarkedProcess(t *testing.T) {
	t.Parallel()
	for _, step := range steps {
		for _, secret := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, secret %t", step, secret), func(t *testing.T) {
				d := newDaemon(t)
				reached := d.path("reached")
				d.start("--job-program", d.childProgram("marked-"+step, reached))
				o := command("sh", "-c", "echo $LOCKSTEP_JOB_ID >> "+d.path("ran"))
				if secret {
					o = o.with("secret_env", op{"SECRET": "sesame"})
				}
				id := d.dial().submit(o)
				d.awaitStep(reached)
				d.kill()
				d.start()
				j := d.dial().await(id)
				switch begun := step == atWaiting || step == atEnd; {
				case step == atEnd, !begun && !secret:
					require.Equal(t, "success", j.Status, "%s", j.Results)
					require.Equal(t, 1, d.runCount())
				case begun:
					require.Contains(t, string(j.Results[0]), "detected death")
					require.Zero(t, d.runCount())
				default:
					require.Contains(t, string(j.Results[0]), "Submit it again")
					require.Zero(t, d.runCount())
				}
			})
		}
	}
}

// A marked child dies at each step while the daemon lives: the job keeps its secrets, and runs when a child survives.
func TestAMarkedProcessDiesAtEachStep(t *testing.T) {
	t.Parallel()
	for _, step := range []string{atName, atPermission, atRequest, atLaunchSpecs} {
		t.Run(step, func(t *testing.T) {
			d := newDaemon(t)
			reached := d.path("reached")
			d.start("--job-program", d.childProgram("die-marked-"+step, reached))
			c := d.dial()
			id := c.submit(command("sh", "-c", "echo $SECRET >> "+d.path("ran")).with("secret_env", op{"SECRET": "sesame"}))
			d.awaitStep(reached)
			d.childProgram("nowhere", reached)
			require.Equal(t, "success", c.await(id).Status)
			require.Equal(t, 1, d.runCount())
		})
	}
}

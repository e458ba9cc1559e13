package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"lockstep/core/job"
	"lockstep/core/ownership"
	"lockstep/core/paths"
	"lockstep/core/wire"
	"lockstep/edge/jobprocess"
	"lockstep/persistence"
)

// bareLoop makes the system calls of a job without a queue: the files of a submission, the job
// process, the handshake, the file that names the process, and the end, which the process
// writes.
//
// It works in the daemon's directory with ids above the daemon's, but with a run directory in which
// no daemon listens: reports of processes fail at once.
type bareLoop struct {
	bench   *bench
	files   *persistence.OSFiles
	dataDir string
	runDir  string
	stderr  *os.File
	next    int64 // id of the next job
}

// firstBareID is above the ids of the daemons.
const firstBareID = 1_000_000_000

// bareSerial is written in the way of the daemon's serial.
const bareSerial = paths.SerialPath + "-bare"

func (b *bench) newBareLoop(d *daemon) (*bareLoop, error) {
	l := &bareLoop{bench: b, dataDir: d.dataDir(), runDir: d.bareRunDir(), next: firstBareID}
	err := persistence.MakeDirs(l.dataDir, l.runDir, filepath.Join(d.root, "log"), ownership.Rules{})
	if err != nil {
		return nil, err
	}
	if l.files, err = persistence.OpenFiles(l.dataDir, ownership.Rules{}); err != nil {
		return nil, err
	}
	l.stderr, err = os.OpenFile(filepath.Join(d.root, "bare.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	return l, err
}

// withBareLoop calls run with a client of a new daemon, whose jobs run, and with a bare loop in its directory. It stops both.
func (b *bench) withBareLoop(run func(*client, *bareLoop) error) error {
	d, c, err := b.startDaemon(false)
	if err != nil {
		return err
	}
	defer d.kill()
	defer c.close()
	loop, err := b.newBareLoop(d)
	if err != nil {
		return err
	}
	defer loop.close()
	if err := run(c, loop); err != nil {
		return err
	}
	return d.stop()
}

func (l *bareLoop) close() { _, _ = l.files.Close(), l.stderr.Close() }

// runBatch runs n jobs with the given number of workers, submitted together as by SubmitManyJobs:
// one sync of the directory, one serial, and its sync.
func (l *bareLoop) runBatch(n, workers int) error {
	jobs, err := l.submitBatch(n, workers)
	if err != nil {
		return err
	}
	return parallel(n, workers, func(i int) error { return l.execute(jobs[i]) })
}

// runOne submits and runs a single job in the bare loop.
func (l *bareLoop) runOne() error {
	jobs, err := l.submitBatch(1, 1)
	if err != nil {
		return err
	}
	return l.execute(jobs[0])
}

func (l *bareLoop) submitBatch(n, workers int) ([]*job.Job, error) {
	input := json.RawMessage(`{"OP_ID": "OP_TEST_DELAY", "debug_level": 0, "depends": null, "duration": 1e-09, ` +
		`"interruptible": false, "on_master": true, "on_nodes": [], "priority": 0, "reason": [], "repeat": 0}`)
	jobs := make([]*job.Job, n)
	for i := range jobs {
		jobs[i] = job.New(job.ID(l.next), []json.RawMessage{input}, []int{0}, job.TimestampOf(time.Now()), "")
		l.next++
	}
	err := parallel(n, workers, func(i int) error {
		return l.files.Replace("bare", paths.JobPath(int64(jobs[i].ID)), job.Encode(jobs[i]))
	})
	if err == nil {
		err = l.files.SyncDir("bare", paths.QueueDir)
	}
	if err == nil {
		err = l.files.Replace("bare", bareSerial, paths.FormatSerial(l.next))
	}
	if err == nil {
		err = l.files.SyncDir("bare", paths.QueueDir)
	}
	return jobs, err
}

// execute starts the job process of the bare loop, permits it to begin, and waits for its end.
func (l *bareLoop) execute(j *job.Job) error {
	child, err := l.bench.launch(int64(j.ID), l.dataDir, l.runDir, l.stderr)
	if err != nil {
		return err
	}
	err = l.permit(child, j)
	child.closePipes()
	if err := errors.Join(err, child.cmd.Wait()); err != nil {
		return fmt.Errorf("bare job %d: %w", j.ID, err)
	}
	return nil
}

// permit is the daemon's side of the handshake: it writes the job file durably and lets the process begin.
func (l *bareLoop) permit(child *child, j *job.Job) error {
	livelock, err := child.reader.ReadFrame()
	if err != nil {
		return err
	}
	j.Livelock, j.ProcessID = string(livelock), child.cmd.Process.Pid
	if err := l.files.Replace("bare", paths.JobPath(int64(j.ID)), job.Encode(j)); err != nil {
		return err
	}
	if err := l.files.SyncDir("bare", paths.QueueDir); err != nil {
		return err
	}
	if err := wire.WriteFrame(child.in, nil); err != nil {
		return err
	}
	if _, err := child.reader.ReadFrame(); err != nil {
		return err
	}
	return wire.WriteFrame(child.in, []byte("[null]")) // no data for the opcode
}

// child is a lockstep-job, started as the daemon does.
type child struct {
	cmd     *exec.Cmd
	in, out *os.File
	reader  *wire.Reader
}

func (b *bench) launch(id int64, dataDir, runDir string, stderr *os.File) (*child, error) {
	inRead, inWrite, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer inRead.Close()
	outRead, outWrite, err := os.Pipe()
	if err != nil {
		_ = inWrite.Close()
		return nil, err
	}
	defer outWrite.Close()
	cmd := &exec.Cmd{Path: b.program("lockstep-job"), Args: []string{"lockstep-job", strconv.FormatInt(id, 10), dataDir, runDir},
		Env: jobprocess.Environment(), Dir: "/", Stdin: inRead, Stdout: outWrite, Stderr: stderr, SysProcAttr: &syscall.SysProcAttr{Setsid: true}}
	c := &child{cmd: cmd, in: inWrite, out: outRead, reader: wire.NewReader(outRead, 4096)}
	if err := cmd.Start(); err != nil {
		c.closePipes()
		return nil, err
	}
	return c, nil
}

func (c *child) closePipes() { _, _ = c.in.Close(), c.out.Close() }

// parallel calls a function n times with the given number of workers, and returns the errors.
func parallel(n, workers int, do func(i int) error) error {
	var next atomic.Int64
	var group sync.WaitGroup
	errs := make([]error, workers)
	for worker := range workers {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && errs[worker] == nil; i = int(next.Add(1)) - 1 {
				errs[worker] = do(i)
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

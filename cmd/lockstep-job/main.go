// Command lockstep-job is the process of one job. It gets its permission from the daemon,
// runs the job's opcodes in order, and is the only writer of the job's file until it exits.
// The daemon starts it; people do not.
//
// It owns the job's livelock, the locks of the current opcode and the processes of its
// commands. It takes orders by signals: SIGTERM (cancel), SIGUSR1 (new priority), SIGINT (end
// now). It outlives a crash of the daemon. The job's file survives its own crash; the daemon
// then fails the job and kills its orphans.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"lockstep/cmd/internal/buildinfo"
	"lockstep/core/job"
	"lockstep/core/jobproc"
	"lockstep/core/paths"
	"lockstep/core/wire"
	"lockstep/edge/reaper"
	"lockstep/persistence"
)

// launchSpecsMax bounds what the daemon may hand over, in bytes.
const launchSpecsMax = 64 << 20

func main() {
	if len(os.Args) == 2 && os.Args[1] == "--version" {
		fmt.Println("lockstep-job", buildinfo.Read())
		return
	}
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "lockstep-job is started by lockstepd: lockstep-job JOB DATA-DIR RUN-DIR")
		os.Exit(2)
	}
	if err := runJob(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintf(os.Stderr, "lockstep-job %s: %v\n", os.Args[1], err)
		os.Exit(1)
	}
}

func runJob(idText, dataDir, runDir string) error {
	id, err := strconv.ParseInt(idText, 10, 64)
	if err != nil {
		return fmt.Errorf("job id: %w", err)
	}
	// From before the daemon can send any: their default would end us.
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGUSR1, syscall.SIGHUP)
	reserveThreads()
	livelock, err := persistence.CreateLivelock(persistence.LivelockDir(runDir), paths.JobLivelockNameStart(id))
	if err != nil {
		return err
	}
	// Whatever happens, the lock file must not outlive the process. It goes
	// after the job's last write: until then the job is alive.
	err = writeOwnerInfo(livelock)
	if err != nil {
		return errors.Join(err, livelock.Release())
	}
	err = runPermitted(id, dataDir, runDir, livelock.Path(), signals)
	return errors.Join(err, livelock.Release())
}

// writeOwnerInfo notes in the lock file which process this is: what is left of it is known by
// that when it was killed together with the daemon.
func writeOwnerInfo(livelock *persistence.Livelock) error {
	self, err := reaper.Self()
	if err != nil {
		return err
	}
	return livelock.WriteOwnerInfo(self.Encode())
}

// threadsNeeded is how many a job needs beside those that the runtime starts with.
const threadsNeeded = 6

// reserveThreads has the runtime make the threads that the job will need; it keeps
// them. Where the machine has no room for them the runtime ends the process: here no
// job is lost by that, later the one that runs is.
func reserveThreads() {
	var made, end sync.WaitGroup
	made.Add(threadsNeeded)
	end.Add(1)
	for range threadsNeeded {
		go func() {
			runtime.LockOSThread()
			made.Done()
			end.Wait()
			runtime.UnlockOSThread()
		}()
	}
	made.Wait()
	end.Done()
}

// runPermitted is the child's side of the start handshake (designs.md
// "Job execution"), and the job once it is confirmed.
func runPermitted(id int64, dataDir, runDir, livelock string, signals <-chan os.Signal) error {
	launchSpecs, file, err := handshake(livelock, runDir)
	if err != nil {
		return fmt.Errorf("no permission to start: %w", err)
	}
	files, err := persistence.OpenFiles(dataDir)
	if err != nil {
		return err
	}
	defer files.Close()
	content, err := files.Read("run-job", paths.JobPath(id))
	if err != nil {
		return err
	}
	j, err := job.Decode(content)
	if err != nil {
		return err
	}
	if j.Livelock != livelock {
		return fmt.Errorf("the job's file names another process: %s", j.Livelock)
	}
	process, err := jobproc.NewProcess(j, launchSpecs, jobproc.Identity{Livelock: livelock, Pid: os.Getpid(), ReportSizeMax: jobproc.ReportSizeMax})
	if err != nil {
		return err
	}
	lease := &lease{file: file, livelock: livelock}
	lease.check()
	go lease.watch()
	if end := newShell(process, lease, files, runDir, signals).run(); end.Abandoned {
		os.Exit(exitNoQueue)
	}
	return nil
}

// exitNoQueue is the exit status of a process that has abandoned its job.
const exitNoQueue = 5

// handshake names the livelock, waits for permission, and takes what the daemon
// hands over for each opcode. A pipe that breaks before means that the job must
// not act. The permission says whether the lease is needed; it is opened before the
// permission is taken.
func handshake(livelock, runDir string) ([]jobproc.LaunchSpec, *persistence.Lease, error) {
	in := wire.NewReader(os.Stdin, launchSpecsMax)
	if err := wire.WriteFrame(os.Stdout, []byte(livelock)); err != nil {
		return nil, nil, err
	}
	permission, err := in.ReadFrame()
	if err != nil {
		return nil, nil, err
	}
	lease, err := openLease(runDir, string(permission))
	if err != nil {
		return nil, nil, err
	}
	if err := wire.WriteFrame(os.Stdout, nil); err != nil {
		return nil, nil, err
	}
	frame, err := in.ReadFrame()
	if err != nil {
		return nil, nil, err
	}
	var launchSpecs []jobproc.LaunchSpec
	if err := json.Unmarshal(frame, &launchSpecs); err != nil {
		return nil, nil, fmt.Errorf("what the daemon handed over: %w", err)
	}
	return launchSpecs, lease, closePipes()
}

// closePipes ends the conversation. /dev/null takes the place of the pipes: no
// file that is opened later may come to be standard output, to which a write
// that fails ends the process.
func closePipes() error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(unix.Dup3(int(null.Fd()), 0, 0), unix.Dup3(int(null.Fd()), 1, 0), null.Close())
}

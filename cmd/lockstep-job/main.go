// Command lockstep-job is the process of one job. The daemon starts it and permits it to act. It executes the opcodes of
// the job in order, and until it exits it alone writes the job file.
//
// It owns the livelock of the job, the locks of the current opcode and the processes of its commands. It takes client
// orders as signals: SIGTERM (cancel), SIGUSR1 (another priority), SIGINT (end now). When the daemon crashes, it goes on.
// When it crashes itself, the job file stays; the daemon then kills its orphans and fails the job.
//
// Package jobproc decides what happens; the shell here performs it.
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
	"lockstep/core/ownership"
	"lockstep/core/paths"
	"lockstep/core/wire"
	"lockstep/edge/reaper"
	"lockstep/persistence"
)

// launchSpecsMax bounds the launch specs of a job, in bytes.
const launchSpecsMax = 64 << 20

func main() {
	if len(os.Args) == 2 && os.Args[1] == "--version" {
		fmt.Println("lockstep-job", buildinfo.Read())
		return
	}
	if len(os.Args) == 2 && os.Args[1] == becomeArgument {
		os.Exit(runBecome())
	}
	place, err := placeOf(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	if err := runJob(os.Args[1], place); err != nil {
		fmt.Fprintf(os.Stderr, "lockstep-job %s: %v\n", os.Args[1], err)
		os.Exit(1)
	}
}

// place is where the daemon has the job, and what its mode asks of files.
type place struct {
	dataDir, runDir string
	owners          ownership.Rules
	ganeti          bool   // Ganeti mode
	cgroup          string // the control group below which commands get groups of their own; "": they get none
}

// placeOf reads the arguments: JOB DATA-DIR RUN-DIR, and in Ganeti mode the number of the group of all its daemons.
func placeOf(args []string) (place, error) {
	if len(args) != 3 && len(args) != 4 {
		return place{}, errors.New("lockstep-job is started by lockstepd: lockstep-job JOB DATA-DIR RUN-DIR [GROUP]")
	}
	p := place{dataDir: args[1], runDir: args[2], cgroup: os.Getenv(jobproc.CgroupEnvName)}
	if len(args) == 3 {
		return p, nil
	}
	var err error
	p.ganeti = true
	p.owners, err = ownership.Ganeti(ownership.Accounts{DaemonsGroup: args[3]}).Resolve(nil, strconv.Atoi)
	return p, err
}

func runJob(idText string, place place) error {
	id, err := strconv.ParseInt(idText, 10, 64)
	if err != nil {
		return fmt.Errorf("parse the job id: %w", err)
	}
	// Before the daemon can send a signal, whose default action would end the process.
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGUSR1, syscall.SIGHUP)
	reserveThreads()
	start, _ := strconv.ParseInt(os.Getenv(jobproc.StartEnvName), 10, 64) // a daemon of an older version sends none
	livelock, err := persistence.CreateLivelock(persistence.LivelockDir(place.runDir), paths.JobLivelockName(id, start), place.owners)
	if err != nil {
		return err
	}
	// The lock file says which process this is. When the process is killed together with the daemon, the next daemon finds its
	// orphans by that. It also says that the process has not begun the job. After an error it stays, as the proof of that.
	self, err := reaper.Self()
	if err != nil {
		return err
	}
	if err := livelock.WriteOwnerInfo(self.EncodeNotBegun()); err != nil {
		return err
	}
	begin := func() error { return livelock.WriteOwnerInfo(self.Encode()) }
	if err := runPermitted(id, place, livelock.Path(), signals, begin); err != nil {
		return err
	}
	// The lock file is removed at the orderly end of the job, after the last write of the job file: until then the job is alive.
	return livelock.Release()
}

// threadsNeeded is the number of threads that a job needs beside those with which the runtime starts.
const threadsNeeded = 6

// reserveThreads makes the runtime create the threads that the job will need. The runtime keeps them. It ends the process
// when the machine has no room for a thread: here this costs an attempt, later it would cost the job.
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

// runPermitted makes the job process's side of the start handshake (designs.md "Job execution"), and then runs the job. It calls begin,
// which revokes the proof that the process has not begun the job, before the first call, write or child of the job. After an error the
// job has not begun. If the job is abandoned, it ends the process with exitNoQueue.
func runPermitted(id int64, place place, livelock string, signals <-chan os.Signal, begin func() error) error {
	launchSpecs, file, err := handshake(livelock, place.runDir)
	if err != nil {
		return fmt.Errorf("no permission to start: %w", err)
	}
	files, err := persistence.OpenFiles(place.dataDir, place.owners)
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
	// The name was made durable before the permission. Another one is that of a later start, whose process has the job.
	if j.Livelock != livelock {
		return fmt.Errorf("the job's file names another process: %s", j.Livelock)
	}
	process, err := jobproc.NewProcess(j, launchSpecs, jobproc.Identity{
		Livelock:      livelock,
		Pid:           os.Getpid(),
		ReportSizeMax: jobproc.ReportSizeMax,
		GanetiLog:     place.ganeti,
	})
	if err != nil {
		return err
	}
	lease := &lease{file: file, livelock: livelock, cgroup: place.cgroup}
	// Before begin: if the lease is over, the process ends, and its lock file still proves that the job has not begun.
	lease.check()
	go lease.watch()
	// Last before the job acts: up to here the lock file proves that the job may be started again. From here on an end without a result is a
	// failure of the job.
	if err := begin(); err != nil {
		return err
	}
	if end := newShell(process, lease, files, place, signals).run(); end.Abandoned {
		os.Exit(exitNoQueue)
	}
	return nil
}

// exitNoQueue is the exit status of a process that has abandoned its job.
const exitNoQueue = 5

// handshake names the livelock, waits for the permission and receives the launch specs. After an error, such as a broken
// pipe, the process must not act. The permission says whether the job needs the lease, which is opened before the process
// confirms the permission.
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
	// Only the launch specs complete the permission: a start that fails before them never acted.
	frame, err := in.ReadFrame()
	if err != nil {
		return nil, nil, err
	}
	var launchSpecs []jobproc.LaunchSpec
	if err := json.Unmarshal(frame, &launchSpecs); err != nil {
		return nil, nil, fmt.Errorf("the launch specs of the daemon: %w", err)
	}
	return launchSpecs, lease, closePipes()
}

// closePipes ends the conversation with the daemon and puts /dev/null in the place of the pipes. Otherwise a file that is
// opened later could become standard output, and a failed write to standard output can end the process.
func closePipes() error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(unix.Dup3(int(null.Fd()), 0, 0), unix.Dup3(int(null.Fd()), 1, 0), null.Close())
}

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"lockstep/core/job"
	"lockstep/core/jobproc"
	"lockstep/core/limits"
	"lockstep/core/progress"
	"lockstep/edge/reaper"
)

// inheritedEnv names the variables of the daemon's environment that a command receives.
var inheritedEnv = []string{"PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "TMPDIR"}

// inheritedByUsers are those for a command of another user than the daemon's, whose PATH is usersPath.
var inheritedByUsers = []string{"LANG", "LC_ALL", "TZ"}

const usersPath = "/usr/local/bin:/usr/bin:/bin"

// command is the parameters of OP_RUN_COMMAND, as the job file has them.
type command struct {
	Argv      []string          `json:"argv"`
	Env       map[string]string `json:"env"`
	SecretEnv map[string]string `json:"secret_env"`
	Cwd       *string           `json:"cwd"`
	Stdin     *string           `json:"stdin"`
	Timeout   *float64          `json:"timeout"`
}

// prepareCommand decodes and checks the parameters of a command, and finds its program, unless the command runs as another user, for whom
// the started process looks. refused is the outcome if the command cannot be started.
func (x *execution) prepareCommand(parameters json.RawMessage) (c command, path string, env []string, refused *jobproc.Outcome) {
	refuse := func(o jobproc.Outcome) (command, string, []string, *jobproc.Outcome) { return c, "", nil, &o }
	if err := json.Unmarshal(parameters, &c); err != nil || len(c.Argv) == 0 {
		return refuse(failure("OpPrereqError", fmt.Sprintf("Parameters cannot be read: %v", err), "wrong_input"))
	}
	var err error
	if x.limits, err = limits.Of(x.input); err != nil {
		return refuse(failure("OpPrereqError", fmt.Sprintf("The limits of the command cannot be read: %v", err), "wrong_input"))
	}
	if x.runAs != nil && x.account == nil { // a daemon of another version, or one with a mistake
		return refuse(failure("OpPrereqError", fmt.Sprintf("The command runs as %s, and the daemon has not said which account that is", x.runAs),
			"wrong_state"))
	}
	if len(c.SecretEnv) > 0 && x.command == nil { // the command of a catalogue opcode contains the values
		if err := c.mergeSecrets(x.secrets); err != nil {
			return refuse(failure("OpPrereqError", err.Error(), "wrong_input"))
		}
	}
	env = c.environment(x)
	if x.account != nil {
		return c, "", env, nil
	}
	path, err = lookPath(c.Argv[0], env)
	if err != nil {
		return refuse(couldNotStart(c.Argv[0], err))
	}
	return c, path, env, nil
}

// runCommand is OP_RUN_COMMAND (design.md "Opcodes"). The output of the command becomes log entries as it arrives. The command has
// a separate process group. When the command ends, what is left in the group is killed, because it must not work when the
// locks of the opcode are released.
func (x *execution) runCommand(parameters json.RawMessage) jobproc.Outcome {
	c, path, env, refused := x.prepareCommand(parameters)
	if refused != nil {
		return *refused
	}
	if !x.relay.begin(x.killed) {
		stop := jobproc.NewCommandStop(time.Now(), 0)
		_ = stop.Request(time.Now())
		return stop.Outcome()
	}
	x.complain(x.keep.begin(x.op, x.loggedTry))
	defer x.openProgress(x.complain)()
	if refusal := x.openGroup(); refusal != "" {
		return failure("OpPrereqError", refusal, "wrong_state")
	}
	defer x.closeGroup()
	var outcome jobproc.Outcome
	spawn := func() (err error) {
		if x.account != nil {
			outcome, err = x.runAsUser(&c, env)
		} else {
			outcome, err = x.runAsDaemon(&c, path, env)
		}
		return err
	}
	err := retrySpawn(spawn, x.killed, time.After)
	if inGroup := err; err != nil && !isShortage(err) && x.group != nil && !x.limits.NeedsGroup() {
		x.closeGroup()
		if err = retrySpawn(spawn, x.killed, time.After); err == nil {
			x.withoutGroup(inGroup)
		}
	}
	if err != nil {
		return couldNotStart(c.Argv[0], err)
	}
	outcome, complaint := x.keep.end(outcome)
	x.complain(complaint)
	return outcome
}

// runAsDaemon runs a command as the daemon's user, to its end. The error says that it could not be started.
func (x *execution) runAsDaemon(c *command, path string, env []string) (jobproc.Outcome, error) {
	out, err := newOutput(x.emit, x.relay, x.keep)
	if err != nil {
		return jobproc.Outcome{}, fmt.Errorf("cannot make a pipe: %w", err)
	}
	cmd := c.newCmd(path, env, out)
	if err := x.start(cmd); err != nil {
		out.close()
		return jobproc.Outcome{}, err
	}
	out.closeWriters()
	outcome, _ := x.awaitCommand(c, cmd, out)
	return outcome, nil
}

// runAsUser runs a command as another user, to its end. The error says that it could not be started. Where the start waits for a directory
// of the user, the command counts as one that runs: its time passes, and it can be killed.
func (x *execution) runAsUser(c *command, env []string) (jobproc.Outcome, error) {
	out, err := newOutput(x.emit, x.relay, x.keep)
	if err != nil {
		return jobproc.Outcome{}, fmt.Errorf("cannot make a pipe: %w", err)
	}
	b, err := c.newBecoming(x.account, env, out, reaper.EnvName+"="+reaper.EnvValue(x.livelock), false)
	if err != nil {
		out.close()
		return jobproc.Outcome{}, err
	}
	if err := x.start(b.cmd); err != nil {
		b.close()
		out.close()
		return jobproc.Outcome{}, err
	}
	b.closeProcessEnds()
	out.closeWriters()
	outcome, stopped := x.awaitCommand(c, b.cmd, out)
	if err := b.failure(); err != nil && !stopped {
		return jobproc.Outcome{}, err
	}
	return outcome, nil
}

// start starts a process whose end awaitCommand awaits.
func (x *execution) start(cmd *exec.Cmd) error {
	if x.group != nil {
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, x.group.FD()
	}
	return x.lease.startCommand(func() (int, error) {
		if err := x.startNice(cmd); err != nil {
			return 0, err
		}
		if x.limits.Memory.Bytes > 0 { // the kernel spares a process that has inherited -1000 from the daemon
			_ = os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", cmd.Process.Pid), []byte("0"), 0)
		}
		return cmd.Process.Pid, nil
	})
}

// newCmd makes a process of the command, which can be started once.
func (c *command) newCmd(path string, env []string, out *output) *exec.Cmd {
	cmd := &exec.Cmd{Path: path, Args: c.Argv, Env: env, Stdout: out.stdout(), Stderr: out.stderr(),
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
		// A process outside the group may hold standard input.
		WaitDelay: outputGrace}
	if c.Cwd != nil {
		cmd.Dir = *c.Cwd
	}
	if c.Stdin != nil {
		cmd.Stdin = strings.NewReader(*c.Stdin)
	}
	return cmd
}

// mergeSecrets replaces the placeholders of the job file by the secrets of the launch spec. The error, if they are gone, is for the user
// of the job.
func (c *command) mergeSecrets(secrets json.RawMessage) error {
	var got struct {
		SecretEnv map[string]string `json:"secret_env"`
	}
	if len(secrets) > 0 {
		if err := json.Unmarshal(secrets, &got); err != nil {
			return errors.New("the secrets in the launch spec cannot be read")
		}
	}
	if got.SecretEnv == nil {
		return errors.New("the values of secret_env are gone: they are kept in memory only, and the daemon has " +
			"restarted since the job was submitted. Submit it again")
	}
	c.SecretEnv = got.SecretEnv
	return nil
}

func (c *command) environment(x *execution) []string {
	values := map[string]string{}
	inherited := inheritedEnv
	if a := x.account; a != nil {
		inherited = inheritedByUsers
		values["HOME"], values["USER"], values["LOGNAME"], values["SHELL"], values["PATH"] = a.Home, a.Name, a.Name, a.Shell, usersPath
	}
	for _, name := range inherited {
		if value, set := os.LookupEnv(name); set {
			values[name] = value
		}
	}
	for _, more := range []map[string]string{c.Env, c.SecretEnv} {
		for name, value := range more {
			values[name] = value
		}
	}
	values["LOCKSTEP_JOB_ID"] = x.id.String()
	if x.name != "" {
		values["LOCKSTEP_JOB_NAME"] = x.name
	}
	values["LOCKSTEP_OPCODE"] = strconv.Itoa(x.op + 1)
	values["LOCKSTEP_TRY"] = strconv.Itoa(x.try)
	values["LOCKSTEP_SOCKET"] = x.socket
	values[progress.EnvName] = x.progressPath
	// The held locks, because a command cannot know otherwise which of its any-of locks it has.
	names := make([]string, len(x.locks))
	for i, l := range x.locks {
		names[i] = l.Lock.String()
	}
	values["LOCKSTEP_LOCKS"] = strings.Join(names, ",")
	// The marker, by which orphans are found in any process group.
	values[reaper.EnvName] = reaper.EnvValue(x.livelock)
	env := make([]string, 0, len(values))
	for name, value := range values {
		env = append(env, name+"="+value)
	}
	slices.Sort(env)
	return env
}

// lookPath finds the program in the PATH that the command will have. A name with a slash is the path itself. Relative directories in PATH
// are left out. The error is exec.ErrNotFound.
func lookPath(name string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	for _, pair := range env {
		value, found := strings.CutPrefix(pair, "PATH=")
		if !found {
			continue
		}
		for _, dir := range filepath.SplitList(value) {
			if path := filepath.Join(dir, name); filepath.IsAbs(path) && unix.Access(path, unix.X_OK) == nil && isFile(path) {
				return path, nil
			}
		}
	}
	return "", exec.ErrNotFound
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// couldNotStart is the outcome of a command that cannot be started, with the exit status that a shell would give.
func couldNotStart(name string, err error) jobproc.Outcome {
	status := 126
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		status = 127
	}
	noProgram := errors.Is(err, exec.ErrNotFound)
	_, ofUser := errors.AsType[*becomeFailure](err)
	// The text names the program already, so only the cause follows.
	var lookup *exec.Error
	var path *fs.PathError
	switch {
	case errors.As(err, &lookup):
		err = lookup.Err
	case errors.As(err, &path):
		err = path.Err
	}
	advice := ""
	switch {
	case noProgram && strings.ContainsAny(name, " \t\n;|&<>$*"):
		err = errors.New("no such program")
		advice = `; the command is not run by a shell: give its words without quotes around all of them, or run sh -c '...'`
	case noProgram && ofUser: // the error says it
	case noProgram && !strings.Contains(name, "/"):
		err = errors.New("no such program in the daemon's PATH")
	}
	return failure("OpExecError", fmt.Sprintf("cannot start %s: %v%s", name, err, advice), map[string]any{"exit_status": status})
}

// awaitCommand waits for the end of a command. stopped: it was ended by its time or by an order.
func (x *execution) awaitCommand(c *command, cmd *exec.Cmd, out *output) (outcome jobproc.Outcome, stopped bool) {
	group := -cmd.Process.Pid
	out.startCopying()
	limit := 0.0
	if c.Timeout != nil {
		limit = *c.Timeout
	}
	stop := jobproc.NewCommandStop(time.Now(), limit)
	end := x.enforceStop(&stop, group)
	// Until Wait, the kernel does not give the number of the ended process to another process, so the group can be
	// signalled.
	awaitExit(cmd.Process.Pid)
	end()
	_ = unix.Kill(group, unix.SIGKILL) // ESRCH: the group is empty
	if stop.Reason() != jobproc.NotStopped {
		// Processes outside the group must not go on either, because the locks are released next.
		x.lease.killOrphans(orphanKillTimeout)
	}
	x.lease.commandEnded()
	_ = cmd.Wait() // ProcessState says how the command has ended; that it has not read all of stdin is no failure
	out.finish()
	stopped = stop.Reason() != jobproc.NotStopped
	if stopped {
		outcome = stop.Outcome()
	} else {
		outcome = x.outOfMemory(commandOutcome(cmd.ProcessState), cmd.ProcessState)
	}
	outcome.Result = job.WithDetail(outcome.Result, "usage", x.usage(cmd.ProcessState))
	return outcome, stopped
}

func awaitExit(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// enforceStop sends a process group the signals that stop decides. The returned function must be called when the command
// has ended; after it no signal is sent.
func (x *execution) enforceStop(stop *jobproc.CommandStop, group int) (end func()) {
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		killed, timer := x.killed, time.NewTimer(0)
		defer timer.Stop()
		for {
			var due <-chan time.Time
			if deadline := stop.Deadline(); !deadline.IsZero() {
				timer.Reset(time.Until(deadline))
				due = timer.C
			}
			var signal jobproc.StopSignal
			select {
			case <-due:
				signal = stop.Tick(time.Now())
			case <-killed:
				killed = nil
				signal = stop.Request(time.Now())
			case <-over:
				return
			}
			switch signal {
			case jobproc.NoSignal:
			case jobproc.Terminate:
				_ = unix.Kill(group, unix.SIGTERM)
			case jobproc.ForceKill:
				_ = unix.Kill(group, unix.SIGKILL)
			}
		}
	}()
	return func() {
		close(over)
		<-done
	}
}

// commandOutcome is the outcome of a command that has ended by itself: success with the exit status, or an OpExecError
// whose second argument is for programs: {"exit_status": n} or {"signal": "SIGKILL"}.
func commandOutcome(state *os.ProcessState) jobproc.Outcome {
	status := state.Sys().(syscall.WaitStatus)
	switch {
	case status.Signaled():
		name := unix.SignalName(status.Signal())
		return failure("OpExecError", "command was ended by "+name, map[string]any{"signal": name})
	case status.ExitStatus() != 0:
		return failure("OpExecError", fmt.Sprintf("command exited with status %d", status.ExitStatus()),
			map[string]any{"exit_status": status.ExitStatus()})
	default:
		return jobproc.Outcome{Result: json.RawMessage(`{"exit_status": 0}`)}
	}
}

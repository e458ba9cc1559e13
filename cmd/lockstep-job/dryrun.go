package main

import (
	"encoding/json"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"lockstep/core/job"
	"lockstep/core/jobproc"
	"lockstep/core/rawjson"
	"lockstep/edge/reaper"
)

// isDryRun reports whether the opcode is only checked, not executed. The daemon refuses values that are not boolean at the
// submission.
func isDryRun(input json.RawMessage) bool {
	var op struct {
		DryRun *bool `json:"dry_run"`
	}
	return json.Unmarshal(input, &op) == nil && op.DryRun != nil && *op.DryRun
}

// dryRun checks the parameters of an opcode with dry_run, while its locks are held, and executes nothing. As in Ganeti, a
// log entry says so and there is no result, except for a command, whose result says what would run.
func (x *execution) dryRun() jobproc.Outcome {
	outcome := jobproc.Outcome{}
	switch job.OpID(x.input) {
	case "OP_TEST_DELAY":
		if _, refused := x.delay(); refused != nil {
			return *refused
		}
	case "OP_CLUSTER_SET_PARAMS":
		if _, refused := x.queueSettings(); refused != nil {
			return *refused
		}
	case "OP_RUN_COMMAND":
		outcome = x.dryCommand(x.input)
	case "OP_TEST_JQUEUE", "OP_TEST_OS_PARAMS", "OP_CLUSTER_REDIST_CONF", "OP_QUERY", "OP_QUERY_FIELDS", "OP_CLUSTER_QUERY":
	default:
		if x.command == nil {
			return unknownOpcode()
		}
		outcome = x.dryCommand(x.command)
	}
	if !outcome.Failed {
		x.logMessage("dry-run mode requested, not actually executing the operation")
	}
	return outcome
}

// dryCommand checks a command as far as possible without a start, and logs what would run. Secrets are only in the
// environment, which is not logged.
func (x *execution) dryCommand(parameters json.RawMessage) jobproc.Outcome {
	c, path, env, refused := x.prepareCommand(parameters)
	if refused != nil {
		return *refused
	}
	if refusal := x.refusal(); refusal != "" {
		return failure("OpPrereqError", refusal, "wrong_state")
	}
	var err error
	if x.account != nil {
		err = x.startableAsUser(&c, env)
	} else {
		err = startable(&c, path)
	}
	if err != nil {
		return couldNotStart(c.Argv[0], err)
	}
	shown := make([]string, len(c.Argv))
	for i, arg := range c.Argv {
		shown[i] = string(rawjson.Quote(arg))
	}
	where := ""
	if c.Cwd != nil {
		where = " in " + string(rawjson.Quote(*c.Cwd))
	}
	x.logMessage("Would run %s%s", strings.Join(shown, " "), where)
	result, err := json.Marshal(map[string]any{"dry_run": true, "argv": c.Argv})
	if err != nil {
		return failure("OpExecError", err.Error())
	}
	return jobproc.Outcome{Result: result}
}

// startable returns the error with which the start of the program would fail because of its file or its directory.
func startable(c *command, path string) error {
	if c.Cwd != nil {
		switch info, err := os.Stat(*c.Cwd); {
		case err != nil:
			return err
		case !info.IsDir():
			return &fs.PathError{Op: "chdir", Path: *c.Cwd, Err: syscall.ENOTDIR}
		}
		if !strings.HasPrefix(path, "/") {
			path = *c.Cwd + "/" + path
		}
	}
	return executable(path)
}

// startableAsUser is startable with the rights of the user as whom the command runs. It ends with the opcode.
func (x *execution) startableAsUser(c *command, env []string) error {
	b, err := c.newBecoming(x.account, env, nil, reaper.EnvName+"="+reaper.EnvValue(x.livelock), true)
	if err != nil {
		return err
	}
	if err := b.cmd.Start(); err != nil {
		b.close()
		return err
	}
	b.closeProcessEnds()
	ended := make(chan struct{})
	go func() {
		select {
		case <-x.killed:
			_ = b.cmd.Process.Kill()
		case <-ended:
		}
	}()
	err = b.cmd.Wait()
	close(ended)
	if failure := b.failure(); failure != nil {
		return failure
	}
	return err
}

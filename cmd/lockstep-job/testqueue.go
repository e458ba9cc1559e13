package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"lockstep/core/jobproc"
	"lockstep/core/rawjson"
)

// testQueueParams is the parameters of OP_TEST_JQUEUE (queue.md 8.4).
type testQueueParams struct {
	NotifyWaitlock bool     `json:"notify_waitlock"`
	NotifyExec     bool     `json:"notify_exec"`
	LogMessages    []string `json:"log_messages"`
	Fail           bool     `json:"fail"`
}

func (x *execution) logMessage(format string, args ...any) {
	x.log("message", rawjson.Quote(" - INFO: "+fmt.Sprintf(format, args...)))
}

// expandNames is what OP_TEST_JQUEUE does before it takes its locks, while the job is waiting. The error fails the opcode.
func (x *execution) expandNames() error {
	var op testQueueParams
	if err := json.Unmarshal(x.input, &op); err != nil {
		return err
	}
	if op.NotifyWaitlock {
		if err := x.notifyClient("expandnames", nil); err != nil {
			return err
		}
	}
	x.logMessage("Expanding names")
	return nil
}

// testJqueue is what OP_TEST_JQUEUE does while it has its locks: it tells a test client of its steps, logs messages, and fails if that is
// asked for.
func (x *execution) testJqueue() jobproc.Outcome {
	var op testQueueParams
	if err := json.Unmarshal(x.input, &op); err != nil {
		return failure("OpPrereqError", fmt.Sprintf("Parameters cannot be read: %v", err), "wrong_input")
	}
	if op.NotifyExec {
		if err := x.notifyClient("exec", nil); err != nil {
			return notifyFailed(err)
		}
	}
	x.logMessage("Executing")
	if len(op.LogMessages) > 0 {
		if err := x.notifyClient("startmsg", len(op.LogMessages)); err != nil {
			return notifyFailed(err)
		}
	}
	for i, text := range op.LogMessages {
		x.logMessage("Sending log message %d", i+1)
		x.log("message", rawjson.Quote("TESTMSG="+text))
		if err := x.notifyClient("logmsg", i+1); err != nil {
			return notifyFailed(err)
		}
	}
	if op.Fail {
		return failure("OpExecError", "Opcode failure was requested")
	}
	return jobproc.Outcome{Result: json.RawMessage("true")}
}

func notifyFailed(err error) jobproc.Outcome {
	if errors.Is(err, errKilled) {
		return failure("OpExecError", jobproc.EndedOnRequest)
	}
	return failure("OpExecError", err.Error())
}

// testOsParams is OP_TEST_OS_PARAMS. It logs the names of the secret parameters that it has received, not their values,
// because the log is on the disk.
func (x *execution) testOsParams() jobproc.Outcome {
	var secrets struct {
		Params map[string]json.RawMessage `json:"osparams_secret"`
	}
	if len(x.secrets) > 0 {
		if err := json.Unmarshal(x.secrets, &secrets); err != nil {
			return failure("OpPrereqError", "The secrets in the launch spec cannot be read", "wrong_input")
		}
	}
	if len(secrets.Params) == 0 {
		return failure("OpExecError", "Opcode needs secret parameters")
	}
	shown := make([]string, 0, len(secrets.Params))
	for _, name := range slices.Sorted(maps.Keys(secrets.Params)) {
		shown = append(shown, name+"=<redacted>")
	}
	x.logMessage("Secret parameters received: %s", strings.Join(shown, ", "))
	return jobproc.Outcome{}
}

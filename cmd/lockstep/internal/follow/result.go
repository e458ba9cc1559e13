package follow

import (
	"encoding/json"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
)

// Failure is the error of an opcode, from its result: `["Class", [args]]` of the job process, or a
// plain string of the daemon (queue.md 3.4).
type Failure struct {
	class string
	text  string
	end   CommandEnd
}

// CommandEnd is the end of a command: one of the three, or none for another error.
type CommandEnd struct {
	ExitStatus *int            `json:"exit_status"`
	Signal     json.RawMessage `json:"signal"`  // "SIGKILL" or 9
	Timeout    *float64        `json:"timeout"` // the timeout, in seconds
}

// ParseFailure reads the result of a failed opcode. A result in another form is the text.
func ParseFailure(result json.RawMessage) Failure {
	var text string
	if json.Unmarshal(result, &text) == nil && string(result) != "null" {
		return Failure{text: text}
	}
	var pair []json.RawMessage
	var args []json.RawMessage
	parsed := Failure{}
	if json.Unmarshal(result, &pair) != nil || len(pair) != 2 ||
		json.Unmarshal(pair[0], &parsed.class) != nil || json.Unmarshal(pair[1], &args) != nil {
		return Failure{text: string(result)}
	}
	for i, arg := range args {
		var details CommandEnd
		switch {
		case json.Unmarshal(arg, &text) == nil && i == 0:
			parsed.text = text
		case i == 0:
			parsed.text = string(arg)
		case json.Unmarshal(arg, &details) == nil:
			parsed.end = details
		}
	}
	return parsed
}

// OfCommand reports whether the command itself failed, not the queue.
func (f Failure) OfCommand() bool {
	return f.end.ExitStatus != nil || f.end.Timeout != nil || len(f.end.Signal) > 0
}

// String omits the class OpExecError, which every failed command has.
func (f Failure) String() string {
	switch {
	case f.class == "" || f.class == "OpExecError" && f.text != "":
		return f.text
	case f.text == "":
		return f.class
	}
	return f.class + ": " + f.text
}

// ExitCode is the exit code that a shell, or timeout(1), returns for such an end.
func (f Failure) ExitCode() int {
	switch {
	case f.end.Timeout != nil:
		return 124
	case f.end.ExitStatus != nil && *f.end.ExitStatus != 0:
		return *f.end.ExitStatus
	}
	if number := signalNumber(f.end.Signal); number > 0 {
		return 128 + number
	}
	return cli.ExitFailure
}

// signalNumber reads the number or the name of a signal. It returns 0 if raw names no signal of this system.
func signalNumber(raw json.RawMessage) int {
	var number int
	if json.Unmarshal(raw, &number) == nil {
		return number
	}
	var name string
	if json.Unmarshal(raw, &name) != nil {
		return 0
	}
	return int(unix.SignalNum("SIG" + strings.TrimPrefix(name, "SIG")))
}

// Ending is the end of a job.
type Ending struct {
	Status string
	// opcode is the index, from 0, of the failed opcode, of count.
	opcode, count int
	Failure       Failure
	// Success is the result of the first opcode of a successful job.
	Success json.RawMessage
}

// endingOf reads the fields status, opstatus and opresult of a final job. The first opcode with the job's status is the one that has
// failed.
func endingOf(status string, opStatus []string, opResult []json.RawMessage) Ending {
	end := Ending{Status: status, count: len(opStatus)}
	if len(opResult) > 0 {
		end.Success = opResult[0]
	}
	for i, one := range opStatus {
		if one == status && status != client.StatusSuccess && i < len(opResult) {
			end.opcode = i
			if string(opResult[i]) != "null" {
				end.Failure = ParseFailure(opResult[i])
			}
			break
		}
	}
	return end
}

// Outcome describes the end of job id, however it ended.
func (e Ending) Outcome(id int64) string {
	switch {
	case !client.Final(e.Status):
		return fmt.Sprintf("job %d is %s", id, e.Status)
	case e.Status != client.StatusSuccess:
		return e.Sentence(id)
	}
	text := fmt.Sprintf("job %d succeeded", id)
	var result CommandEnd
	if json.Unmarshal(e.Success, &result) == nil && result.ExitStatus != nil {
		text += fmt.Sprintf(": command exited with status %d", *result.ExitStatus)
	}
	return text
}

// Sentence describes the end of job id, which did not succeed.
func (e Ending) Sentence(id int64) string {
	var b strings.Builder
	fmt.Fprintf(&b, "job %d ", id)
	switch e.Status {
	case client.StatusCanceled:
		b.WriteString("was canceled")
	case client.StatusError:
		b.WriteString("failed")
	default:
		fmt.Fprintf(&b, "ended with status %s", e.Status)
	}
	if e.count > 1 && e.Status == client.StatusError {
		fmt.Fprintf(&b, " in opcode %d of %d", e.opcode+1, e.count)
	}
	if text := e.Failure.String(); text != "" {
		b.WriteString(": " + text)
	}
	return b.String()
}

// Exit is the exit code for the end of job id: that of its command, and cli.ExitFailure for a job that has failed in another way or was
// canceled. text describes the end; "" if the job has succeeded.
func (e Ending) Exit(id int64) (code int, text string) {
	switch e.Status {
	case client.StatusSuccess:
		var result CommandEnd
		if json.Unmarshal(e.Success, &result) != nil || result.ExitStatus == nil {
			return 0, ""
		}
		return *result.ExitStatus, ""
	case client.StatusError:
		return e.Failure.ExitCode(), e.Sentence(id)
	}
	return cli.ExitFailure, e.Sentence(id)
}

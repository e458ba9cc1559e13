package durations

import (
	"encoding/json"
	"path"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"lockstep/core/job"
)

// Kind is what opcodes have in common that take about as long as each other. Own is the narrow kind of a command, and Program counts in its
// place until Own has enough durations. For other opcodes both are OP_ID, which is the name of a declared opcode. Each is at most kindMax
// bytes long, cut there.
type Kind struct{ Own, Program string }

// runCommand is the opcode whose kind is not its name.
const runCommand = "OP_RUN_COMMAND"

// KindOf is the kind of an opcode, by its stored input and the name of its job, "" for none. For a command Program is OP_ID and the base
// name of its program. Own adds the first of these that there is: the submitter's label; the name of the job without its digits;
// the first word that is no option (firstWord). Malformed input has the empty kind.
func KindOf(input json.RawMessage, jobName string) Kind {
	var op struct {
		OpID string          `json:"OP_ID"`
		Argv json.RawMessage `json:"argv"`
		Kind json.RawMessage `json:"kind"`
	}
	if json.Unmarshal(input, &op) != nil {
		return Kind{}
	}
	var argv []string
	if op.OpID != runCommand || json.Unmarshal(op.Argv, &argv) != nil || len(argv) == 0 {
		return Kind{cut(op.OpID), cut(op.OpID)}
	}
	program := op.OpID + " " + path.Base(argv[0])
	own := program
	var label string
	if len(op.Kind) > 0 && json.Unmarshal(op.Kind, &label) == nil && label != "" {
		own += " " + label
	} else if name := withoutDigits(jobName); name != "" {
		own += " name:" + name
	} else if word := firstWord(argv); word != "" {
		own += " word:" + word
	}
	return Kind{cut(own), cut(program)}
}

func withoutDigits(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return -1
		}
		return r
	}, name)
}

// firstWord is the first argument of a command that is no option; for a shell with a script in its arguments the first word of the script
// that is none. It is "" if there is none.
func firstWord(argv []string) string {
	args := argv[1:]
	if isShell(path.Base(argv[0])) {
		if script, found := scriptOf(args); found {
			args = strings.Fields(script)
		}
	}
	for _, a := range args {
		if a != "" && a[0] != '-' {
			return a
		}
	}
	return ""
}

func isShell(program string) bool {
	switch program {
	case "sh", "ash", "bash", "dash", "ksh", "mksh", "zsh":
		return true
	}
	return false
}

// scriptOf is the script in the arguments of a shell: the first after the options if one of these has the letter c, as -c or -euc. The
// argument of the option o is no script.
func scriptOf(args []string) (string, bool) {
	hasScript := false
	for i := 0; i < len(args); i++ {
		a := args[i]
		if a == "" || a[0] != '-' && a[0] != '+' {
			return a, hasScript
		}
		if strings.HasPrefix(a, "--") {
			continue
		}
		hasScript = hasScript || a[0] == '-' && strings.Contains(a, "c")
		if strings.HasSuffix(a, "o") {
			i++
		}
	}
	return "", false
}

// cut is the kind in kindMax bytes of whole characters.
func cut(kind string) string {
	for len(kind) > kindMax {
		_, size := utf8.DecodeLastRuneInString(kind[:kindMax+1])
		kind = kind[:max(kindMax+1-size, 0)]
	}
	return kind
}

// RecordJob adds the durations of the opcodes of a job that has ended, and its name. An opcode without both times has not executed.
func (t *Table) RecordJob(j *job.Job, name string) {
	for i := range j.Ops {
		op := &j.Ops[i]
		if op.Exec == (job.Timestamp{}) || op.End == (job.Timestamp{}) || !op.Status.Final() {
			continue
		}
		took := time.Duration(op.End.Sec-op.Exec.Sec)*time.Second + time.Duration(op.End.Usec-op.Exec.Usec)*time.Microsecond
		t.Record(KindOf(op.Input, name), took, op.Status == job.Success)
	}
}

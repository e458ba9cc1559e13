package sim

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"lockstep/core/job"
	"lockstep/core/jobproc"
	"lockstep/core/lock"
	"lockstep/core/rawjson"
	"lockstep/sim/kernel"
)

// command is a process that an opcode has started. It survives the death of the job process, until it ends by itself or the
// daemon kills the orphans of the job.
type command struct {
	process   *process
	life      *kernel.Lifetime
	script    script
	stop      jobproc.CommandStop
	heldLocks []lock.Item // of the opcode
	survived  bool        // the command lives although its opcode has ended
}

// script is what a command does, as its argv spells it: "sim run_for=5 exit=3
// say=hello floods=40 stubborn hides=session": seconds, exit status, a line of output, pieces of output, deaf to
// SIGTERM, started in a session or without its environment, in its own process group.
type script struct {
	runFor   time.Duration
	exit     int
	say      string
	floods   int // pieces of output of 64 kB, every 0.1 s
	stubborn bool
	hides    hiding
}

// hiding is what a command has left: the session of its job process, or the environment with the marker. In both cases it
// has also left the process group that is signalled.
type hiding string

const (
	hidesSession     hiding = "session"
	hidesEnvironment hiding = "environment"
)

func parseScript(argv []string) (script, error) {
	if len(argv) == 0 || argv[0] != "sim" {
		return script{}, fmt.Errorf("%q is not a simulated command", argv)
	}
	var s script
	for _, arg := range argv[1:] {
		key, value, _ := strings.Cut(arg, "=")
		var err error
		switch key {
		case "run_for":
			s.runFor, err = seconds(value)
		case "exit":
			s.exit, err = strconv.Atoi(value)
		case "say":
			s.say = value
		case "floods":
			s.floods, err = strconv.Atoi(value)
		case "stubborn":
			s.stubborn = true
		case "hides":
			s.hides = hiding(value)
		default:
			err = fmt.Errorf("unknown key %q", key)
		}
		if err != nil {
			return script{}, err
		}
	}
	return s, nil
}

func seconds(text string) (time.Duration, error) {
	s, err := strconv.ParseFloat(text, 64)
	return time.Duration(s * float64(time.Second)), err
}

// execute executes an opcode, whose output and end become events of the shell.
func (p *process) execute(op int) {
	w := p.machine.world
	input := p.shell.jobproc.Job().Ops[op].Input
	w.notify(opcodeStarted{node: p.machine.node, job: p.job, op: op, tag: tagOf(input), input: input})
	switch job.OpID(input) {
	case "OP_TEST_DELAY":
		p.delay(input)
	case "OP_RUN_COMMAND":
		p.runCommand(input)
	case "OP_TEST_JQUEUE":
		p.executed(jobproc.Outcome{Result: json.RawMessage("true")})
	default:
		p.executed(jobproc.Outcome{Failed: true, Result: job.ErrorResult("OpCodeUnknown", "Unknown opcode")})
	}
}

// executed passes the outcome of an opcode to the shell.
func (p *process) executed(o jobproc.Outcome) {
	p.shell.kill = nil
	p.then(func() {
		p.heldLocks = nil // nothing works with these locks now
		p.machine.world.notify(opcodeEnded{p})
		if p.reach(stageExecuted) {
			p.shell.executed(o)
		}
	})
}

// delay is OP_TEST_DELAY, which starts no command.
func (p *process) delay(input json.RawMessage) {
	var op struct {
		Duration float64 `json:"duration"`
	}
	if err := json.Unmarshal(input, &op); err != nil || op.Duration <= 0 {
		p.executed(jobproc.Outcome{Failed: true, Result: job.ErrorResult("OpPrereqError", "Duration must be greater than zero")})
		return
	}
	end := p.machine.world.clock.After(time.Duration(op.Duration*float64(time.Second)), p.life, func() { p.executed(jobproc.Outcome{}) })
	p.shell.kill = func() {
		end()
		p.executed(jobproc.Outcome{Failed: true, Result: job.ErrorResult("OpExecError", jobproc.EndedOnRequest)})
	}
}

func (p *process) runCommand(input json.RawMessage) {
	var op struct {
		Argv    []string `json:"argv"`
		Timeout float64  `json:"timeout"`
	}
	err := json.Unmarshal(input, &op)
	s, bad := parseScript(op.Argv)
	if err != nil || bad != nil {
		p.executed(jobproc.Outcome{Failed: true, Result: job.ErrorResult("OpExecError", fmt.Sprintf("cannot start %v", op.Argv))})
		return
	}
	m := p.machine
	c := &command{process: p, life: &kernel.Lifetime{}, script: s, heldLocks: p.heldLocks,
		stop: jobproc.NewCommandStop(m.world.clock.Now(), op.Timeout)}
	m.commands = append(m.commands, c)
	if s.say != "" {
		p.shell.log(stdout(s.say + "\n"))
	}
	for i := range s.floods {
		m.world.clock.After(time.Duration(i)*100*time.Millisecond, c.life, func() {
			p.shell.log(slices.Repeat([]jobproc.LogEntry{stdout(strings.Repeat("x", 4000) + "\n")}, 16)...)
		})
	}
	m.world.clock.After(s.runFor, c.life, c.exited)
	c.armStop()
	p.shell.kill = c.terminate
}

func stdout(line string) jobproc.LogEntry {
	return jobproc.LogEntry{Kind: job.LogStdout, Output: []byte(line)}
}

// terminate ends a command for a client, who has killed its job.
func (c *command) terminate() {
	c.process.shell.kill = nil
	c.signal(c.stop.Request(c.process.machine.world.clock.Now()))
}

// armStop waits for the deadline of the command's stop. A process that has died sends no signals.
func (c *command) armStop() {
	clock := c.process.machine.world.clock
	due := c.stop.Deadline()
	if due.IsZero() {
		return
	}
	clock.After(due.Sub(clock.Now()), c.life, func() {
		if !c.process.life.Over && !c.process.hung {
			c.signal(c.stop.Tick(clock.Now()))
		}
	})
}

// signal sends a signal to the command's process group. What has left the group gets SIGKILL when the command has ended.
func (c *command) signal(s jobproc.StopSignal) {
	switch {
	case s == jobproc.NoSignal:
		return
	case c.script.hides != "" && c.process.machine.world.mutations.Survivors:
		c.survived = true
		c.process.executed(c.stop.Outcome())
	case s == jobproc.ForceKill || !c.script.stubborn:
		c.exited()
	default:
		c.armStop()
	}
}

func (c *command) exited() {
	c.end("")
	switch {
	case c.process.life.Over || c.survived:
	case c.stop.Reason() != jobproc.NotStopped:
		c.process.executed(c.stop.Outcome())
	default:
		c.process.executed(c.script.outcome())
	}
}

func (s script) outcome() jobproc.Outcome {
	if s.exit == 0 {
		return jobproc.Outcome{Result: json.RawMessage(`{"exit_status": 0}`)}
	}
	return jobproc.Outcome{Failed: true, Result: job.ErrorResult("OpExecError",
		fmt.Sprintf("command exited with status %d", s.exit), map[string]any{"exit_status": s.exit})}
}

// end removes a command from the world. how is the text for the trace; "": the trace has no line.
func (c *command) end(how string) {
	m := c.process.machine
	c.life.Over = true
	for i, other := range m.commands {
		if other == c {
			m.commands = append(m.commands[:i:i], m.commands[i+1:]...)
			break
		}
	}
	if how != "" {
		m.node.tracef(topicProcess, "job %d: command %s", c.process.job, how)
	}
}

// tagOf is the tag by which the simulation identifies the job of an opcode, whose id it does not choose.
func tagOf(input json.RawMessage) (tag string) {
	_ = rawjson.ReadObject(input, func(key, value []byte) { // an input that is no object has no tag
		if string(key) == "comment" && json.Unmarshal(value, &tag) != nil {
			tag = ""
		}
	})
	return tag
}

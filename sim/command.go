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
	"lockstep/core/outflow"
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
	output    *commandOutput
	op        int
	written   int // pieces
	bytes     [2]int
}

// script is what a command does, as its argv spells it: "sim run_for=5 exit=3 fails=2
// say=hello floods=40 writes=20 says=3 every=0.1 stubborn hides=session": seconds, exit status, the number of first tries that have it, a
// line of output, pieces of output, pieces of output for readers, lines about its progress, the distance of both in seconds, deaf to
// SIGTERM, started in a session, without its environment or both, in its own process group.
type script struct {
	runFor   time.Duration
	exit     int
	fails    int // tries that exit so, the others succeed; 0: all
	say      string
	floods   int // pieces of output of 64 kB, every 0.1 s
	writes   int // pieces of output, see piece; they alone go to readers, too. runFor begins after the last one
	says     int // lines about its progress
	every    time.Duration
	stubborn bool
	hides    hiding
}

// hiding is what a command has left: the session of its job process, the environment with the marker, or both. It has also left the process
// group that is signalled. No command leaves its control group. One that hides both ways is not found on a machine without control groups:
// no workload has it there.
type hiding string

const (
	hidesSession     hiding = "session"
	hidesEnvironment hiding = "environment"
	hidesBoth        hiding = "both"
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
		case "fails":
			s.fails, err = strconv.Atoi(value)
		case "say":
			s.say = value
		case "floods":
			s.floods, err = strconv.Atoi(value)
		case "writes":
			s.writes, err = strconv.Atoi(value)
		case "says":
			s.says, err = strconv.Atoi(value)
		case "every":
			s.every, err = seconds(value)
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
	w.notify(opcodeStarted{node: p.machine.node, process: p, job: p.job, op: op, tag: tagIn(tagOf(input), p.job), input: input})
	switch job.OpID(input) {
	case "OP_TEST_DELAY":
		p.delay(input)
	case "OP_RUN_COMMAND":
		p.runCommand(op, input)
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
		p.machine.world.notify(opcodeEnded{p, o})
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

func (p *process) runCommand(index int, input json.RawMessage) {
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
	if spec := p.shell.jobproc.Spec(index); s.fails > 0 && spec.CurrentTry() > s.fails {
		s.exit = 0
	}
	p.shell.kill = func() {
		p.shell.relay.start = nil
		p.executed(jobproc.Outcome{Failed: true, Result: job.ErrorResult("OpExecError", jobproc.EndedOnRequest)})
	}
	p.shell.relay.begin(func() { p.startCommand(index, s, op.Timeout) })
}

func (p *process) startCommand(index int, s script, timeout float64) {
	m := p.machine
	c := &command{process: p, life: &kernel.Lifetime{}, script: s, heldLocks: p.heldLocks, op: index,
		stop: jobproc.NewCommandStop(m.world.clock.Now(), timeout), output: &commandOutput{shell: p.shell}}
	m.commands = append(m.commands, c)
	m.wakeGuard()
	if s.say != "" {
		p.shell.log(stdout(s.say + "\n"))
	}
	for i := range s.floods {
		m.world.clock.After(time.Duration(i)*100*time.Millisecond, c.life, func() {
			p.shell.log(slices.Repeat([]jobproc.LogEntry{stdout(strings.Repeat("x", 4000) + "\n")}, 16)...)
		})
	}
	for i := range s.says {
		m.world.clock.After(time.Duration(i)*s.every, c.life, func() { c.say(i + 1) })
	}
	c.write()
	c.armStop()
	p.shell.kill = c.terminate
}

// write writes the next piece of output when its pipe has room. After the last piece the command runs for a while, and ends.
func (c *command) write() {
	clock, s := c.process.machine.world.clock, c.script
	if c.life.Over {
		return
	}
	if c.written == s.writes {
		clock.After(s.runFor, c.life, c.exited)
		return
	}
	stream, piece := c.piece()
	switch {
	case c.process.life.Over: // nobody reads it
	case !c.output.hasRoom(stream, piece):
		c.output.room = c.write
		return
	default:
		c.process.machine.world.notify(outputWritten{c.process, stream, piece})
		c.output.write(stream, piece)
	}
	c.written++
	c.bytes[stream] += len(piece)
	clock.After(s.every, c.life, c.write)
}

// piece is the next output: lines with the place of each in its stream, which a piece may begin or end in the middle of.
func (c *command) piece() (stream outflow.Stream, piece []byte) {
	if c.written%4 == 3 {
		stream = outflow.Stderr
	}
	const line = 10
	from, size := c.bytes[stream], 40+c.written*7919%360
	var text []byte
	for n := from / line; len(text) < from%line+size; n++ {
		text = fmt.Appendf(text, "%d:%07d\n", c.op%10, n)
	}
	return stream, text[from%line : from%line+size]
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
	outcome := c.script.outcome()
	if c.stop.Reason() != jobproc.NotStopped {
		outcome = c.stop.Outcome()
	}
	if !c.process.life.Over && !c.survived {
		c.process.shell.kill = nil
		c.output.finish(func() { c.process.executed(outcome) })
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

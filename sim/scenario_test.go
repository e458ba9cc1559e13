package sim

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"lockstep/core/answer"
	"lockstep/core/paths"
	"lockstep/sim/simdisk"
)

// TestScenarios runs testdata/*.txt. Each directive prints what happened during
// it; go test -run TestScenarios -rewrite writes that into the files, whose
// difference is then to be read.
//
//	world [seed=N] [slots=N] [starts=N] [down] [show=(topic,...)]
//	    a new world, its daemon started and settled; topics as in trace.go,
//	    by default all but deliveries, disk and process
//	submit [client=N] [followed]     one job a line, opcodes separated by ";"
//	follow job=N [client=N] [stalls=N for=SECONDS] [vanishes=N]
//	    read all of its output; stalls and vanishes after so many frames
//	wait [client=N] job=N            follow a job to its end
//	cancel [client=N] job=N [kill]
//	priority job=N to=N | archive job=N
//	filter add|replace|delete name=NAME [action=ACTION] [n=N] [priority=N]
//	    a filter rule; its predicates one a line, see parsePredicates
//	set NAME=VALUE ...               settings
//	why job=N                        what holds it back
//	progress [client=N] job=N        what is shown of the progress of its command
//	list [client=N]                  what the daemon says
//	settle                           all that can happen without time passing
//	run [for=SECONDS]                60 by default
//	until                            step until a line of the trace contains the text
//	crash | start | reboot | stop    the daemon, the machine
//	fail op=LABEL [nth=N] [times=N] [err=ENOSPC|EIO] [after]
//	heal                             the disk
//	panic actor=NAME [message=TYPE] [nth=N] [after]
//	kill job=N | hang job=N          its process
//	garble job=N                     the text takes the place of its file
//	jobs                             what the disk says
//	locks                            what the disk says of locks
//	finish                           everything has ended and all checkers agree
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		if !strings.HasSuffix(path, ".txt") || strings.HasSuffix(path, "seeds.txt") {
			return
		}
		s := &scenario{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			verb, known := verbs[d.Cmd]
			require.True(t, known, "%s: unknown verb %s", d.Pos, d.Cmd)
			s.lines = nil
			if err := verb(s, t, d); err != nil {
				s.lines = append(s.lines, "error: "+err.Error())
			}
			if s.world != nil && s.world.Err() != nil {
				s.lines = append(s.lines, "BROKEN: "+s.world.Err().Error())
			}
			return strings.Join(append(s.lines, ""), "\n")
		})
	})
}

// scenario is the state of one scenario file while it runs.
type scenario struct {
	world *World
	show  map[topic]bool
	lines []string
	seen  func(Line)
	rules map[string]string // uuids by name
}

var verbs = map[string]func(*scenario, *testing.T, *datadriven.TestData) error{
	"world":  (*scenario).newWorld,
	"submit": (*scenario).submit,
	"follow": (*scenario).follow,
	"wait":   (*scenario).wait,
	"cancel": (*scenario).cancel,
	"list":   (*scenario).list,
	"settle": func(s *scenario, _ *testing.T, _ *datadriven.TestData) error { s.world.RunReady(); return nil },
	"run":    (*scenario).run,
	"until":  (*scenario).until,
	"crash":  func(s *scenario, _ *testing.T, _ *datadriven.TestData) error { s.world.Crash(); return nil },
	"start":  func(s *scenario, _ *testing.T, _ *datadriven.TestData) error { return s.world.Start() },
	"reboot": func(s *scenario, _ *testing.T, _ *datadriven.TestData) error { s.world.Reboot(); return nil },
	"stop": func(s *scenario, _ *testing.T, _ *datadriven.TestData) error {
		s.world.Stop()
		s.world.RunReady()
		return nil
	},
	"fail":   (*scenario).fail,
	"heal":   func(s *scenario, _ *testing.T, _ *datadriven.TestData) error { s.world.disk.Heal(); return nil },
	"panic":  (*scenario).panic,
	"kill":   (*scenario).kill,
	"hang":   (*scenario).kill,
	"garble": (*scenario).garble,
	"jobs":   (*scenario).jobs,
	"finish": (*scenario).finish,

	"filter":   (*scenario).filter,
	"set":      (*scenario).set,
	"why":      (*scenario).why,
	"progress": (*scenario).progress,
	"priority": (*scenario).priority,
	"archive":  (*scenario).archive,
	"locks":    (*scenario).locks,
}

func (s *scenario) newWorld(t *testing.T, d *datadriven.TestData) error {
	o := Options{Seed: 1, Sink: s.line}
	d.MaybeScanArgs(t, "seed", &o.Seed)
	d.MaybeScanArgs(t, "slots", &o.Slots)
	d.MaybeScanArgs(t, "starts", &o.Starts)
	s.show = map[topic]bool{topicFile: true, topicClient: true, topicDaemon: true, topicLog: true, topicFault: true}
	if arg, given := d.Arg("show"); given {
		s.show = map[topic]bool{}
		for _, shown := range arg.Vals {
			s.show[topic(shown)] = true
		}
	}
	s.world, s.rules = New(o), nil
	if d.HasArg("down") {
		return nil
	}
	if err := s.world.Start(); err != nil {
		return err
	}
	s.world.RunReady()
	return nil
}

func (s *scenario) line(l Line) {
	if s.show[l.topic] {
		s.lines = append(s.lines, l.String())
	}
	if s.seen != nil {
		s.seen(l)
	}
}

// client is the client that a directive names.
func (s *scenario) client(t *testing.T, d *datadriven.TestData) *client {
	n := 1
	d.MaybeScanArgs(t, "client", &n)
	for len(s.world.clients) < n {
		s.world.newClient()
	}
	return s.world.clients[n-1]
}

func job64(t *testing.T, d *datadriven.TestData) (id int64) {
	d.ScanArgs(t, "job", &id)
	return id
}

func (s *scenario) submit(t *testing.T, d *datadriven.TestData) error {
	jobs, err := parseJobs(d.Input)
	if err == nil {
		s.client(t, d).submitAs(&submission{jobs: jobs, followed: d.HasArg("followed")}, nil)
	}
	return err
}

func (s *scenario) follow(t *testing.T, d *datadriven.TestData) error {
	plan, stall := readingPlan{}, 0
	d.MaybeScanArgs(t, "stalls", &plan.stallAt)
	d.MaybeScanArgs(t, "for", &stall)
	d.MaybeScanArgs(t, "vanishes", &plan.vanishAt)
	plan.stall = time.Duration(stall) * time.Second
	s.client(t, d).readOutput(job64(t, d), true, plan, func() {})
	return nil
}

// parseJobs reads one job per line, with its opcodes separated by semicolons.
func parseJobs(text string) ([][]OpSpec, error) {
	var jobs [][]OpSpec
	for line := range strings.Lines(text) {
		var ops []OpSpec
		for op := range strings.SplitSeq(line, ";") {
			op = strings.TrimSpace(op)
			if op == "" {
				return nil, fmt.Errorf("an empty opcode in %q", line)
			}
			ops = append(ops, OpSpec(op))
		}
		jobs = append(jobs, ops)
	}
	return jobs, nil
}

func (s *scenario) wait(t *testing.T, d *datadriven.TestData) error {
	c, id := s.client(t, d), job64(t, d)
	c.awaitEnd(id, func(status string) { c.tracef("sees job %d end with %s", id, status) })
	return nil
}

func (s *scenario) cancel(t *testing.T, d *datadriven.TestData) error {
	s.client(t, d).cancel(job64(t, d), d.HasArg("kill"), nil)
	return nil
}

func (s *scenario) list(t *testing.T, d *datadriven.TestData) error {
	c := s.client(t, d)
	c.list(func(rows []listed, err error) {
		if err != nil {
			c.tracef("is told: %v", err)
		}
		for _, row := range rows {
			c.tracef("is told that job %d is %s", row.ID, row.Status)
		}
	})
	s.world.RunReady()
	return nil
}

func (s *scenario) progress(t *testing.T, d *datadriven.TestData) error {
	c, id := s.client(t, d), job64(t, d)
	c.lookAtProgress(id, func(p *answer.Progress, err error) {
		switch {
		case err != nil:
			c.tracef("is told: %v", err)
		case p == nil:
			c.tracef("is told of no progress of job %d", id)
		default:
			c.tracef("is told of the progress of job %d: %s %s", id, p.Share(), p.Text)
		}
	})
	s.world.RunReady()
	return nil
}

func (s *scenario) run(t *testing.T, d *datadriven.TestData) error {
	seconds := 60.0
	d.MaybeScanArgs(t, "for", &seconds)
	s.world.RunFor(time.Duration(seconds * float64(time.Second)))
	return nil
}

func (s *scenario) until(_ *testing.T, d *datadriven.TestData) error {
	found := false
	s.seen = func(l Line) { found = found || strings.Contains(l.Text(), d.Input) }
	defer func() { s.seen = nil }()
	for range 100_000 {
		if found {
			return nil
		}
		if !s.world.Step() {
			break
		}
	}
	return errors.New("that did not happen")
}

func (s *scenario) fail(t *testing.T, d *datadriven.TestData) error {
	f := simdisk.Fault{Nth: 1, Times: 1, Err: syscall.ENOSPC}
	d.ScanArgs(t, "op", &f.Op)
	d.MaybeScanArgs(t, "nth", &f.Nth)
	d.MaybeScanArgs(t, "times", &f.Times)
	if arg, given := d.Arg("err"); given {
		f.Err = map[string]error{"EIO": syscall.EIO, "ENOENT": syscall.ENOENT}[arg.Vals[0]]
	}
	if d.HasArg("after") {
		f.When = simdisk.AfterEffect
	}
	s.world.disk.Fail(f)
	return nil
}

func (s *scenario) panic(t *testing.T, d *datadriven.TestData) error {
	p := &orderedPanic{nth: 1, when: panicBefore}
	d.ScanArgs(t, "actor", &p.actor)
	d.MaybeScanArgs(t, "message", &p.message)
	d.MaybeScanArgs(t, "nth", &p.nth)
	if d.HasArg("after") {
		p.when = panicAfter
	}
	s.world.orderedPanics = append(s.world.orderedPanics, p)
	return nil
}

func (s *scenario) kill(t *testing.T, d *datadriven.TestData) error {
	p := s.world.machine.ofJob(job64(t, d))
	switch {
	case p == nil:
		return errors.New("there is no such process")
	case d.Cmd == "hang":
		p.hang()
	default:
		p.kill("SIGKILL")
	}
	return nil
}

// garble replaces a job's file with other content, as an administrator could.
func (w *World) garble(id int64, content []byte) {
	w.garbled = true
	w.disk.Overwrite(paths.JobPath(id), content)
	w.notify(garbled{id})
}

func (s *scenario) garble(t *testing.T, d *datadriven.TestData) error {
	s.world.garble(job64(t, d), []byte(d.Input))
	return nil
}

func (s *scenario) jobs(*testing.T, *datadriven.TestData) error {
	for _, id := range s.world.jobIDs() {
		j := s.world.Job(id)
		if j == nil {
			s.lines = append(s.lines, fmt.Sprintf("job %d: not a job", id))
			continue
		}
		s.lines = append(s.lines, fmt.Sprintf("job %d: %s", id, jobText(j, nil)))
		for _, op := range j.Ops {
			if len(op.Result) > 0 {
				s.lines = append(s.lines, "    "+string(op.Result))
			}
		}
	}
	for _, name := range s.world.disk.Names(paths.QuarantineDir) {
		s.lines = append(s.lines, "in quarantine: "+name)
	}
	s.lines = append(s.lines, fmt.Sprintf("serial %d", s.world.serial()))
	return nil
}

func (s *scenario) finish(*testing.T, *datadriven.TestData) error {
	s.show = nil
	s.world.RunFor(finalRetryMax)
	s.world.finish()
	if len(s.world.orderedPanics) > 0 {
		return errors.New("a panic that was ordered has not happened")
	}
	if s.world.Err() == nil {
		s.lines = append(s.lines, "ok")
	}
	return nil
}

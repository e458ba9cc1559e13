package supervisor_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
)

// TestRestart runs testdata/restart.txt: who fails, and what becomes of whom.
// The verbs:
//
//	tree [show]                           a daemon with a running job and a client
//	fail actor=A [times=N] [every=D]      A panics, N times, with D in between
//	pass D                                time goes by
//
// The answers name the decisions of the supervisors, then the actors that were
// stopped, started and restarted, then whether the daemon has ended.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s *restartScript
		datadriven.RunTest(t, "testdata/restart.txt", func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "tree":
				s.close()
				s = newRestartScript(t)
				news := s.news()
				if !d.HasArg("show") {
					return ""
				}
				return news
			case "fail":
				s.fail(t, d)
				return s.news()
			case "pass":
				s.advance(duration(t, d.CmdArgs[0].Key))
				return s.news()
			default:
				d.Fatalf(t, "no such verb")
				return ""
			}
		})
		s.close()
	})
}

func duration(t *testing.T, text string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(text)
	require.NoError(t, err)
	return d
}

// restartScript is a daemon under observation.
type restartScript struct {
	w    *world
	logs int // number of log entries already reported

	mu     sync.Mutex
	events map[string]bool
}

func newRestartScript(t *testing.T) *restartScript {
	e := kittest.New(t)
	s := &restartScript{events: map[string]bool{}}
	e.Panics.Watch(s.record)
	files := map[string]string{"queue/serial": "2\n", "queue/job-2": firstDisk()["queue/job-2"]}
	s.w = newWorld(t, e, files, time.Hour)
	e.Settle()
	s.w.dial()
	e.Settle()
	return s
}

func (s *restartScript) close() {
	if s == nil {
		return
	}
	s.w.env.System().Root.Stop(s.w.daemon.Root)
	s.advance(2 * time.Hour) // the job's process ends
}

// advance advances the clock in steps, because an event at one moment may cause another
// event at the next.
func (s *restartScript) advance(d time.Duration) {
	end := s.w.clock.Now().Add(d)
	for {
		s.w.env.Settle()
		next, any := s.w.clock.Next()
		if !any || s.w.clock.Now().Add(next).After(end) {
			break
		}
		s.w.clock.Advance(next)
	}
	s.w.env.Advance(end.Sub(s.w.clock.Now()))
}

func (s *restartScript) record(name string, msg any) {
	verb := ""
	switch msg.(type) {
	case *actor.Started:
		verb = "started"
	case *actor.Restart:
		verb = "restarted"
	case *actor.Stop:
		verb = "stopped"
	}
	if verb == "" || !strings.HasPrefix(name, "daemon") {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events[verb+" "+withoutAttempt(name)] = true
}

// attempts matches the numbers of attempts and writers, which are not printed.
var attempts = regexp.MustCompile(`\.[0-9]+|(writer)-[0-9]+`)

func withoutAttempt(name string) string { return attempts.ReplaceAllString(name, "$1") }

func (s *restartScript) fail(t *testing.T, d *datadriven.TestData) {
	name, times, every := "", 1, "0s"
	d.ScanArgs(t, "actor", &name)
	d.MaybeScanArgs(t, "times", &times)
	d.MaybeScanArgs(t, "every", &every)
	for i := range times {
		if i > 0 {
			s.advance(duration(t, every))
		}
		pid := s.find(name)
		if pid == nil {
			d.Fatalf(t, "there is no %s", name)
		}
		s.w.env.Crash(pid)
	}
}

// find returns the actor of that name; the number of its attempt may be omitted.
func (s *restartScript) find(name string) *actor.PID {
	for _, m := range s.w.env.Mailboxes() {
		if m.Actor == name || withoutAttempt(m.Actor) == name {
			return s.w.env.PID(m.Actor)
		}
	}
	return nil
}

// news returns the events since the last call.
func (s *restartScript) news() string {
	var b strings.Builder
	decisions := s.w.env.Logged("child failed")
	for _, d := range decisions[s.logs:] {
		fmt.Fprintf(&b, "%s: %v, failure %v", withoutAttempt(d["actor"].(string)), d["directive"], d["attempt"])
		if d["delay"] != time.Duration(0) {
			fmt.Fprintf(&b, ", in %v", d["delay"])
		}
		b.WriteString("\n")
	}
	s.logs = len(decisions)
	s.mu.Lock()
	events := s.events
	s.events = map[string]bool{}
	s.mu.Unlock()
	var lines []string
	for line := range events {
		lines = append(lines, line)
	}
	slices.Sort(lines)
	for _, line := range lines {
		b.WriteString(line + "\n")
	}
	select {
	case <-s.w.daemon.Done:
		b.WriteString("the daemon has ended\n")
	default:
	}
	return b.String()
}

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// screen is lockstep top in a terminal of tmux, of 16 lines.
type screen struct {
	*daemon
	tmux string // its socket
}

func (d *daemon) startTop(columns string) *screen {
	d.t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		d.t.Skip("NOT RUN: tmux is missing; Debian has it as a package")
	}
	program, err := lockstepProgram()
	require.NoError(d.t, err)
	s := &screen{d, filepath.Join(d.t.TempDir(), "tmux")}
	s.do("-f", "/dev/null", "new-session", "-d", "-x", columns, "-y", "16", "-s", "top",
		"NO_COLOR=1 TERM=screen "+program+" --socket "+d.path("run", "socket", "ganeti-query")+" top; echo left with $?; sleep 60")
	d.t.Cleanup(func() { _ = exec.Command("tmux", "-S", s.tmux, "kill-server").Run() })
	return s
}

func (s *screen) do(args ...string) string {
	s.t.Helper()
	out, err := exec.Command("tmux", append([]string{"-S", s.tmux}, args...)...).CombinedOutput()
	require.NoError(s.t, err, "%v: %s", args, out)
	return string(out)
}

func (s *screen) press(keys ...string) { s.do(append([]string{"send-keys", "-t", "top"}, keys...)...) }

// durations are what differs between runs.
var durations = regexp.MustCompile(` *\b(\d+(\.\d+)?(ms|s)|\d+m\d+s|[0-9]{2}:[0-9]{2}:[0-9]{2})\b`)

// shows waits until the screen has each of these texts.
func (s *screen) shows(texts ...string) {
	s.t.Helper()
	s.await(strings.Join(texts, ", "), func(shown string) bool {
		return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(shown, text) })
	})
}

// is waits until the screen is that of the file: the program draws it in several writes. $REWRITE writes the file.
func (s *screen) is(name string) {
	s.t.Helper()
	path := filepath.Join("testdata", "top", name+".txt")
	if os.Getenv("REWRITE") != "" {
		require.NoError(s.t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(s.t, os.WriteFile(path, []byte(s.shown()), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(s.t, err)
	s.await(string(want), func(shown string) bool { return shown == string(want) })
}

// shown is the screen, without spaces at the ends of its lines, and with the durations as T.
func (s *screen) shown() string {
	s.t.Helper()
	var lines []string
	for line := range strings.Lines(durations.ReplaceAllString(s.do("capture-pane", "-p", "-t", "top"), " T")) {
		lines = append(lines, strings.TrimRight(line, " \n"))
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n") + "\n"
}

func (s *screen) await(what string, arrived func(shown string) bool) {
	s.t.Helper()
	end := time.After(patience)
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		shown := s.shown()
		if arrived(shown) {
			return
		}
		select {
		case <-ticker.C:
		case <-end:
			s.t.Fatalf("the screen never has\n%s\nbut\n%s", what, shown)
		}
	}
}

// The screens of lockstep top, as a person sees them: the table is live, a job has its log, and keys cancel, search and change the
// priority.
func TestTop(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start("--rapi-address=", "--node-name", "node1")
	c := d.dial()
	command := func(name, script string, locks ...any) any {
		return map[string]any{"name": name, "ops": []op{{"OP_ID": "OP_RUN_COMMAND", "argv": []string{"sh", "-c", script}, "locks": locks}}}
	}
	var ids []int64
	c.call("LockstepSubmitJobs", &ids, []any{command("migrate", "echo moved part 1; sleep 300", []string{"node/n1", "exclusive"})})
	s := d.startTop("120")
	s.shows("migrate", "running")
	c.call("LockstepSubmitJobs", &ids, []any{command("reboot", "true", []string{"node/n1", "exclusive"}), command("failing", "exit 3")})
	s.shows("1 waiting", "waits for node/n1, which job 1 has", "1 error", "– exit 3", "oldest wait: job 2")
	s.is("table")

	s.press("Enter")
	s.shows("moved part 1")
	s.press("q", "/")
	s.press("-l", "fail")
	s.press("Enter")
	s.shows("search: fail", "exit 3")
	s.is("search")
	s.press("Escape")
	s.shows("reboot")
	s.press("?")
	s.shows("hold it, release it")
	s.is("help")
	s.press("q", "l")
	s.shows("node/n1")
	s.is("locks")
	s.press("q", "k", "k", "k", "K")
	s.shows("End job 1 now? (y/n)")
	s.is("question")
	s.press("y")
	s.shows("killed by", "success")
	s.press("q")
	s.shows("left with 0")
}

// The table has the progress of a command, on 80 columns, too.
func TestTopHasTheProgress(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start("--rapi-address=", "--node-name", "node1")
	c := d.dial()
	gate := d.path("gate")
	c.submit(command("rsync", "-a", "/srv/", "backup:/srv/"))
	id := c.submit(command("sh", "-c", `echo '99 copying disk 2 of 3' > "$LOCKSTEP_PROGRESS"; while ! [ -e `+gate+` ]; do sleep 0.02; done
		echo '- checking' > "$LOCKSTEP_PROGRESS"; sleep 300`))
	c.awaitProgress(id, "copying disk 2 of 3")
	s := d.startTop("80")
	s.shows("99% ||||· copying disk 2 of 3", "1 error")
	s.is("progress")
	require.NoError(t, os.WriteFile(gate, nil, 0o600))
	s.shows("checking  – sh") // the table is live
	s.press("q")
	s.shows("left with 0")
	c.call("CancelJob", nil, id, true)
}

// Without a terminal the command says what to use instead.
func TestTopWithoutATerminal(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start("--rapi-address=")
	program, err := lockstepProgram()
	require.NoError(t, err)
	out, err := exec.Command(program, "--socket", d.path("run", "socket", "ganeti-query"), "top").CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), `use "lockstep list"`)
}

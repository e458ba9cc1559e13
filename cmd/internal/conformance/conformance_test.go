package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"lockstep/cmd/internal/steady"
)

// packages names the environment variable with the directory into which Debian's
// packages ganeti, ganeti-3.0, ganeti-htools-3.0 and python3-ganeti-rapi were extracted.
const packages = "GANETI_PACKAGES"

// TestConformance runs testdata/*.txt. The verbs:
//
//	daemon [flags]   a new cluster of one node, node1.example.com, and its daemon
//	sh [status=N]    a shell script in which Ganeti's programs are on the path; its
//	                 exit status must be N, by default 0
//	stop | start     the daemon
//
// Times, UUIDs and other values of a single run are replaced by words.
func TestConformance(t *testing.T) {
	programs := os.Getenv(packages)
	if programs == "" {
		t.Skipf("NOT RUN: %s is not set; `make conformance` installs Ganeti's client programs and sets it", packages)
	}
	t.Parallel() // with TestConformanceQA, which sleeps
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := &site{t: t, programs: programs}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "daemon":
				s.stop()
				s.make(d.Input)
				return ""
			case "start":
				s.start()
				return ""
			case "stop":
				s.stop()
				return ""
			case "sh":
				status := 0
				d.MaybeScanArgs(t, "status", &status)
				return s.run(d.Input, status)
			default:
				d.Fatalf(t, "no such verb: %s", d.Cmd)
				return ""
			}
		})
	})
}

// site is a cluster with its directories.
type site struct {
	t        *testing.T
	programs string
	root     string // $GANETI_ROOTDIR
	flags    []string
	cmd      *exec.Cmd
	log      bytes.Buffer
	text     steady.Text
}

const node = "node1.example.com"

// make makes a cluster at the paths that Ganeti's programs use. The root is short, because
// the length of socket paths is limited.
func (s *site) make(flags string) {
	dir, err := os.MkdirTemp("/tmp", "gnt")
	require.NoError(s.t, err)
	s.t.Cleanup(func() {
		s.stop()
		_ = os.RemoveAll(dir)
	})
	s.root, s.flags, s.text = filepath.Join(dir, node), strings.Fields(flags), steady.Text{}
	for _, sub := range []string{"var/lib/ganeti", "var/run/ganeti", "var/log/ganeti"} {
		require.NoError(s.t, os.MkdirAll(filepath.Join(s.root, sub), 0o755))
	}
	s.start()
}

// bin returns the directory of lockstep's programs.
func (s *site) bin() string {
	bin, err := filepath.Abs(filepath.Join("..", "..", "..", "bin"))
	require.NoError(s.t, err)
	return bin
}

func (s *site) start() {
	args := append([]string{"--cluster-name", "cluster.example.com", "--node-name", node,
		"--data-dir", filepath.Join(s.root, "var/lib/ganeti"), "--run-dir", filepath.Join(s.root, "var/run/ganeti"),
		"--log-dir", filepath.Join(s.root, "var/log/ganeti"), "--confd-address", ""}, s.flags...)
	s.cmd = exec.Command(filepath.Join(s.bin(), "lockstepd"), args...)
	s.cmd.Stderr = &s.log
	require.NoError(s.t, s.cmd.Start(), "make build makes the programs")
	require.Eventually(s.t, func() bool {
		_, err := os.Stat(filepath.Join(s.root, "var/run/ganeti/socket/ganeti-query"))
		return err == nil
	}, 30*time.Second, 10*time.Millisecond, "the daemon does not listen")
}

func (s *site) stop() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	_ = s.cmd.Wait()
	s.cmd = nil
	if s.t.Failed() {
		s.t.Logf("log of the daemon:\n%s", s.log.String())
	}
}

// scriptMax bounds one script.
const scriptMax = 3 * time.Minute

func (s *site) run(script string, status int) string { return s.runFor(scriptMax, script, status) }

func (s *site) runFor(limit time.Duration, script string, status int) string {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	share := filepath.Join(s.programs, "usr/share/ganeti/3.0")
	cmd := exec.CommandContext(ctx, "sh", "-c", script)
	cmd.Env = append(os.Environ(), "GANETI_ROOTDIR="+s.root, "GANETI_HOSTNAME="+node, "LC_ALL=C.UTF-8", "LOCKSTEP="+filepath.Join(s.bin(), "lockstep"),
		"PATH="+share+":"+os.Getenv("PATH"),
		"PYTHONPATH="+share+":"+filepath.Join(s.programs, "usr/lib/python3/dist-packages"), "PYTHONDONTWRITEBYTECODE=1")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return fmt.Sprintf("%scannot run: %v\n", out, err)
	}
	text := s.text.Steady(strings.ReplaceAll(string(out), s.root, "ROOT"))
	if got := cmd.ProcessState.ExitCode(); got != status {
		text += fmt.Sprintf("EXIT STATUS %d, WANTED %d\n", got, status)
	}
	return text
}

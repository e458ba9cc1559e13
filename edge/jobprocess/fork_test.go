package jobprocess

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"lockstep/actors/jobs"
	"lockstep/edge/pidfd"
	"lockstep/messages"
	"lockstep/persistence"
	"lockstep/sim/longtest"
)

// ganetiFixture is the port in Ganeti mode, with a stand-in for Ganeti's job program.
type ganetiFixture struct {
	*fixture
	share  string
	killed int // fork servers that the test has killed

	mu     sync.Mutex
	logged bytes.Buffer
}

func (g *ganetiFixture) Write(data []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.logged.Write(data)
}

func (g *ganetiFixture) log() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.logged.String()
}

func newGanetiFixture(t testing.TB, changes ...func(*Config)) *ganetiFixture {
	t.Helper()
	const python = "/usr/bin/python3"
	if exec.Command(python, "-c", "import os; os.pidfd_open").Run() != nil {
		t.Skip("NOT RUN: /usr/bin/python3 is missing, or older than 3.9")
	}
	g := &ganetiFixture{fixture: newFixture(t, jobProgram), share: filepath.Join(t.TempDir(), "share")}
	require.NoError(t, os.CopyFS(g.share, os.DirFS("../../cmd/lockstepd/testdata/ganeti")))
	t.Setenv("STANDIN_DATA", filepath.Join(g.dir, "lib"))
	t.Setenv("STANDIN_RUN", g.runDir())
	t.Setenv("PYTHONDONTWRITEBYTECODE", "1")
	c := g.port.config
	c.Log.SetOutput(g)
	c.Ganeti = &Ganeti{Python: python, Share: g.share, ForkServer: true}
	for _, change := range changes {
		change(&c)
	}
	g.port = New(c)
	t.Cleanup(func() { g.port.Close() })
	g.awaitServer()
	return g
}

func (g *ganetiFixture) awaitServer() {
	g.t.Helper()
	require.Eventually(g.t, func() bool {
		return strings.Count(g.log(), "the fork server has ended") >= g.killed && g.port.forkServer.Ready()
	}, patience, time.Millisecond, "%s", g.log())
}

func ganetiJob(id int64) jobs.Job {
	return jobs.Job{ID: id, Program: messages.JobProgram_GANETI_JOB}
}

// begin starts a job up to the name of its lock file, and writes the job's file.
func (g *ganetiFixture) begin(attempt uint64, id int64) *messages.ProcessNamed {
	g.t.Helper()
	g.file(id, "", 0)
	g.port.Start(attempt, ganetiJob(id), g.receiver)
	named := expect[*messages.ProcessNamed](g.fixture)
	g.file(id, named.Livelock, named.Pid)
	return named
}

func (g *ganetiFixture) confirm(attempt uint64) {
	g.t.Helper()
	g.port.Confirm(attempt, []byte(`[null]`))
	expect[*messages.ProcessConfirmed](g.fixture)
}

// permit ends the opcode of a job.
func (g *ganetiFixture) permit(id int64) {
	require.NoError(g.t, os.WriteFile(filepath.Join(g.dir, "lib", fmt.Sprintf("go-%d-0", id)), nil, 0o600))
}

func (g *ganetiFixture) gone() *messages.ProcessGone { return expect[*messages.ProcessGone](g.fixture) }

// parentOf returns the parent of a process.
func parentOf(t testing.TB, pid int64) int {
	fields, lives := processStat(int(pid))
	require.True(t, lives)
	parent, err := strconv.Atoi(fields[1])
	require.NoError(t, err)
	return parent
}

// serverOf is the fork server of a forked process.
func (g *ganetiFixture) serverOf(named *messages.ProcessNamed) int {
	parent := parentOf(g.t, named.Pid)
	require.NotEqual(g.t, os.Getpid(), parent, "the process was executed")
	return parent
}

func TestAForkedProcess(t *testing.T) {
	g := newGanetiFixture(t)
	named := g.begin(1, 12)
	g.serverOf(named)
	require.True(t, g.port.isJobProcess(int(named.Pid), ganetiJob(12)))
	require.False(t, g.port.isJobProcess(int(named.Pid), ganetiJob(1)))
	found, err := exec.Command("pgrep", "-f", "jqueue/exec.py 12$").Output()
	require.NoError(t, err, "operators find it as they find an executed one")
	require.Equal(t, fmt.Sprintln(named.Pid), string(found))
	g.confirm(1)
	g.permit(12)
	gone := g.gone()
	require.Equal(t, "exit status 0", gone.Text)
	require.False(t, gone.NeverActed)
	require.NoFileExists(t, named.Livelock)
}

func TestAForkedProcessIsAbandoned(t *testing.T) {
	g := newGanetiFixture(t)
	named := g.begin(1, 12)
	g.serverOf(named)
	g.port.Abandon(1)
	expect[*messages.HandshakeFailed](g.fixture)
	require.True(t, g.gone().NeverActed)
	require.NoFileExists(t, named.Livelock)
}

// A forked process is killed in each step of its start, and with it the fork server.
func TestKillsAtEachStep(t *testing.T) {
	for _, victims := range []string{"process", "server", "both"} {
		t.Run(victims, func(t *testing.T) {
			g := newGanetiFixture(t)
			kill := func(named *messages.ProcessNamed) {
				server := g.serverOf(named)
				if victims != "process" {
					require.NoError(t, unix.Kill(server, unix.SIGKILL))
					g.killed++
				}
				if victims != "server" {
					require.NoError(t, unix.Kill(int(named.Pid), unix.SIGKILL))
				}
			}
			survives := victims == "server"

			named := g.begin(1, 1) // before the permission
			kill(named)
			g.port.Confirm(1, []byte(`[null]`))
			if survives {
				expect[*messages.ProcessConfirmed](g.fixture)
				g.permit(1)
				g.gone()
			} else {
				expect[*messages.HandshakeFailed](g.fixture)
				require.True(t, g.gone().NeverActed)
			}

			var gone *messages.ProcessGone
			for n := uint64(2); gone == nil; n++ { // with permission
				g.awaitServer()
				named = g.begin(n, int64(n))
				g.confirm(n)
				kill(named)
				if survives {
					g.permit(int64(n))
				}
				gone = g.gone()
				if !survives && !gone.NeverActed && n < 20 {
					gone = nil // it was quicker than the signal
				}
			}
			require.Equal(t, !survives, gone.NeverActed, "a killed process has not made the job waiting")
			if victims == "process" {
				require.Equal(t, "ended by SIGKILL", gone.Text)
			}
			require.NoFileExists(t, named.Livelock)

			g.awaitServer()
			named = g.begin(30, 30) // the next one is forked
			g.serverOf(named)
			g.confirm(30)
			g.permit(30)
			require.Equal(t, "exit status 0", g.gone().Text)
		})
	}
}

// A forked process that ends before it has named its lock file has not acted: the program is executed.
func TestExecutedInstead(t *testing.T) {
	g := newGanetiFixture(t)
	require.NoError(t, os.Rename(g.runDir()+"/livelocks", g.runDir()+"/gone"))
	g.file(1, "", 0)
	g.port.Start(1, ganetiJob(1), g.receiver)
	expect[*messages.HandshakeFailed](g.fixture) // without the directory both fail
	require.Equal(t, "exit status 1", g.gone().Text)
	require.Contains(t, g.log(), "its program is executed")
	require.NoError(t, os.RemoveAll(g.runDir()+"/gone"))

	named := g.begin(2, 2) // the fork server is not trusted for a while
	require.Equal(t, os.Getpid(), parentOf(t, named.Pid))
	g.confirm(2)
	g.permit(2)
	require.Equal(t, "exit status 0", g.gone().Text)
}

// serverPID runs a job and returns the pid of the fork server.
func (g *ganetiFixture) serverPID() int {
	named := g.begin(1000, 1000)
	g.confirm(1000)
	server := g.serverOf(named)
	g.permit(1000)
	g.gone()
	return server
}

func TestTheServerIsKilledWithARequest(t *testing.T) {
	g := newGanetiFixture(t)
	server := g.serverPID()
	require.NoError(t, unix.Kill(server, unix.SIGSTOP))
	g.file(1, "", 0)
	g.port.Start(1, ganetiJob(1), g.receiver)
	require.NoError(t, unix.Kill(server, unix.SIGKILL)) // before or after the request
	named := expect[*messages.ProcessNamed](g.fixture)
	require.Equal(t, os.Getpid(), parentOf(t, named.Pid), "it is executed")
	g.file(1, named.Livelock, named.Pid)
	g.confirm(1)
	g.permit(1)
	require.Equal(t, "exit status 0", g.gone().Text)
}

// A process that the fork server has made and of which it has not told ends before the program is executed, and is killed if it
// does not end.
func TestAProcessOfWhichTheServerHasNotTold(t *testing.T) {
	ends, err := newPipes()
	require.NoError(t, err)
	defer ends.closeDaemonEnds()
	holder := exec.Command("sleep", "300")
	holder.Stdin, holder.Stdout = ends.inRead, ends.outWrite
	require.NoError(t, holder.Start())
	defer func() { _ = holder.Process.Kill() }()
	ends.closeProcessEnds()
	process, err := pidfd.Open(holder.Process.Pid)
	require.NoError(t, err)
	defer process.Close()
	require.Equal(t, []int{holder.Process.Pid}, killHolders(ends.outRead))
	require.True(t, process.EndsWithin(patience))
	r := newFixture(t, jobProgram)
	require.NoError(t, r.port.awaitClosed(ends.outRead, 1))
	_ = holder.Wait()
}

// The next daemon adopts a forked process, and kills what it leaves by its session and start time.
func TestAForkedProcessIsAdopted(t *testing.T) {
	g := newGanetiFixture(t)
	named := g.begin(1, 12)
	g.confirm(1)
	server, err := pidfd.Open(g.serverOf(named))
	require.NoError(t, err)
	defer server.Close()
	g.port.Close() // the daemon ends, and with it the fork server
	require.True(t, server.EndsWithin(patience))
	config := g.port.config
	g.port = New(config)
	g.port.Adopt(2, ganetiJob(12), named.Pid, named.Livelock, g.receiver)
	g.permit(12)
	texts := []string{g.gone().Text, g.gone().Text} // of both ports, which are in one process here
	slices.Sort(texts)
	require.Contains(t, texts[0], "the fork server, which has started it, has ended")
	require.Contains(t, texts[1], "no daemon was watching")
	require.NoFileExists(t, named.Livelock)
}

func TestOrphansOfAForkedProcess(t *testing.T) {
	for _, adopted := range []bool{false, true} {
		t.Run(fmt.Sprintf("adopted=%t", adopted), func(t *testing.T) {
			g := newGanetiFixture(t)
			require.NoError(t, os.WriteFile(filepath.Join(g.dir, "lib", "sleep-12"), nil, 0o600))
			named := g.begin(1, 12)
			g.confirm(1)
			mark := filepath.Join(g.dir, "lib", "slept-12")
			require.Eventually(t, func() bool { _, err := os.Stat(mark); return err == nil }, patience, time.Millisecond)
			content, err := os.ReadFile(mark)
			require.NoError(t, err)
			pid, err := strconv.Atoi(string(content))
			require.NoError(t, err)
			orphan, err := pidfd.Open(pid)
			require.NoError(t, err)
			defer orphan.Close()
			if adopted {
				g.port.Close()
				g.port = New(g.port.config)
				g.port.Adopt(1, ganetiJob(12), named.Pid, named.Livelock, g.receiver)
			}
			require.NoError(t, unix.Kill(int(named.Pid), unix.SIGKILL))
			g.gone()
			require.True(t, orphan.EndsWithin(patience), "what is left of the job is killed")
		})
	}
}

// Many jobs, of which some are killed at any time: each attempt ends, and nothing is left.
func TestManyForkedJobs(t *testing.T) {
	g := newGanetiFixture(t)
	total, killed := longtest.Times(1000), 0
	for id := int64(1); id <= int64(total); id++ {
		named := g.begin(uint64(id), id)
		if id%100 == 7 {
			require.NoError(t, unix.Kill(int(named.Pid), unix.SIGKILL))
			killed++
			g.port.Confirm(uint64(id), []byte(`[null]`))
			for {
				if _, ended := (<-g.messages).(*messages.ProcessGone); ended {
					break
				}
			}
			continue
		}
		g.permit(id)
		g.port.Confirm(uint64(id), []byte(`[null]`))
		expect[*messages.ProcessConfirmed](g.fixture)
		require.Equal(t, "exit status 0", g.gone().Text)
	}
	require.NotZero(t, killed)
	left, err := os.ReadDir(persistence.LivelockDir(g.runDir()))
	require.NoError(t, err)
	require.Empty(t, left)
	require.NotContains(t, g.log(), "executed")
	require.Equal(t, 1, strings.Count(g.log(), "the fork server is ready"))
}

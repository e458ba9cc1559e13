package conformance

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/cmd/internal/accounts"
)

// ganetiDaemon is the path of a daemon of Ganeti: in the extracted packages, or installed. The test is skipped if neither
// can be executed.
func ganetiDaemon(t *testing.T, name string) string {
	dir := os.Getenv(packages)
	if dir == "" {
		t.Skipf("NOT RUN: %s is not set; `make conformance` sets it", packages)
	}
	if _, err := accounts.Resolve(accounts.Ganeti); err != nil {
		t.Skipf("NOT RUN: Ganeti's %s does not start without the accounts that its package makes: %v", name, err)
	}
	candidates := []string{filepath.Join(dir, "usr/lib/ganeti/3.0/usr/sbin", name), filepath.Join("/usr/sbin", name)}
	for _, path := range candidates {
		if exec.Command(path, "--version").Run() == nil {
			return path
		}
	}
	t.Skipf("NOT RUN: Ganeti's %s cannot be executed; it is in Debian's package ganeti-haskell-3.0", name)
	return ""
}

// TestConformanceOfDaemons: Ganeti's luxid and wconfd load the queue and the locks that lockstepd leaves behind, with jobs
// that have names, results in words, free locks and holds, and with archived jobs and settings of the retention. They know
// nothing of these, lose no job and move no file of lockstep.
func TestConformanceOfDaemons(t *testing.T) {
	wconfd, luxid := ganetiDaemon(t, "ganeti-wconfd"), ganetiDaemon(t, "ganeti-luxid")
	s := &site{t: t, programs: os.Getenv(packages)}
	s.make("")
	gate := filepath.Join(s.root, "gate")
	var processes []int
	t.Cleanup(func() {
		for _, pid := range processes {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	s.mustRun(`
		lockstep config set order=plain # a job that waits for a lock has a process, which Ganeti's daemons find
		lockstep run --name nightly -- true
		lockstep run --name nightly -- sh -c 'exit 3' || test $? = 3
		lockstep archive --yes 1
		lockstep run --detach --name holder --lock deploy --lock node/` + node + ` -- sh -c 'while ! test -e ` + gate + `; do sleep 0.05; done'
		until lockstep locks | grep deploy; do sleep 0.05; done
		lockstep run --detach --name waiter --lock deploy -- true
		until lockstep why waiter | grep deploy; do sleep 0.05; done
		lockstep run --detach --name after --after holder -- true
		lockstep hold after
		lockstep run --detach --after holder -- true
		lockstep cancel --yes 6
		lockstep config set archive_after=7d keep_last=2 remove_archived_after=30d
		lockstep filter add --action PAUSE --reason "Ganeti's daemons start nothing"
	`)
	s.stop()
	before := s.state()
	processes = []int{s.processOf("3"), s.processOf("4")}
	require.Contains(t, before, "queue/archive/0/lockstep-1")
	for _, file := range []string{"queue/lockstep-2", "queue/lockstep-5", "locks.free.data", "settings.json"} {
		require.Contains(t, before, file)
	}
	require.NotContains(t, before["locks.data"], "deploy")
	require.Contains(t, before["locks.data"], node, "locks of Ganeti are there")

	stopWconfd := s.startDaemon(wconfd)
	stopLuxid := s.startDaemon(luxid)
	require.Equal(t, `ID Status   Summary
 2 error    RUN_COMMAND
 3 running  RUN_COMMAND
 4 waiting  RUN_COMMAND
 5 queued   RUN_COMMAND
 6 canceled RUN_COMMAND
`, s.run("gnt-job list", 0))
	locks := s.run("gnt-debug locks -o name,mode,owner", 0)
	require.Regexp(t, `node/\S+ exclusive 3\n`, locks)
	require.NotContains(t, locks, "deploy")
	require.NotRegexp(t, `(?i)quarantin|(failed|cannot|unable) to (load|read)`, s.logs())
	stopLuxid()
	stopWconfd()
	after := s.state()
	for path, content := range before {
		require.Equal(t, content, after[path], "%s is unchanged", path)
	}

	require.NoError(t, os.Remove(filepath.Join(s.root, "var/run/ganeti/socket/ganeti-query"))) // s.start waits for a new one
	s.start()
	out := s.mustRun("lockstep why after; lockstep info nightly; lockstep list --archived --name nightly")
	require.Contains(t, out, "held")
	require.Contains(t, out, "exit 3")
}

// mustRun runs a shell script with lockstep's and Ganeti's programs. It ends at the first error.
func (s *site) mustRun(script string) string {
	s.t.Helper()
	bin, err := filepath.Abs(filepath.Join("..", "..", "..", "bin"))
	require.NoError(s.t, err)
	out := s.run("set -e; export PATH="+bin+":$PATH LOCKSTEP_SOCKET="+filepath.Join(s.root, "var/run/ganeti/socket/ganeti-query")+"\n"+script, 0)
	require.NotContains(s.t, out, "EXIT STATUS", "%s", out)
	return out
}

// state is the content of the data directory's files, by path.
func (s *site) state() map[string]string {
	files := map[string]string{}
	root := filepath.Join(s.root, "var/lib/ganeti")
	require.NoError(s.t, filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		files[strings.TrimPrefix(path, root+"/")] = string(content)
		return err
	}))
	return files
}

// processOf is the process of a running job.
func (s *site) processOf(id string) int {
	var job struct {
		ProcessID int `json:"process_id"`
	}
	require.NoError(s.t, json.Unmarshal([]byte(s.state()["queue/job-"+id]), &job))
	require.NotZero(s.t, job.ProcessID)
	return job.ProcessID
}

// startDaemon starts one of Ganeti's daemons, and waits until its log says that it has started.
func (s *site) startDaemon(path string) (stop func()) {
	cmd := exec.Command(path, "-f", "--no-user-checks", "--no-voting", "--yes-do-it")
	cmd.Env = append(os.Environ(), "GANETI_ROOTDIR="+s.root, "GANETI_HOSTNAME="+node, "LC_ALL=C.UTF-8")
	require.NoError(s.t, cmd.Start())
	stop = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	s.t.Cleanup(stop)
	startup := filepath.Base(path) + " daemon startup"
	require.Eventually(s.t, func() bool { return strings.Contains(s.logs(), startup) }, time.Minute, 20*time.Millisecond, startup)
	return stop
}

func (s *site) logs() (all string) {
	paths, err := filepath.Glob(filepath.Join(s.root, "var/log/ganeti/*-daemon.log"))
	require.NoError(s.t, err)
	for _, path := range paths {
		content, err := os.ReadFile(path)
		require.NoError(s.t, err)
		all += string(content)
	}
	return all
}

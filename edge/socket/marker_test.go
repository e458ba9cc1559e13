package socket

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/edge/reaper"
)

// process starts a shell script with an environment. The script must print its number, and runs until the test ends.
func process(t *testing.T, script string, env ...string) peer {
	t.Helper()
	return startProcesses(t, 1, nil, script, env...)[0]
}

// startProcesses starts a shell script, which prints the numbers of so many processes.
func startProcesses(t *testing.T, count int, how *syscall.SysProcAttr, script string, env ...string) (peers []peer) {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", script)
	cmd.Env, cmd.SysProcAttr = append([]string{"PATH=" + os.Getenv("PATH")}, env...), how
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(out)
	t.Cleanup(func() {
		_ = in.Close() // ends cat
		for lines.Scan() {
			continue
		}
		_ = cmd.Wait()
	})
	for range count {
		require.True(t, lines.Scan())
		pid, err := strconv.Atoi(lines.Text())
		require.NoError(t, err)
		peers = append(peers, peer{known: true, uid: os.Geteuid(), pid: pid})
	}
	return peers
}

// The marker is in the environment of the process or of an ancestor. What a process writes into its own environment does not count.
func TestMarkerOfAProcess(t *testing.T) {
	const marker = "LOCKSTEP_JOB=job_000012_1700000000_77_0123abcd"
	for name, c := range map[string]struct {
		script string
		env    []string
		want   string
	}{
		"its own":           {`echo $$; cat`, []string{marker}, "job_000012_1700000000_77_0123abcd"},
		"none":              {`echo $$; cat`, nil, ""},
		"of its parent":     {`env -i /bin/sh -c 'echo $$; /bin/cat; :'; :`, []string{marker}, "job_000012_1700000000_77_0123abcd"},
		"of a grandparent":  {`env -i /bin/sh -c 'env -i /bin/sh -c "echo \$\$; /bin/cat; :"; :'; :`, []string{marker}, "job_000012_1700000000_77_0123abcd"},
		"another variable":  {`echo $$; cat`, []string{"X" + marker, "LOCKSTEP_JOB_ID=12"}, ""},
		"set after a start": {`export ` + marker + `; echo $$; read x`, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, process(t, c.script, c.env...).marker(""))
		})
	}
	require.Empty(t, peer{}.marker(""), "a client of another node")
	require.Empty(t, peer{known: true}.marker(""), "a process of another pid namespace")
	require.Empty(t, peer{known: true, pid: 1 << 30}.marker(""), "a process that has ended")
}

// The variable in a process of another user counts only below the process of that job, or in its session: the name of a lock file is known
// to others.
func TestMarkerOfAProcessOfAnotherUser(t *testing.T) {
	const name = "job_000012_1700000000_77_0123abcd"
	livelocks := t.TempDir()
	family := startProcesses(t, 3, &syscall.SysProcAttr{Setsid: true},
		`echo $$; /bin/sh -c 'echo $$; setsid /bin/sh -c "echo \$\$; /bin/cat; :"; :'; :`, "LOCKSTEP_JOB="+name)
	leader, session, left := family[0], family[1], family[2]
	stranger := process(t, `echo $$; cat`, "LOCKSTEP_JOB="+name)
	outside := process(t, `echo $$; cat`, "LOCKSTEP_JOB=../"+filepath.Base(livelocks)+"/"+name)
	of := func(p peer) string {
		p.uid = os.Geteuid() + 1000
		return p.marker(livelocks)
	}
	require.Empty(t, of(session), "there is no such lock file")
	is, err := reaper.LeaderOf(leader.pid)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(livelocks, name), is.Encode(), 0o600))
	require.Equal(t, name, of(session))
	require.Equal(t, name, of(leader))
	require.Equal(t, name, of(left), "its ancestors are in the session")
	require.Empty(t, of(stranger))
	require.Empty(t, of(outside))
	stranger.uid = 0
	require.Equal(t, name, stranger.marker(livelocks), "root says what it likes")
	is.StartTime--
	require.NoError(t, os.WriteFile(filepath.Join(livelocks, name), is.Encode(), 0o600))
	require.Empty(t, of(session), "an earlier process had the number")
}

func BenchmarkMarkerOfAProcessWithoutJob(b *testing.B) {
	p := peer{known: true, uid: os.Geteuid(), pid: os.Getppid()}
	for b.Loop() {
		_ = p.marker("")
	}
}

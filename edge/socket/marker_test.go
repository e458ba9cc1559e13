package socket

import (
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// process starts a shell script with an environment. The script must print a line, and runs until the test ends.
func process(t *testing.T, script string, env ...string) peer {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", script)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, env...)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close() // ends cat
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait()
	})
	var pid int
	for c := make([]byte, 1); ; {
		_, err := out.Read(c)
		require.NoError(t, err)
		if c[0] == '\n' {
			break
		}
		pid = 10*pid + int(c[0]-'0')
	}
	return peer{known: true, uid: os.Geteuid(), pid: pid}
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
			require.Equal(t, c.want, process(t, c.script, c.env...).marker())
		})
	}
	require.Empty(t, peer{}.marker(), "a client of another node")
	require.Empty(t, peer{known: true}.marker(), "a process of another pid namespace")
	require.Empty(t, peer{known: true, pid: 1 << 30}.marker(), "a process that has ended")
}

func BenchmarkMarkerOfAProcessWithoutJob(b *testing.B) {
	p := peer{known: true, uid: os.Geteuid(), pid: os.Getppid()}
	for b.Loop() {
		_ = p.marker()
	}
}

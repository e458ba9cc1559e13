package docs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// Three nodes with one image and one start secret, each with its own name and volume.
func TestTheComposeFile(t *testing.T) {
	content, err := os.ReadFile("../packaging/container/compose.yaml")
	require.NoError(t, err)
	var file struct {
		Services map[string]struct {
			Image       string
			Hostname    string
			Environment map[string]string
			Volumes     []string
			Secrets     []string
		}
		Secrets, Volumes map[string]any
	}
	require.NoError(t, yaml.Unmarshal(content, &file))
	require.Len(t, file.Services, 3)
	for name, service := range file.Services {
		require.Equal(t, "lockstep:latest", service.Image)
		require.Equal(t, name, service.Hostname)
		require.Equal(t, []string{"lockstep-start"}, service.Secrets)
		require.Equal(t, []string{name + ":/var/lib/lockstep"}, service.Volumes)
		require.Equal(t, map[string]string{"LOCKSTEP_FIRST": "n1:7400"}, service.Environment)
		require.Contains(t, file.Volumes, name)
	}
	require.Contains(t, file.Secrets, "lockstep-start")
}

// The script that refuses the removal of the package counts the jobs of the daemon's user. What other users make of the program, with
// escape sequences for a job, neither counts nor reaches the terminal.
func TestOnlyJobsOfTheDaemonKeepThePackage(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("NOT RUN: processes of another user need root")
	}
	if _, err := os.Stat("/etc/lockstep/lockstepd.yaml"); err == nil {
		t.Skip("NOT RUN: lockstep is installed here")
	}
	dir, err := os.MkdirTemp("", "jobs")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755)) // for the other user
	sleep, err := os.ReadFile("/bin/sleep")
	require.NoError(t, err)
	script, err := os.ReadFile("../packaging/jobs")
	require.NoError(t, err)
	program := filepath.Join(dir, "lockstep-job")
	require.NoError(t, os.WriteFile(program, sleep, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "jobs"), script, 0o755))
	running := func() string {
		out, err := exec.Command("/bin/sh", filepath.Join(dir, "jobs"), "running").Output()
		require.Equal(t, len(out) == 0, err != nil, "the status says whether there is one")
		return string(out)
	}
	begin := func(user uint32, job string) (pid string) {
		c := exec.Command(program, "600")
		c.Args = []string{program, job, "600"} // sleep adds its arguments
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}, Pdeathsig: syscall.SIGKILL}
		require.NoError(t, c.Start())
		t.Cleanup(func() {
			_ = c.Process.Kill()
			_ = c.Wait()
		})
		return strconv.Itoa(c.Process.Pid)
	}
	require.Empty(t, running())
	begin(65534, "7")
	require.Empty(t, running(), "of another user")
	pid := begin(0, "12")
	require.Equal(t, pid+" 12\n", running())
	odd := begin(0, "13s")
	require.ElementsMatch(t, []string{pid + " 12", odd + " 13?"}, strings.Split(strings.TrimSpace(running()), "\n"))
}

// The unit of the daemon has no restriction that commands of jobs would inherit and miss. docs/install.md says of each kind why.
func TestTheUnitRestrictsNoCommand(t *testing.T) {
	for _, unit := range []string{"lockstepd.service.in", "user/lockstepd.service.in"} {
		content, err := os.ReadFile("../packaging/" + unit)
		require.NoError(t, err)
		for line := range strings.Lines(string(content)) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			for _, inherited := range []string{"Protect", "Private", "Restrict", "SystemCall", "NoNewPrivileges", "LockPersonality", "MemoryDeny", "ReadOnly", "Inaccessible", "NoExec",
				"User", "Group", "DynamicUser", "DevicePolicy", "DeviceAllow", "IPAddress", "SocketBind", "UMask", "AmbientCapabilities", "CapabilityBoundingSet"} {
				if strings.HasPrefix(name, inherited) && line != "CapabilityBoundingSet=~CAP_WAKE_ALARM CAP_BLOCK_SUSPEND CAP_AUDIT_READ\n" {
					t.Errorf("%s: %s=%s", unit, name, value)
				}
			}
		}
	}
}

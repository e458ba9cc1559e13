package reaper

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const patience = 30 * time.Second

func TestLeaderOnDisk(t *testing.T) {
	self, err := Self()
	require.NoError(t, err)
	require.Equal(t, os.Getpid(), self.PID)
	read, err := DecodeLeader(self.Encode())
	require.NoError(t, err)
	require.Equal(t, self, read)
	for _, bad := range []string{"", "boot 7", "boot 7 8", "boot 0 8\n", "boot 7 8 9\n", "boot x 8\n"} {
		_, err := DecodeLeader([]byte(bad))
		require.ErrorContains(t, err, "does not say", "%q", bad)
	}
}

// The mark is a difference in the first byte, so that one write of one byte revokes it.
func TestTheMarkOfAProcessThatHasNotBegun(t *testing.T) {
	self, err := Self()
	require.NoError(t, err)
	marked, begun := self.EncodeNotBegun(), self.Encode()
	require.NotEqual(t, begun[0], marked[0])
	require.Equal(t, begun[1:], marked[1:])
	read, err := DecodeLeader(marked) // so does an older daemon
	require.NoError(t, err)
	require.NotEqual(t, self.Boot, read.Boot, "no process of that boot is left")
	require.Equal(t, self.PID, read.PID)
	require.True(t, ProvesNotBegun(marked))
	require.False(t, ProvesNotBegun(begun))
}

// Whatever is not the whole content with the mark, of this boot, proves nothing.
func TestWhatProvesNothing(t *testing.T) {
	self, err := Self()
	require.NoError(t, err)
	marked := self.EncodeNotBegun()
	for i := range marked {
		require.False(t, ProvesNotBegun(marked[:i]), "%q", marked[:i])
	}
	require.False(t, ProvesNotBegun(append([]byte("~"), marked...)))
	require.False(t, ProvesNotBegun(append(marked, '\n')))
	for _, boot := range []string{"0" + self.Boot[1:len(self.Boot)-1] + "x", "01234567-89ab-cdef-0123-456789abcdef.1", "x"} {
		other := Leader{Boot: boot, PID: self.PID, StartTime: self.StartTime}
		require.False(t, ProvesNotBegun(other.EncodeNotBegun()), boot)
	}
}

// session is a session leader with one other process of its session.
type session struct {
	leader Leader
	cmd    *exec.Cmd
	member int
}

func newSession(t *testing.T) *session {
	t.Helper()
	output := filepath.Join(t.TempDir(), "pid")
	s := &session{cmd: exec.Command("sh", "-c", "env -i sleep 300 & echo $! > "+output+".new; mv "+output+".new "+output+"; wait")}
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	require.NoError(t, s.cmd.Start())
	t.Cleanup(func() {
		s.end()
		_ = syscall.Kill(s.member, syscall.SIGKILL)
	})
	require.Eventually(t, func() bool {
		content, err := os.ReadFile(output)
		if err == nil {
			s.member, err = strconv.Atoi(strings.TrimSpace(string(content)))
		}
		return err == nil
	}, patience, 5*time.Millisecond)
	own, err := bootID()
	require.NoError(t, err)
	now, exists := readProcessStat(s.cmd.Process.Pid)
	require.True(t, exists)
	s.leader = Leader{Boot: own, PID: s.cmd.Process.Pid, StartTime: now.startTime}
	return s
}

// end kills and reaps the leader, so that its pid may be reused.
func (s *session) end() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

func (s *session) kill(t *testing.T) (killed []int) {
	t.Helper()
	job := Job{Livelock: "/none", Leader: &s.leader, KillTimeout: patience, OnKill: func(pid int) { killed = append(killed, pid) }}
	require.NoError(t, job.Kill())
	return killed
}

func TestWhatIsLeftOfALeaderThatNobodySawEnd(t *testing.T) {
	s := newSession(t)
	s.end()
	require.Equal(t, []int{s.member}, s.kill(t))
	require.Empty(t, s.kill(t))
}

// The leader may be a zombie whose parent does not reap it.
func TestWhatIsLeftOfALeaderThatHasNotBeenReaped(t *testing.T) {
	s := newSession(t)
	require.NoError(t, s.cmd.Process.Kill())
	require.NoError(t, unix.Waitid(unix.P_PID, s.cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)) // it is dead, and not reaped
	require.Equal(t, []int{s.member}, s.kill(t))
}

// A session with the number of a dead leader may belong to a different process.
func TestOtherProcessesAreNotKilled(t *testing.T) {
	for name, alter := range map[string]func(*session){
		"another boot":                       func(s *session) { s.leader.Boot = "another"; s.end() },
		"members began before the leader":    func(s *session) { s.leader.StartTime += 1_000_000; s.end() },
		"another process has the number now": func(s *session) { s.leader.StartTime-- },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSession(t)
			alter(s)
			require.Empty(t, s.kill(t))
		})
	}
}

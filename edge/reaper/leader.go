package reaper

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"lockstep/persistence"
)

// Leader identifies the process of a job, which leads a session. The kernel may reuse the pid,
// but no two processes have all three values in common.
type Leader struct {
	Boot      string // of the machine, and of the container where there is one
	PID       int
	StartTime uint64 // in the kernel's ticks since boot
}

// Self returns the Leader of this process.
func Self() (Leader, error) { return LeaderOf(os.Getpid()) }

// LeaderOf returns the Leader of the process that has the pid now.
func LeaderOf(pid int) (Leader, error) {
	boot, err := bootID()
	if err != nil {
		return Leader{}, err
	}
	now, exists := readProcessStat(pid)
	if !exists {
		return Leader{}, fmt.Errorf("reading the start time of process %d failed", pid)
	}
	return Leader{Boot: boot, PID: pid, StartTime: now.startTime}, nil
}

// bootID identifies the boot of the machine and the start of process 1. A restarted container
// reuses pids within one boot of the machine.
func bootID() (string, error) {
	id, err := persistence.BootID()
	if err != nil {
		return "", err
	}
	first, _ := readProcessStat(1) // an error on some calls only would change the result; a system hides process 1 always or never
	return fmt.Sprintf("%s.%d", id, first.startTime), nil
}

// Encode returns the content of the lock file of a process that may have begun its job.
func (l Leader) Encode() []byte { return fmt.Appendf(nil, "%s %d %d\n", l.Boot, l.PID, l.StartTime) }

// ReadLeader returns the process that made a lock file; nil: the file is missing, or does not name the process.
func ReadLeader(livelock string) *Leader {
	content, err := persistence.ReadOwnerInfo(livelock)
	if err != nil {
		return nil
	}
	leader, err := DecodeLeader(content)
	if err != nil {
		return nil
	}
	return &leader
}

// Leads reports whether a process lives in the leader's session. The leader is of this boot.
func (l Leader) Leads(pid int) bool {
	s, exists := readProcessStat(pid)
	return exists && s.session == l.PID && l.leads(s)
}

// notBegun replaces the first byte of Encode in the lock file of a process that has not begun its job. A boot begins with
// a hexadecimal digit. A reader that does not know the mark reads a process of another boot, of which no process is left.
const notBegun = '~'

// EncodeNotBegun returns the content of the lock file of a process that has not begun its job. It differs from Encode in
// its first byte only, so that one write of one byte revokes the mark.
func (l Leader) EncodeNotBegun() []byte {
	content := l.Encode()
	content[0] = notBegun
	return content
}

// DecodeLeader decodes the result of Encode. Any other content is an error.
func DecodeLeader(content []byte) (Leader, error) {
	var l Leader
	_, err := fmt.Sscanf(string(content), "%s %d %d\n", &l.Boot, &l.PID, &l.StartTime)
	if err != nil || l.PID <= 0 || !bytes.Equal(l.Encode(), content) {
		return Leader{}, fmt.Errorf("%q does not say which process it is of", content)
	}
	return l, nil
}

// ProvesNotBegun reports whether the content of the lock file of an ended process proves that the process did not begin
// its job: it has the mark, and it is of this boot. A revocation is not synced, so that a power loss may undo it.
func ProvesNotBegun(content []byte) bool {
	l, err := DecodeLeader(content)
	if err != nil || l.Boot[0] != notBegun {
		return false
	}
	now, err := bootID()
	return err == nil && l.Boot[1:] == now[1:]
}

// leads reports whether a member of a session with the leader's number belongs to the leader's
// session. The kernel does not reuse a number while a session has it: another process with the
// number leads a later session.
func (l Leader) leads(member processStat) bool {
	now, exists := readProcessStat(l.PID)
	return member.startTime >= l.StartTime && (!exists || now.startTime == l.StartTime)
}

// processStat is the kernel's status of a process (proc_pid_stat(5), fields 3, 6 and 22).
type processStat struct {
	state     string
	session   int
	startTime uint64
}

func readProcessStat(pid int) (s processStat, exists bool) {
	content, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return processStat{}, false
	}
	// The name, in parentheses, may hold anything.
	fields := bytes.Fields(content[bytes.LastIndexByte(content, ')')+1:])
	if len(fields) < 20 {
		return processStat{}, false
	}
	session, err := strconv.Atoi(string(fields[3]))
	if err != nil {
		return processStat{}, false
	}
	startTime, err := strconv.ParseUint(string(fields[19]), 10, 64)
	return processStat{state: string(fields[0]), session: session, startTime: startTime}, err == nil
}

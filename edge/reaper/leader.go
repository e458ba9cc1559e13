package reaper

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"lockstep/persistence"
)

// Leader is the process of a job, which leads a session. The kernel gives its number to
// another process in time; it gives the three values together to no other.
type Leader struct {
	Boot      string // of the machine, and of the container where there is one
	PID       int
	StartTime uint64 // in the kernel's ticks since boot
}

// Self is this process.
func Self() (Leader, error) {
	boot, err := bootID()
	if err != nil {
		return Leader{}, err
	}
	self, exists := readProcessStat(os.Getpid())
	if !exists {
		return Leader{}, fmt.Errorf("the start of process %d cannot be read", os.Getpid())
	}
	return Leader{Boot: boot, PID: os.Getpid(), StartTime: self.startTime}, nil
}

// bootID names the run of the machine and of its first process. A container that starts
// again gives its numbers again, in the same run of the machine.
func bootID() (string, error) {
	id, err := persistence.BootID()
	if err != nil {
		return "", err
	}
	first, _ := readProcessStat(1) // where it is hidden, it always is
	return fmt.Sprintf("%s.%d", id, first.startTime), nil
}

// Encode is what a lock file holds.
func (l Leader) Encode() []byte { return fmt.Appendf(nil, "%s %d %d\n", l.Boot, l.PID, l.StartTime) }

// DecodeLeader reads what Encode has made.
func DecodeLeader(content []byte) (Leader, error) {
	var l Leader
	if _, err := fmt.Sscanf(string(content), "%s %d %d\n", &l.Boot, &l.PID, &l.StartTime); err != nil || l.PID <= 0 || !bytes.Equal(l.Encode(), content) {
		return Leader{}, fmt.Errorf("%q does not say which process it is of", content)
	}
	return l, nil
}

// leads says whether a member of the session with the leader's number belongs to the
// leader's. The kernel does not give a number away while a session has it: a process that
// has the number now, and is not the leader, leads a later session.
func (l Leader) leads(member processStat) bool {
	now, exists := readProcessStat(l.PID)
	return member.startTime >= l.StartTime && (!exists || now.startTime == l.StartTime)
}

// processStat is what the kernel says of a process (proc_pid_stat(5), fields 3, 6 and 22).
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

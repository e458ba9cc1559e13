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
	Boot  string // of the machine, and of the container where there is one
	PID   int
	Began uint64 // in the kernel's ticks since boot
}

// Self is this process.
func Self() (Leader, error) {
	boot, err := boot()
	if err != nil {
		return Leader{}, err
	}
	self, lives := statOf(os.Getpid())
	if !lives {
		return Leader{}, fmt.Errorf("the start of process %d cannot be read", os.Getpid())
	}
	return Leader{Boot: boot, PID: os.Getpid(), Began: self.began}, nil
}

// boot names the run of the machine and of its first process. A container that starts
// again gives its numbers again, in the same run of the machine.
func boot() (string, error) {
	id, err := persistence.BootID()
	if err != nil {
		return "", err
	}
	first, _ := statOf(1) // where it is hidden, it always is
	return fmt.Sprintf("%s.%d", id, first.began), nil
}

// Encode is what a lock file holds.
func (l Leader) Encode() []byte { return fmt.Appendf(nil, "%s %d %d\n", l.Boot, l.PID, l.Began) }

// DecodeLeader reads what Encode has made.
func DecodeLeader(content []byte) (Leader, error) {
	var l Leader
	if _, err := fmt.Sscanf(string(content), "%s %d %d\n", &l.Boot, &l.PID, &l.Began); err != nil || l.PID <= 0 || !bytes.Equal(l.Encode(), content) {
		return Leader{}, fmt.Errorf("%q does not say which process it is of", content)
	}
	return l, nil
}

// led says whether a member of the session with the leader's number belongs to the
// leader's. The kernel does not give a number away while a session has it: a process that
// has the number now, and is not the leader, leads a later session.
func (l Leader) led(member stat) bool {
	now, exists := statOf(l.PID)
	return member.began >= l.Began && (!exists || now.began == l.Began)
}

// stat is what the kernel says of a process (proc_pid_stat(5), fields 3, 6 and 22).
type stat struct {
	state   string
	session int
	began   uint64
}

func statOf(pid int) (s stat, exists bool) {
	content, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return stat{}, false
	}
	// The name, in parentheses, may hold anything.
	fields := bytes.Fields(content[bytes.LastIndexByte(content, ')')+1:])
	if len(fields) < 20 {
		return stat{}, false
	}
	session, err := strconv.Atoi(string(fields[3]))
	if err != nil {
		return stat{}, false
	}
	began, err := strconv.ParseUint(string(fields[19]), 10, 64)
	return stat{state: string(fields[0]), session: session, began: began}, err == nil
}

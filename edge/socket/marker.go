package socket

import (
	"bytes"
	"io"
	"os"
	"strconv"

	"lockstep/edge/reaper"
)

// Bounds of the search for the job of a process: how many processes are looked at, the peer and its ancestors, and how many bytes of an
// environment.
const (
	ancestorsMax = 16
	environMax   = 1 << 20
	environUsual = 8 << 10
)

// marker returns the name of the lock file of the job of which the peer is a process: the value of reaper.EnvName in the environment with
// which the peer was executed, or else an ancestor. It is "" if neither has the variable, or the environment cannot be read. A process can
// execute a program with the variable of another job if it has read the name of that job's lock file; so the name says of which
// job a process is, and permits nothing.
func (p peer) marker() string {
	pid := p.pid
	if !p.known || programOf(pid) == jobProgram { // the process of a job submits nothing
		return ""
	}
	for range ancestorsMax {
		if pid <= 1 || pid == os.Getpid() {
			return ""
		}
		if name := markerOf(pid); name != "" {
			return name
		}
		pid = parentOf(pid)
	}
	return ""
}

func markerOf(pid int) string {
	file, err := os.Open("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return ""
	}
	defer file.Close()
	var environ bytes.Buffer
	environ.Grow(environUsual)
	if _, err := environ.ReadFrom(io.LimitReader(file, environMax)); err != nil {
		return ""
	}
	for pair := range bytes.SplitSeq(environ.Bytes(), []byte{0}) {
		if name, is := bytes.CutPrefix(pair, []byte(reaper.EnvName+"=")); is {
			return string(name)
		}
	}
	return ""
}

// parentOf returns the parent of a process; 0 if there is no such process.
func parentOf(pid int) int {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	// The name, in parentheses, may contain blanks and parentheses. The state and the parent follow it.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 2 {
		return 0
	}
	parent, _ := strconv.Atoi(string(fields[1])) // 0 if it is no number
	return parent
}

package socket

import (
	"bytes"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strconv"

	"lockstep/core/paths"
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
// which the peer was executed, or else an ancestor. It is "" if neither has the variable, or the environment cannot be read. livelocks is
// the directory of the lock files. A user can execute a program with the variable of another user's job, so the variable alone counts only
// for clients of root and of the daemon's user.
func (p peer) marker(livelocks string) string {
	if !p.known || programOf(p.pid) == jobProgram { // the process of a job submits nothing
		return ""
	}
	for pid := range family(p.pid) {
		if name := markerOf(pid); name != "" {
			if p.uid == 0 || p.uid == os.Geteuid() || isOfJob(p.pid, livelocks, name) {
				return name
			}
			return ""
		}
	}
	return ""
}

// family yields a process and its nearest ancestors.
func family(pid int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for range ancestorsMax {
			if pid <= 1 || pid == os.Getpid() || !yield(pid) {
				return
			}
			pid = parentOf(pid)
		}
	}
}

// isOfJob reports whether a process or an ancestor is in the session of the process that has made the lock file of a job. The commands of
// the job begin in that session. A process can leave a session, and cannot enter one.
func isOfJob(pid int, livelocks, name string) bool {
	if _, is := paths.JobIDOfLivelock(name); !is || filepath.Base(name) != name {
		return false
	}
	leader := reaper.ReadLeader(filepath.Join(livelocks, name))
	if leader == nil {
		return false
	}
	for pid := range family(pid) {
		if leader.Leads(pid) {
			return true
		}
	}
	return false
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

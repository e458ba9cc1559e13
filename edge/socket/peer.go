package socket

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"lockstep/actors/conn"
	"lockstep/core/budget"
	"lockstep/edge/admission"
)

// peer is the process at the other end of a unix socket when it connected. The zero peer is
// unknown, as the client of another node is.
type peer struct {
	known    bool
	uid, pid int   // 0: the process is in another pid namespace
	gids     []int // all groups
}

func peerOf(c net.Conn) peer {
	local, ok := c.(*net.UnixConn)
	if !ok {
		return peer{}
	}
	raw, err := local.SyscallConn()
	if err != nil {
		return peer{}
	}
	var found *syscall.Ucred
	var groups []int
	var failed error
	err = raw.Control(func(fd uintptr) {
		if found, failed = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED); failed == nil {
			groups, failed = peerGroups(fd)
		}
	})
	if err != nil || failed != nil {
		return peer{}
	}
	return peer{known: true, uid: int(found.Uid), pid: int(found.Pid), gids: append(groups, int(found.Gid))}
}

// jobProgram is the program of job processes.
const jobProgram = "lockstep-job"

// client returns whom the connection counts for: its user and process, or the address of another node. A process of the daemon's user
// with the name of the job program is that of a job. Who can start one can signal the daemon, too.
func (p peer) client(c net.Conn) budget.Client {
	if !p.known {
		found := admission.Address(c.RemoteAddr().String())
		found.Class = budget.Nodes
		return found
	}
	found := admission.UID(p.uid)
	found.Process = p.pid
	if p.uid == os.Geteuid() && programOf(p.pid) == jobProgram {
		found.Class = budget.Jobs
	}
	return found
}

// forActors returns what actors may know of the peer: pid, uid and program, or nothing if they are not known.
func (p peer) forActors() conn.Peer {
	if !p.known {
		return conn.Peer{}
	}
	return conn.Peer{PID: p.pid, UID: p.uid, Program: programOf(p.pid)}
}

// programOf returns the name of a process, "" if there is none.
func programOf(pid int) string {
	if pid <= 0 {
		return ""
	}
	name, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(string(name), "\n")
}

// describe returns the text that is recorded for the peer, such as uid=1000(alice), pid=4711; "" if the kernel has not told who it is.
func (p peer) describe(names *accountNames) string {
	if !p.known {
		return ""
	}
	text := "uid=" + strconv.Itoa(p.uid)
	if name := names.user(p.uid); name != "" {
		text += "(" + name + ")"
	}
	if p.pid != 0 {
		text += fmt.Sprintf(", pid=%d", p.pid)
	}
	return text
}

// Bounds of the cache of names.
const (
	nameLifetime = time.Minute
	namesMax     = 1000
)

// nameCache caches names of users or groups, because a look-up may ask a server on the network. Only connections of that user wait for the
// look-up, which is made once for all of them.
type nameCache struct {
	mu    sync.Mutex
	names map[int]*cachedName
}

type cachedName struct {
	once  sync.Once
	name  string
	since time.Time
}

// lookup returns the name of a number, as find knows it; "" if there is none. It is remembered for nameLifetime, unless find does not know.
func (l *nameCache) lookup(number int, find func() (name string, known bool)) string {
	l.mu.Lock()
	found := l.names[number]
	if found == nil || time.Since(found.since) > nameLifetime {
		if l.names == nil || len(l.names) >= namesMax {
			l.names = map[int]*cachedName{}
		}
		found = &cachedName{since: time.Now()}
		l.names[number] = found
	}
	l.mu.Unlock()
	found.once.Do(func() {
		name, known := find()
		if found.name = name; known {
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.names[number] == found {
			delete(l.names, number)
		}
	})
	return found.name
}

// PeerUID is the user of the process at the other end of a unix socket when it connected; known is false on other connections.
func PeerUID(c net.Conn) (uid int, known bool) {
	p := peerOf(c)
	return p.uid, p.known
}

package socket

import (
	"fmt"
	"net"
	"os/user"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// peer is the process at the other end of a unix socket when it connected. The zero peer is
// unknown, as the client of another node is.
type peer struct {
	known    bool
	uid, pid int // 0: the process is in another pid namespace
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
	var failed error
	err = raw.Control(func(fd uintptr) {
		found, failed = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if err != nil || failed != nil {
		return peer{}
	}
	return peer{known: true, uid: int(found.Uid), pid: int(found.Pid)}
}

// describe returns the text that is recorded for the peer, such as uid=1000(alice), pid=4711.
func (p peer) describe(names *userNames) string {
	if !p.known {
		return ""
	}
	text := "uid=" + strconv.Itoa(p.uid)
	if name := names.lookup(p.uid); name != "" {
		text += "(" + name + ")"
	}
	if p.pid != 0 {
		text += fmt.Sprintf(", pid=%d", p.pid)
	}
	return text
}

// Bounds of the cache of names.
const (
	userNameLifetime = time.Minute
	userNamesMax     = 1000
)

// userNames caches names of users, because a look-up may ask a server on the network. Only
// connections of that user wait for the look-up, which is made once for all of them.
type userNames struct {
	mu    sync.Mutex
	names map[int]*userName
}

type userName struct {
	once  sync.Once
	name  string
	since time.Time
}

// lookup returns the name of a user; "" if there is none.
func (l *userNames) lookup(uid int) string {
	l.mu.Lock()
	found := l.names[uid]
	if found == nil || time.Since(found.since) > userNameLifetime {
		if l.names == nil || len(l.names) >= userNamesMax {
			l.names = map[int]*userName{}
		}
		found = &userName{since: time.Now()}
		l.names[uid] = found
	}
	l.mu.Unlock()
	found.once.Do(func() {
		if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
			found.name = u.Username
		}
	})
	return found.name
}

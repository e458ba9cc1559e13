package socket

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"lockstep/core/access"
)

// groupsMax is how many supplementary groups a process can have.
const groupsMax = 65_536

// peerGroups returns the supplementary groups that the process at the other end of a unix socket had when it connected.
func peerGroups(fd uintptr) ([]int, error) {
	gids := make([]uint32, 32)
	for {
		size := uint32(len(gids)) * 4
		_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, fd, unix.SOL_SOCKET, unix.SO_PEERGROUPS,
			uintptr(unsafe.Pointer(&gids[0])), uintptr(unsafe.Pointer(&size)), 0) //nolint:gosec // the kernel fills both
		switch {
		case errors.Is(errno, unix.ERANGE) && size/4 <= groupsMax: // it says how many there are
			gids = make([]uint32, size/4)
			continue
		case errno != 0:
			return nil, fmt.Errorf("ask for the groups of the client: %w", errno)
		}
		groups := make([]int, size/4)
		for i := range groups {
			groups[i] = int(gids[i])
		}
		return groups, nil
	}
}

// identity returns who the peer is, for permissions. That of another node's connection is Unknown: each of its requests says who sends it.
func (p peer) identity(names *accountNames) access.Identity {
	if !p.known {
		return access.Unknown()
	}
	i := access.Identity{UID: p.uid, Name: names.user(p.uid), GIDs: p.gids, Login: loginOf(p.pid), Program: programOf(p.pid)}
	groups := make([]string, min(len(p.gids), namedGroupsMax))
	var asking sync.WaitGroup
	for k := range groups {
		asking.Go(func() { groups[k] = names.group(p.gids[k]) }) // together, since each may wait for a directory service
	}
	asking.Wait()
	i.Groups = slices.DeleteFunc(groups, func(name string) bool { return name == "" })
	return i
}

// namedGroupsMax bounds the groups of a client whose names are looked up.
const namedGroupsMax = 100

// loginOf returns the user who logged in, of a process; access.NoUID if that is unknown.
func loginOf(pid int) int {
	if pid <= 0 {
		return access.NoUID
	}
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/loginuid")
	if err != nil {
		return access.NoUID
	}
	uid, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 32) // 4294967295, for none, is out of range
	if err != nil {
		return access.NoUID
	}
	return int(uid)
}

// Names is the port to the accounts and groups that the files of the node do not have. known is false while that cannot be told. The
// methods may wait.
type Names interface {
	UserName(uid int) (name string, known bool)
	GroupName(gid int) (name string, known bool)
}

// accountNames caches the names of users and groups.
type accountNames struct {
	users, groups nameCache
	others        Names // nil: the files of the node have all
}

func (n *accountNames) user(uid int) string {
	return n.users.lookup(uid, func() (string, bool) {
		u, err := user.LookupId(strconv.Itoa(uid))
		switch {
		case err == nil:
			return u.Username, true
		case n.others == nil:
			return "", true
		}
		return n.others.UserName(uid)
	})
}

func (n *accountNames) group(gid int) string {
	return n.groups.lookup(gid, func() (string, bool) {
		g, err := user.LookupGroupId(strconv.Itoa(gid))
		switch {
		case err == nil:
			return g.Name, true
		case n.others == nil:
			return "", true
		}
		return n.others.GroupName(gid)
	})
}

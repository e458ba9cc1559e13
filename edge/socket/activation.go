package socket

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"github.com/coreos/go-systemd/v22/activation"
	"golang.org/x/sys/unix"

	"lockstep/core/ownership"
)

// Activation opens the unix sockets of a daemon, or takes those that systemd has passed to it. A listening socket that systemd has passed
// is used again, because clients may wait in its queue: systemd listens on it (sd_listen_fds(3)), or has kept it for the former daemon
// (FDSTORE of sd_notify(3)). systemd keeps the sockets during a restart, and closes them when the service is stopped.
type Activation struct {
	passed map[string]*net.UnixListener // by resolved path; taken ones are removed
	notify string                       // path of systemd's socket; "": systemd has not started this process
}

// Activate takes the sockets that systemd has passed to this process, and removes the variables of
// the environment for them. It closes a socket that is not at one of the wanted paths, and
// makes systemd forget it: clients would wait there for ever. wanted has the name of each socket by its path.
func Activate(wanted map[string]string) (*Activation, error) {
	a := &Activation{passed: map[string]*net.UnixListener{}, notify: os.Getenv("NOTIFY_SOCKET")}
	names := map[string]string{}
	for path, name := range wanted {
		names[resolve(path)] = name
	}
	var errs []error
	for _, file := range activation.Files(true) {
		listener, err := net.FileListener(file) // a copy
		errs = append(errs, err, file.Close())
		if err != nil {
			continue
		}
		local, ok := listener.(*net.UnixListener)
		path := ""
		if ok {
			path = resolve(local.Addr().String())
		}
		if _, isWanted := names[path]; isWanted && isSocket(path) && a.passed[path] == nil {
			local.SetUnlinkOnClose(false)
			a.passed[path] = local
			continue
		}
		errs = append(errs, listener.Close(), a.send("FDSTOREREMOVE=1\nFDNAME="+file.Name(), nil))
	}
	return a, errors.Join(errs...)
}

// Listen returns the socket that systemd has passed for the path, or listens as ListenUnix does. It
// asks systemd to keep the socket for the next daemon; then the socket is not removed when it is closed.
func (a *Activation) Listen(path, name string, owner ownership.Attributes) (net.Listener, error) {
	key := resolve(path)
	listener, passed := a.passed[key]
	if passed {
		delete(a.passed, key)
		if err := setOwner(path, owner); err != nil {
			return nil, errors.Join(err, listener.Close())
		}
	} else {
		opened, err := ListenUnix(path, owner)
		if err != nil {
			return nil, err
		}
		local, ok := opened.(*net.UnixListener)
		if !ok {
			return opened, nil
		}
		listener = local
	}
	if a.notify == "" {
		return listener, nil
	}
	if err := a.keep(name, listener); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	listener.SetUnlinkOnClose(false)
	return listener, nil
}

// Close closes the sockets that were not taken.
func (a *Activation) Close() error {
	var errs []error
	for _, listener := range a.passed {
		errs = append(errs, listener.Close())
	}
	a.passed = nil
	return errors.Join(errs...)
}

// keep asks systemd to keep a socket. systemd ignores a socket that it has.
func (a *Activation) keep(name string, listener *net.UnixListener) error {
	raw, err := listener.SyscallConn()
	if err != nil {
		return err
	}
	controlErr := raw.Control(func(fd uintptr) {
		err = a.send("FDSTORE=1\nFDNAME="+name, unix.UnixRights(int(fd)))
	})
	return errors.Join(controlErr, err)
}

// send sends a message with descriptors to systemd. Without systemd it does nothing.
func (a *Activation) send(state string, rights []byte) error {
	if a.notify == "" {
		return nil
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = unix.Sendmsg(fd, []byte(state), rights, &unix.SockaddrUnix{Name: a.notify}, unix.MSG_NOSIGNAL)
		err = errors.Join(err, unix.Close(fd))
	}
	if err != nil {
		return fmt.Errorf("notify systemd: %w", err)
	}
	return nil
}

// resolve returns path with its directory free of symbolic links: /var/run is often a link to /run.
func resolve(path string) string {
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return path
	}
	return filepath.Join(dir, filepath.Base(path))
}

func isSocket(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode().Type() == fs.ModeSocket
}

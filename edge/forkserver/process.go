package forkserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"lockstep/edge/pidfd"
)

// process is one process of the fork server. A goroutine reads its messages until it ends.
type process struct {
	pid   int
	conn  *net.UnixConn
	done  chan struct{}     // closed when it has ended and was reaped
	files []fileVersion     // that it has loaded
	off   map[string]string // repairs that it does not make, and why

	ready chan error // one value: nil, or why it cannot be used

	mu       sync.Mutex
	last     uint64                         // number of the last request
	requests map[uint64]chan answer         // without an answer
	exits    map[int]chan<- unix.WaitStatus // of children that live, by pid
	retired  bool
}

// Child is a process that the fork server has made.
type Child struct {
	PID     int
	Process *pidfd.Process // the caller closes it
	exit    <-chan unix.WaitStatus
}

// exitTimeout is how long the status of an ended child may take: the fork server reaps it, and may wait for a processor on a busy machine.
const exitTimeout = 10 * time.Second

// Status returns how the child has ended. The caller waits for the end first. false: the fork server has ended and cannot tell.
func (c *Child) Status() (unix.WaitStatus, bool) {
	select {
	case status, known := <-c.exit:
		return status, known
	case <-time.After(exitTimeout):
		return 0, false
	}
}

// message is a message of the fork server. The keys that are present say which one it is.
type message struct {
	Files    []fileVersion     `json:"files"`
	Ready    bool              `json:"ready"`
	Off      map[string]string `json:"off"`
	Unusable string            `json:"unusable"`
	Request  uint64            `json:"request"`
	PID      int               `json:"pid"`
	Error    string            `json:"error"`
	Status   *uint32           `json:"status"`
}

// request is a message to the fork server. After its JSON come a line feed and the environment.
type request struct {
	Request     uint64 `json:"request"`
	Job         int64  `json:"job"`
	environment []string
}

type answer struct {
	child *Child
	err   error
}

const messageMax = 256 << 10 // bytes

// titleRoom is the length of an argument that keeps room for the title of a child: the job's id.
const titleRoom = 24

// start starts a fork server and waits until it has loaded the program, or until stop is closed.
func start(c Config, stop <-chan struct{}) (*process, error) {
	program, err := writeProgram(c.Dir)
	if err != nil {
		return nil, err
	}
	p, err := spawn(c, program)
	if err != nil {
		return nil, err
	}
	select {
	case err = <-p.ready:
	case <-stop:
		err = errors.New("the daemon ends")
	case <-time.After(readyTimeout):
		err = fmt.Errorf("the program was not loaded in %s", readyTimeout)
	}
	if err != nil {
		p.end()
		return nil, err
	}
	return p, nil
}

func spawn(c Config, program string) (*process, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make a pair of sockets: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "fork server"), os.NewFile(uintptr(pair[1]), "daemon")
	defer ours.Close()
	defer theirs.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		return nil, fmt.Errorf("use a pair of sockets: %w", err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	defer null.Close()
	fd := -1
	args := []string{c.Python, program, c.Python, c.Script, strings.Join(c.Repairs, ","), strings.Repeat("-", titleRoom)}
	started, err := c.Start(c.Python, args, c.Environment, []*os.File{null, null, c.Stderr, theirs}, &fd)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start the fork server: %w", err), conn.Close())
	}
	if fd >= 0 {
		_ = unix.Close(fd) // the process is reaped by read, and killed before that
	}
	p := &process{pid: started.Pid, conn: conn.(*net.UnixConn), done: make(chan struct{}), ready: make(chan error, 1),
		requests: map[uint64]chan answer{}, exits: map[int]chan<- unix.WaitStatus{}}
	go p.read(started)
	return p, nil
}

// read handles the messages of the process until it ends or sends something invalid, and reaps it. Its children live, and those who wait
// for their ends are told that these are not known.
func (p *process) read(started *os.Process) {
	buffer, rights := make([]byte, messageMax), make([]byte, unix.CmsgSpace(4*4))
	var err error
	for err == nil {
		var n, rightsLen, flags int
		n, rightsLen, flags, _, err = p.conn.ReadMsgUnix(buffer, rights)
		if err == nil && n == 0 {
			err = errors.New("the process has ended")
		}
		if err == nil {
			err = p.take(buffer[:n], rights[:rightsLen], flags)
		}
	}
	_ = p.conn.Close()
	_ = started.Kill() // its children live
	_, _ = started.Wait()
	select {
	case p.ready <- err:
	default:
	}
	p.mu.Lock()
	for _, exit := range p.exits {
		close(exit)
	}
	p.exits = nil
	p.mu.Unlock()
	// Last: a request that still waits for an answer learns from this that none will come.
	close(p.done)
}

// take handles one message. An error means that the sender is no fork server.
func (p *process) take(data, rights []byte, flags int) error {
	descriptors, err := descriptorsOf(rights)
	if err != nil || flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
		closeAll(descriptors)
		return errors.Join(errors.New("a message is too long"), err)
	}
	var m message
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&m); err != nil {
		closeAll(descriptors)
		return fmt.Errorf("a message is invalid: %w", err)
	}
	if m.Request != 0 {
		return p.takeAnswer(m, descriptors)
	}
	if len(descriptors) > 0 {
		closeAll(descriptors)
		return errors.New("a message has descriptors")
	}
	switch {
	case m.Unusable != "":
		return errors.New(m.Unusable)
	case m.Files != nil:
		p.files = append(p.files, m.Files...)
	case m.Ready:
		p.off = m.Off
		p.ready <- nil
	case m.PID > 0 && m.Status != nil:
		p.mu.Lock()
		exit := p.exits[m.PID]
		delete(p.exits, m.PID)
		p.mu.Unlock()
		if exit != nil {
			exit <- unix.WaitStatus(*m.Status)
		}
	default:
		return errors.New("a message has no meaning")
	}
	return nil
}

// takeAnswer passes the fork server's answer, a child or an error, to the request that waits for it. An answer without such a request
// means that the fork server cannot be trusted.
func (p *process) takeAnswer(m message, descriptors []int) error {
	p.mu.Lock()
	waiter := p.requests[m.Request]
	delete(p.requests, m.Request)
	p.mu.Unlock()
	if waiter == nil {
		closeAll(descriptors)
		return errors.New("an answer belongs to no request")
	}
	if m.Error != "" {
		closeAll(descriptors)
		waiter <- answer{err: &RefusedError{m.Error}}
		return nil
	}
	if m.PID <= 0 || len(descriptors) != 1 || !isPidfd(descriptors[0], m.PID) {
		closeAll(descriptors)
		return errors.New("an answer names no process")
	}
	child, err := pidfd.FromDescriptor(descriptors[0], m.PID)
	if err != nil {
		return err
	}
	exit := make(chan unix.WaitStatus, 1)
	p.mu.Lock()
	// Before the answer is handed on: the child may have ended already, and its status is the next message.
	p.exits[m.PID] = exit
	p.mu.Unlock()
	waiter <- answer{child: &Child{PID: m.PID, Process: child, exit: exit}}
	return nil
}

// fork asks the fork server for a child that runs a job, with this environment and these files as its standard streams, and waits for the
// answer. The error is ErrNotReady or a *RefusedError if there is no child, and ErrUnanswered if there may be one.
func (p *process) fork(job int64, environment []string, files [3]*os.File) (*Child, error) {
	result := make(chan answer, 1)
	p.mu.Lock()
	p.last++
	r := request{Request: p.last, Job: job, environment: environment}
	usable := !p.retired
	if usable {
		// Registered before it is sent, because the answer may come at once.
		p.requests[r.Request] = result
	}
	p.mu.Unlock()
	if !usable {
		return nil, ErrNotReady
	}
	if err := p.send(r, files); err != nil {
		p.mu.Lock()
		delete(p.requests, r.Request)
		p.mu.Unlock()
		return nil, &RefusedError{err.Error()} // a message is sent whole, or not at all
	}
	select {
	case a := <-result:
		return a.child, a.err
	case <-p.done:
		select {
		case a := <-result: // it came before the end
			return a.child, a.err
		default:
			return nil, ErrUnanswered
		}
	case <-time.After(answerTimeout):
		return nil, ErrUnanswered
	}
}

func (p *process) send(r request, files [3]*os.File) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	data = append(data, '\n')
	for _, variable := range r.environment {
		data = append(append(data, variable...), 0)
	}
	if len(data) > messageMax {
		return errors.New("the environment is too long")
	}
	descriptors := make([]int, len(files))
	for i, f := range files {
		descriptors[i] = int(f.Fd())
	}
	if err := p.conn.SetWriteDeadline(time.Now().Add(answerTimeout)); err != nil {
		return err
	}
	_, _, err = p.conn.WriteMsgUnix(data, unix.UnixRights(descriptors...), nil)
	return err
}

// used returns how many requests the process has been sent, which decides when a new one takes its place.
func (p *process) used() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return int(p.last)
}

// retire lets the process answer what it was asked, and end after the last of its children.
func (p *process) retire() {
	p.mu.Lock()
	p.retired = true
	p.mu.Unlock()
	// After retired is set, so that no request is sent into the closed side.
	_ = p.conn.CloseWrite()
}

// end kills the process, and waits for its end. Its children live.
func (p *process) end() {
	_ = p.conn.SetReadDeadline(time.Now()) // read kills it
	<-p.done
}

// descriptorsOf returns the descriptors of a message, which close at exec. With an error it returns those that it has read.
func descriptorsOf(rights []byte) (descriptors []int, err error) {
	if len(rights) == 0 {
		return nil, nil
	}
	controls, err := unix.ParseSocketControlMessage(rights)
	if err != nil {
		return nil, err
	}
	for _, control := range controls {
		fds, err := unix.ParseUnixRights(&control)
		if err != nil {
			return descriptors, err
		}
		for _, fd := range fds {
			unix.CloseOnExec(fd)
		}
		descriptors = append(descriptors, fds...)
	}
	return descriptors, nil
}

func closeAll(descriptors []int) {
	for _, fd := range descriptors {
		_ = unix.Close(fd)
	}
}

// isPidfd reports whether the descriptor is a pidfd of the process, or of a process that was reaped: the kernel names that one -1. The fork
// server may reap a child before the daemon reads the answer that names it.
func isPidfd(fd, pid int) bool {
	content, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", fd))
	if err != nil {
		return false
	}
	lines := strings.Split(string(content), "\n")
	return slices.Contains(lines, fmt.Sprintf("Pid:\t%d", pid)) || slices.Contains(lines, "Pid:\t-1")
}

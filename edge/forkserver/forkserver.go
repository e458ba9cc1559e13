// Package forkserver starts Ganeti's job processes by fork. A separate process, the fork server, has Ganeti's job program
// loaded, and each child runs that program for one job. An executed process loads it for 200 ms of processor time.
//
// The package owns the process of the fork server and the program that it runs, which is written to a directory for this user alone.
// It may be asked for a child for a job. The answer is the child with its pidfd, or an error that says whether a child may
// exist. The caller then executes the program as without a fork server.
//
// Daemon and fork server speak over a pair of sockets that has no name. The fork server ends with the daemon. Its children lead
// sessions, survive both, and are adopted by the next daemon. Nothing else survives a crash: the next daemon starts a fork server.
package forkserver

import (
	"errors"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
)

const (
	// childrenMax is the number of children after which a new fork server takes the place of the old one.
	childrenMax = 2000
	// answerTimeout is how long a fork server may take to answer. It may read a large configuration first.
	answerTimeout = 30 * time.Second
	// readyTimeout is how long a fork server may take to load the program.
	readyTimeout = 2 * time.Minute
	// retryPause is the pause after a fork server that has failed.
	retryPause = 10 * time.Second
)

// Config is what the fork server loads and how its process is started.
type Config struct {
	Log         *logrus.Logger
	Python      string   // interpreter, an absolute path
	Script      string   // Ganeti's job program, an absolute path
	Dir         string   // of the fork server's own program; it is made, in a directory that only this user can change
	Environment []string // of the fork server
	Stderr      *os.File
	Repairs     []string // of Repairs()
	// Start starts a process with the descriptors 0 and up, in a new session. It sets pidFD to a pidfd, or to -1.
	Start func(program string, args, environment []string, files []*os.File, pidFD *int) (*os.Process, error)
}

// Repairs are the names of the changes that a fork server can make to Ganeti's program. Each is made only to the known version of
// the function that it changes.
func Repairs() []string { return []string{"certificates", "lock-wait", "configuration"} }

// ErrNotReady: no child was asked for, because no fork server is ready.
var ErrNotReady = errors.New("the fork server is not ready")

// ErrUnanswered: a child was asked for, and no answer came. A child may exist that has the descriptors of the request. The fork server
// has been killed.
var ErrUnanswered = errors.New("the fork server has not answered")

// RefusedError: the fork server has made no child.
type RefusedError struct{ Text string }

func (e *RefusedError) Error() string { return "the fork server has made no process: " + e.Text }

// Server runs the fork server: it starts its process, asks it for children, and replaces it when it fails. Its methods may be called from
// several goroutines at once.
type Server struct {
	config      Config
	childrenMax int // of one process

	mu       sync.Mutex
	current  *process // takes requests; nil: none
	starting bool     // a process loads the program
	retryAt  time.Time
	running  map[*process]bool // also those that take no more requests
	stop     chan struct{}     // closed by Close
	loads    sync.WaitGroup
}

// New returns a Server and starts to load the program.
func New(c Config) *Server {
	s := &Server{config: c, childrenMax: childrenMax, running: map[*process]bool{}, stop: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.startLocked()
	return s
}

// Close ends the fork server and removes its program. It does nothing to its children, and nothing on nil. It is called once.
func (s *Server) Close() {
	if s == nil {
		return
	}
	s.mu.Lock()
	close(s.stop)
	s.mu.Unlock()
	s.loads.Wait()
	s.mu.Lock()
	s.current = nil
	running := slices.Collect(maps.Keys(s.running))
	s.mu.Unlock()
	for _, p := range running {
		p.end()
	}
	if err := os.RemoveAll(s.config.Dir); err != nil { // a crash leaves it, and the next daemon takes it
		s.config.Log.WithFields(logrus.Fields{"path": s.config.Dir, "err": err}).Warn("removal of the fork server's program failed")
	}
}

// closed reports whether Close was called.
func (s *Server) closed() bool {
	select {
	case <-s.stop:
		return true
	default:
		return false
	}
}

// Ready reports whether a fork server takes requests.
func (s *Server) Ready() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current != nil
}

// Fork makes a child for a job, with descriptors 0 to 2. The environment is the complete one of the child. Errors: ErrNotReady,
// ErrUnanswered and RefusedError; only after ErrUnanswered a child may exist.
func (s *Server) Fork(job int64, environment []string, files [3]*os.File) (*Child, error) {
	p := s.usable()
	if p == nil {
		return nil, ErrNotReady
	}
	child, err := p.fork(job, environment, files)
	if refused := (*RefusedError)(nil); errors.As(err, &refused) {
		s.config.Log.WithFields(logrus.Fields{"job": job, "pid": p.pid, "err": refused.Text}).Warn("the fork server makes no process")
	}
	if errors.Is(err, ErrUnanswered) {
		s.config.Log.WithFields(logrus.Fields{"job": job, "pid": p.pid}).Error("the fork server does not answer; it is killed")
		s.discard(p)
	}
	return child, err
}

// Distrust replaces the fork server, because a child of it has not done what an executed process does.
func (s *Server) Distrust() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != nil {
		s.current.retire()
		s.current, s.retryAt = nil, time.Now().Add(retryPause)
	}
}

// usable returns the process that takes requests; nil if there is none, or if the files of the program have changed since it has loaded
// them. It starts the next one if that is due.
func (s *Server) usable() *process {
	s.mu.Lock()
	p := s.current
	if p == nil {
		s.startLocked()
	}
	s.mu.Unlock()
	if p == nil {
		return nil
	}
	if path := p.changedFile(); path != "" {
		s.config.Log.WithFields(logrus.Fields{"path": path, "pid": p.pid}).
			Info("a file of Ganeti's job program has changed; the fork server is replaced")
		s.mu.Lock()
		if s.current == p {
			s.current = nil
		}
		s.startLocked()
		s.mu.Unlock()
		p.retire()
		return nil
	}
	if p.used() >= s.childrenMax {
		s.mu.Lock()
		s.startLocked()
		s.mu.Unlock()
	}
	return p
}

// startLocked starts to load the program unless that is under way, or too early after a failure.
func (s *Server) startLocked() {
	if s.starting || s.closed() || time.Now().Before(s.retryAt) {
		return
	}
	s.starting = true
	s.loads.Go(s.load)
}

// load starts a process and waits until it is ready. Then it is the current one, and the former one takes no more requests. After a
// failure the current one stays, and the next try is after retryPause.
func (s *Server) load() {
	p, err := start(s.config, s.stop)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.starting = false
	if p == nil && s.closed() {
		return
	}
	if err != nil {
		s.config.Log.WithField("err", err).Warn("the fork server cannot be used; job processes are executed")
		s.retryAt = time.Now().Add(retryPause)
		return
	}
	for repair, reason := range p.off {
		s.config.Log.WithFields(logrus.Fields{"repair": repair, "err": reason}).Warn("a repair of Ganeti's job program is off")
	}
	s.config.Log.WithFields(logrus.Fields{"pid": p.pid, "files": len(p.files)}).Info("the fork server is ready")
	if s.current != nil {
		s.current.retire()
	}
	s.current, s.running[p] = p, true
	go s.watch(p)
}

// watch starts the next process after the end of one that was in use. After one that has served nothing it waits for retryPause.
func (s *Server) watch(p *process) {
	<-p.done
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.running, p)
	if s.current != p {
		return
	}
	s.current = nil
	if !s.closed() {
		s.config.Log.WithField("pid", p.pid).Warn("the fork server has ended")
		if p.used() == 0 {
			s.retryAt = time.Now().Add(retryPause)
		}
		s.startLocked()
	}
}

// discard kills a process that is in an unknown state. It is not used any longer; the next start waits for retryPause.
func (s *Server) discard(p *process) {
	s.mu.Lock()
	if s.current == p {
		s.current, s.retryAt = nil, time.Now().Add(retryPause)
	}
	s.mu.Unlock()
	p.end()
}

package rapi

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
)

// access is what an operation asks of who calls it.
type access int

const (
	accessAnybody access = iota // never asks: nothing is told that one could not see from outside
	accessGuest                 // asks nothing, unless everybody must log in
	accessRead                  // option read or write
	accessWrite
)

// errUnauthorized does not say what was wrong.
var errUnauthorized = &Failure{Code: http.StatusUnauthorized}

// login finds out who calls, and whether they may. Credentials that are sent are
// looked at even where none are needed.
func (s *Server) login(r *http.Request, need access) (name string, err error) {
	if need == accessAnybody {
		return "", nil
	}
	header := r.Header.Get("Authorization")
	if header == "" {
		if need == accessGuest && !s.config.RequireAuthentication {
			return "", nil
		}
		return "", errUnauthorized
	}
	name, password, basic := r.BasicAuth()
	if !basic {
		return "", errUnauthorized
	}
	u, ok := s.users.current().Check(name, password)
	source := sourceOf(r)
	if !ok {
		delay := s.failed.note(source, time.Now())
		s.metrics.logins.Inc()
		s.config.Log.WithFields(logrus.Fields{"user": shortened(name), "from": source, "op": r.Method + " " + shortened(r.URL.Path)}).
			Warn("a login over the remote API has failed")
		s.penalise(r.Context(), delay)
		return "", errUnauthorized
	}
	allowed := map[access]bool{accessGuest: true, accessRead: u.read || u.write, accessWrite: u.write}
	if !allowed[need] {
		return name, &Failure{Code: http.StatusForbidden}
	}
	return name, nil
}

func sourceOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// penalise holds back the answer to a failed login. There is a bound to how many
// are; beyond it connections are cut off, which is slow as well for who guesses.
func (s *Server) penalise(ctx context.Context, d time.Duration) {
	select {
	case s.penalties <- struct{}{}:
		defer func() { <-s.penalties }()
	default:
		panic(http.ErrAbortHandler)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// Bounds of the pause after a failed login.
const (
	pauseFirst  = 100 * time.Millisecond
	pauseMost   = 3 * time.Second
	forgetAfter = time.Minute // without a failure
	sourcesMax  = 4096
	// penaltiesMax bounds the answers that are held back at a time.
	penaltiesMax = 500
)

// failures slows down who guesses passwords: each failed login from an address is
// answered later than the one before. Nobody else is held up, not even others at
// the same address who know theirs.
type failures struct {
	mu      sync.Mutex
	sources map[string]guesses
}

type guesses struct {
	number int
	last   time.Time
}

func newFailures() *failures { return &failures{sources: map[string]guesses{}} }

// note is how long the answer to a failed login is to wait.
func (f *failures) note(source string, now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	g := f.sources[source]
	if now.Sub(g.last) > forgetAfter {
		g = guesses{}
	}
	if len(f.sources) >= sourcesMax {
		f.forget(now)
	}
	delay := min(pauseFirst<<min(g.number, 10), pauseMost)
	f.sources[source] = guesses{g.number + 1, now}
	return delay
}

// forget makes room: first what is old, and then whatever comes.
func (f *failures) forget(now time.Time) {
	for source, g := range f.sources {
		if now.Sub(g.last) > forgetAfter {
			delete(f.sources, source)
		}
	}
	for source := range f.sources {
		if len(f.sources) < sourcesMax {
			return
		}
		delete(f.sources, source)
	}
}

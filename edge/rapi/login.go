package rapi

import (
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
)

// access is the permission that an operation requires. The zero value is the strictest, so that
// an operation without one is not open to all.
type access int

const (
	accessWrite  access = iota
	accessRead          // option read or write
	accessGuest         // any user; also without a login, if none is required
	accessPublic        // always allowed: the answer says nothing about jobs
)

// errUnauthorized does not say whether name or password is wrong.
var errUnauthorized = &Failure{Code: http.StatusUnauthorized}

// login authenticates the caller and checks the required access. It checks credentials that
// are sent even if none are required.
func (s *Server) login(r *http.Request, required access) (name string, err error) {
	if required == accessPublic {
		return "", nil
	}
	header := r.Header.Get("Authorization")
	if header == "" {
		if required == accessGuest && !s.config.RequireAuthentication {
			return "", nil
		}
		return "", errUnauthorized
	}
	name, password, basic := r.BasicAuth()
	if !basic || name == "" {
		return "", errUnauthorized
	}
	u, ok, wait := s.check(sourceAddress(r), name, password)
	switch {
	case wait > 0:
		s.logLoginFailure(r, name, true)
		return "", &Failure{Code: http.StatusTooManyRequests, Message: "Too many logins have failed; try again later",
			RetryAfter: int((wait + time.Second - 1) / time.Second)}
	case !ok:
		s.metrics.logins.Inc()
		s.logLoginFailure(r, name, false)
		return "", errUnauthorized
	}
	allowed := map[access]bool{accessGuest: true, accessRead: u.read || u.write, accessWrite: u.write}
	if !allowed[required] {
		return name, &Failure{Code: http.StatusForbidden}
	}
	return name, nil
}

func (s *Server) logLoginFailure(r *http.Request, name string, refused bool) {
	s.loginLog.record(refused, logrus.Fields{"user": truncated(name), "address": sourceAddress(r), "request": truncated(r.Method) + " " + truncated(r.URL.Path)})
}

func sourceAddress(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// loginChecker checks one login at a time, so that concurrent guesses gain nothing.
type loginChecker struct {
	mu       sync.Mutex
	throttle *throttle
	now      func() time.Time
}

// check looks up a user, unless the throttle refuses this login.
func (s *Server) check(source, name, password string) (u User, ok bool, wait time.Duration) {
	users := s.users.current()
	a := newLoginAttempt(source, name)
	l := &s.logins
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if wait = l.throttle.wait(a, now); wait > 0 {
		return User{}, false, wait
	}
	if u, ok = users.Check(name, password); ok {
		l.throttle.recordLogin(a, now)
	} else {
		l.throttle.recordFailure(a, now)
	}
	return u, ok, 0
}

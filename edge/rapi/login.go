package rapi

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
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
	if r.Header.Get("Authorization") == "" {
		if required == accessGuest && !s.config.RequireAuthentication {
			return "", nil
		}
		return "", errUnauthorized
	}
	name, u, err := s.logins.Check(r)
	if err == errUnauthorized && name != "" { //nolint:errorlint // the very value is the sign
		s.metrics.logins.Inc()
	}
	if err != nil {
		return "", err
	}
	allowed := map[access]bool{accessGuest: true, accessRead: u.read || u.write, accessWrite: u.write}
	if !allowed[required] {
		return name, &Failure{Code: http.StatusForbidden}
	}
	return name, nil
}

// Logins checks the users of the remote API. It owns the counters of failed logins, which its servers share.
type Logins struct {
	users *usersFile
	log   loginLog

	// mu: one login is checked at a time, so that concurrent guesses gain nothing.
	mu       sync.Mutex
	throttle *throttle
	now      func() time.Time
}

// NewLogins returns the logins of a users file.
func NewLogins(users string, log *logrus.Logger) *Logins {
	return &Logins{users: newUsersFile(users, log), log: loginLog{log: log}, throttle: newThrottle(countersMax), now: time.Now}
}

// Load reads the users file, and logs what is wrong with it.
func (l *Logins) Load() { _ = l.users.current() }

// Check checks the credentials of a request. The error is a *Failure. The name is also returned with an error, if there is one.
func (l *Logins) Check(r *http.Request) (name string, u User, err error) {
	name, password, basic := r.BasicAuth()
	if !basic || name == "" {
		return "", User{}, errUnauthorized
	}
	u, ok, wait := l.check(sourceAddress(r), name, password)
	switch {
	case wait > 0:
		l.record(r, name, true)
		return name, User{}, &Failure{Code: http.StatusTooManyRequests, Message: "Too many logins have failed; try again later",
			RetryAfter: int((wait + time.Second - 1) / time.Second)}
	case !ok:
		l.record(r, name, false)
		return name, User{}, errUnauthorized
	}
	return name, u, nil
}

// CheckPassword checks a name and a password that a form has sent. The errors are those of Check.
func (l *Logins) CheckPassword(r *http.Request, name, password string) (User, error) {
	u, ok, wait := l.check(sourceAddress(r), name, password)
	switch {
	case wait > 0:
		l.record(r, name, true)
		return User{}, &Failure{Code: http.StatusTooManyRequests, Message: "Too many logins have failed; try again later",
			RetryAfter: int((wait + time.Second - 1) / time.Second)}
	case !ok || name == "":
		l.record(r, name, false)
		return User{}, errUnauthorized
	}
	return u, nil
}

// Find returns the user with that name who can log in.
func (l *Logins) Find(name string) (User, bool) {
	u, known := l.users.current()[name]
	return u, known && u.secret != nil
}

// Proof binds a session to the password: it changes with the password, and tells nothing of it without the key.
func (u User) Proof(key []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write(u.secret)
	return hex.EncodeToString(mac.Sum(nil))
}

// MayWrite reports whether the user may change something.
func (u User) MayWrite() bool { return u.write }

// MayRead reports whether the user may see the jobs.
func (u User) MayRead() bool { return u.read || u.write }

func (l *Logins) record(r *http.Request, name string, refused bool) {
	l.log.record(refused, logrus.Fields{"user": truncated(name), "address": sourceAddress(r), "request": truncated(r.Method) + " " + truncated(r.URL.Path)})
}

func sourceAddress(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// check looks up a user, unless the throttle refuses this login.
func (l *Logins) check(source, name, password string) (u User, ok bool, wait time.Duration) {
	users := l.users.current()
	a := newLoginAttempt(source, name)
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

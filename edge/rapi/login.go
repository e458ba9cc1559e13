package rapi

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"lockstep/core/budget"
	"lockstep/edge/admission"
	"lockstep/edge/ratelog"
	"lockstep/edge/tlsserver"
)

// access is the permission that an operation requires. The zero value is the strictest, so that
// an operation without one is not open to all.
type access int

const (
	accessWrite  access = iota
	accessRead          // option read or write
	accessGuest         // any user; also without a login, if none is required
	accessPublic        // always allowed: the answer says nothing about jobs
	// accessSubmit is accessWrite for a GET that submits a job of Ganeti: as for any change, a page of another site may not send it, and
	// it leaves a line.
	accessSubmit
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
	if !u.may(required) {
		return name, &Failure{Code: http.StatusForbidden}
	}
	return name, nil
}

// may reports whether a user who has logged in has an access.
func (u User) may(required access) bool {
	return map[access]bool{accessPublic: true, accessGuest: true, accessRead: u.read || u.write, accessWrite: u.write, accessSubmit: u.write}[required]
}

// isStillAllowed reports whether the user of a request that was authorised may still make it: the users file has the same name and password, with
// the option for it. It is no attempt to log in, so it counts as none.
func (s *Server) isStillAllowed(c *call) bool {
	name, password, _ := c.BasicAuth()
	if name == "" {
		return true // a guest
	}
	u, ok := s.logins.users.current().Check(name, password)
	return ok && u.may(c.access)
}

// Logins checks the users of the remote API. It owns the counters of failed logins, which its servers share.
type Logins struct {
	users *usersFile
	log   *ratelog.Log

	// mu: one password is checked at a time, so that concurrent guesses gain nothing.
	mu       sync.Mutex
	throttle *throttle
	waiting  map[loginAttempt]bool // a check waits for its pause
	now      func() time.Time
}

// NewLogins returns the logins of a users file.
func NewLogins(users string, log *logrus.Logger) *Logins {
	return &Logins{users: newUsersFile(users, log), log: ratelog.New(log, logrus.WarnLevel, "remote API: login failed", "failed", "refused"), throttle: newThrottle(countersMax), waiting: map[loginAttempt]bool{}, now: time.Now}
}

// Load reads the users file, and logs what is wrong with it.
func (l *Logins) Load() { _ = l.users.current() }

// Check checks the credentials of a request. The error is a *Failure. The name is also returned with an error, if there is one.
func (l *Logins) Check(r *http.Request) (name string, u User, err error) {
	name, password, basic := r.BasicAuth()
	if !basic || name == "" {
		return "", User{}, errUnauthorized
	}
	u, err = l.CheckPassword(r, name, password)
	return name, u, err
}

// CheckPassword checks a name and a password that a form has sent. It waits for the pause after failures of that name at the client of
// the request; one check of a name waits there at a time. The errors are those of Check.
func (l *Logins) CheckPassword(r *http.Request, name, password string) (User, error) {
	u, ok, checked, pause := l.check(r.Context(), clientOf(r), name, password)
	switch {
	case ok && name != "":
		return u, nil
	case !checked:
		l.record(r, name, true)
		return User{}, tooMany("Too many logins have failed; try again later", pause)
	case pause >= pauseMax:
		l.record(r, name, false)
		return User{}, tooMany("The name or the password is wrong, and too many logins have failed; wait before you try again", pause)
	}
	l.record(r, name, false)
	return User{}, errUnauthorized
}

func tooMany(message string, pause time.Duration) *Failure {
	return &Failure{Code: http.StatusTooManyRequests, Message: message, RetryAfter: int((pause + time.Second - 1) / time.Second)}
}

// clientOf is the client of a request, as its listener knows it.
func clientOf(r *http.Request) budget.Client {
	if q := tlsserver.RequestOf(r.Context()); q != nil {
		return q.Origin()
	}
	return admission.Address(r.RemoteAddr)
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
	count := "failed"
	if refused {
		count = "refused"
	}
	l.log.Record(count, logrus.Fields{"user": truncated(name), "address": sourceAddress(r), "request": truncated(r.Method) + " " + truncated(r.URL.Path)})
}

func sourceAddress(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// check looks up a user when the pause after failures is over. checked is false if another login of the same name and client waits
// already, or ctx has ended. pause is how long the next login there has to wait.
func (l *Logins) check(ctx context.Context, client budget.Client, name, password string) (u User, ok, checked bool, pause time.Duration) {
	users := l.users.current()
	a := newLoginAttempt(client, name)
	l.mu.Lock()
	defer l.mu.Unlock()
	if pause = l.throttle.wait(a, l.now()); pause > 0 || l.waiting[a] {
		if l.waiting[a] || !l.await(ctx, a, pause) {
			return User{}, false, false, max(pause, time.Second)
		}
	}
	if u, ok = users.Check(name, password); ok {
		return u, true, true, 0
	}
	now := l.now()
	l.throttle.recordFailure(a, now)
	return User{}, false, true, l.throttle.wait(a, now)
}

// await waits for a pause, without the mutex, which the caller holds. It reports false if ctx ends first.
func (l *Logins) await(ctx context.Context, a loginAttempt, pause time.Duration) bool {
	l.waiting[a] = true
	l.mu.Unlock()
	defer admission.WaiterOf(ctx).Wait()()
	timer := time.NewTimer(pause)
	defer timer.Stop()
	over := true
	select {
	case <-timer.C:
	case <-ctx.Done():
		over = false
	}
	l.mu.Lock()
	delete(l.waiting, a)
	return over
}

// Package login checks the names and passwords of the users of the remote API, for all servers that these users log in to: the remote API
// itself, the console and MonD. The users are those of a file of the operator, which is read again when it changes (queue.md 6.2).
//
// It is an edge. It owns the counters of failed logins, which the servers share, and the pauses that follow from them. Nothing of it
// survives a crash.
package login

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"lockstep/core/budget"
	"lockstep/edge/admission"
	"lockstep/edge/ratelog"
	"lockstep/edge/tlsserver"
)

// ErrWrong refuses a login. It does not say whether name or password is wrong, or missing.
var ErrWrong = errors.New("the name or the password is wrong")

// TooManyError refuses a login because too many have failed.
type TooManyError struct {
	message string
	// RetryAfter is how long the next login has to wait, in whole seconds; at least 1.
	RetryAfter int
}

// Error is the text for the user who has tried too often.
func (e *TooManyError) Error() string { return e.message }

// Logins checks the logins of the users in a file, for all servers that share its counters of failed logins.
type Logins struct {
	users    *usersFile
	log      *ratelog.Log
	accounts FindAccount

	// mu: one password is checked at a time, so that concurrent guesses gain nothing.
	mu       sync.Mutex
	throttle *throttle
	waiting  map[attempt]bool // a check waits for its pause
}

// New returns the logins of the users in a file.
func New(users string, log *logrus.Logger) *Logins {
	return &Logins{
		users:    newUsersFile(users, log),
		accounts: accountOfMachine,
		log:      ratelog.New(log, logrus.WarnLevel, "remote API: login failed", "failed", "refused"),
		throttle: newThrottle(countersMax),
		waiting:  map[attempt]bool{},
	}
}

// Load reads the users file, and logs what is wrong with it.
func (l *Logins) Load() { _ = l.users.current() }

// Check checks the credentials of a request. The error is ErrWrong or a *TooManyError. The name is also returned with an error, if there
// is one.
func (l *Logins) Check(r *http.Request) (name string, u User, err error) {
	name, password, basic := r.BasicAuth()
	if !basic || name == "" {
		return "", User{}, ErrWrong
	}
	u, err = l.CheckPassword(r, name, password)
	return name, u, err
}

// CheckPassword checks a name and a password that a form has sent. It waits for the pause after failures of that name at the client of
// the request; while one check of a name waits there, further ones are refused. The errors are those of Check.
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
	return User{}, ErrWrong
}

func tooMany(message string, pause time.Duration) *TooManyError {
	return &TooManyError{message, int((pause + time.Second - 1) / time.Second)}
}

// clientOf is the client of a request, as its listener knows it.
func clientOf(r *http.Request) budget.Client {
	if q := tlsserver.RequestOf(r.Context()); q != nil {
		return q.Origin()
	}
	return admission.Address(r.RemoteAddr)
}

// Find returns the user with that name; false if there is none, or it cannot log in.
func (l *Logins) Find(name string) (User, bool) {
	u, known := l.users.current()[name]
	return u, known && u.secret != nil
}

// Lookup is Find for what is done later in the name of a user. The error says why the users file cannot be read now.
func (l *Logins) Lookup(name string) (User, bool, error) {
	u, known := l.Find(name)
	return u, known, l.users.failure()
}

func (l *Logins) record(r *http.Request, name string, refused bool) {
	count := "failed"
	if refused {
		count = "refused"
	}
	l.log.Record(count, logrus.Fields{"user": tlsserver.Truncated(name), "address": tlsserver.RemoteHost(r),
		"request": tlsserver.Truncated(r.Method) + " " + tlsserver.Truncated(r.URL.Path)})
}

// check looks up a user when the pause after failures is over. checked is false if another login of the same name and client waits
// already, or ctx has ended. pause is how long the next login there has to wait.
func (l *Logins) check(ctx context.Context, client budget.Client, name, password string) (u User, ok, checked bool, pause time.Duration) {
	users := l.users.current()
	a := newAttempt(client, name)
	l.mu.Lock()
	defer l.mu.Unlock()
	if pause = l.throttle.wait(a, time.Now()); pause > 0 || l.waiting[a] {
		if l.waiting[a] || !l.await(ctx, a, pause) {
			return User{}, false, false, max(pause, time.Second)
		}
	}
	if u, ok = users.Check(name, password); ok {
		return u, true, true, 0
	}
	now := time.Now()
	l.throttle.recordFailure(a, now)
	return User{}, false, true, l.throttle.wait(a, now)
}

// await waits for a pause, without the mutex, which the caller holds. It reports false if ctx ends first.
func (l *Logins) await(ctx context.Context, a attempt, pause time.Duration) bool {
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

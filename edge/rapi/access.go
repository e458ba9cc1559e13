package rapi

import (
	"errors"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"lockstep/edge/login"
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

// isGrantedTo reports whether a user who has logged in has an access. accessPublic and accessGuest are granted to all.
func (a access) isGrantedTo(u login.User) bool {
	return map[access]bool{
		accessPublic: true,
		accessGuest:  true,
		accessRead:   u.MayRead(),
		accessWrite:  u.MayWrite(),
		accessSubmit: u.MayWrite(),
	}[a]
}

// gate decides whether the sender of a request may make it, by name, password and the user's options.
type gate struct {
	logins   *login.Logins
	required bool               // clients without a login are refused everything about jobs
	failed   prometheus.Counter // logins with a wrong name or password
}

// authorize authenticates the caller and checks the required access. A public operation is granted without a look at the credentials; for
// any other one, credentials that are sent are checked even if none are required. Its errors are those of login.Logins.Check, and a
// *Failure for a user without the access.
func (g *gate) authorize(r *http.Request, required access) (name string, err error) {
	if required == accessPublic {
		return "", nil
	}
	if r.Header.Get("Authorization") == "" {
		if required == accessGuest && !g.required {
			return "", nil
		}
		return "", login.ErrWrong
	}
	name, u, err := g.logins.Check(r)
	if errors.Is(err, login.ErrWrong) && name != "" {
		g.failed.Inc()
	}
	if err != nil {
		return "", err
	}
	if !required.isGrantedTo(u) {
		return name, &Failure{Code: http.StatusForbidden}
	}
	return name, nil
}

// isStillAllowed reports whether the user of a request that was authorised may still make it: the users file has the same name and
// password, with the option for it. It is no attempt to log in, so it counts as none.
func (g *gate) isStillAllowed(c *call) bool {
	name, password, _ := c.BasicAuth()
	if name == "" {
		return true // a guest
	}
	u, _ := g.logins.Find(name)
	return u.HasPassword(password) && c.access.isGrantedTo(u)
}

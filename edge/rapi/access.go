package rapi

import (
	"errors"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"lockstep/core/access"
	"lockstep/edge/login"
)

// gate decides whether the sender of a request may make it, by name, password and the user's options.
type gate struct {
	logins   *login.Logins
	required bool               // clients without a login are refused everything about jobs
	failed   prometheus.Counter // logins with a wrong name or password
	// overSocket: the queue takes the requests of all users for those of an admin. What it would decide by the user is decided here, for
	// roles that need no decision of it.
	overSocket bool
}

// routeOf is an operation with the role that is needed to be permitted here. The queue decides the rest.
func (g *gate) routeOf(o *operation) access.Route {
	r := o.route
	switch {
	case g.overSocket && r.Own && !r.Defines:
		r.Role = access.Operate
	case g.overSocket && r.Role == access.Submit:
		r.Role = access.Admin
	}
	return r
}

// authorize authenticates the caller and checks that he has what the operation needs. One that needs nothing is granted without a look at
// the credentials; for any other one, credentials that are sent are checked even if none are required. Its errors are those of
// login.Logins.Check, and an *access.Refusal for a user without the role. The zero user has not logged in.
func (g *gate) authorize(r *http.Request, o *operation) (login.User, error) {
	route := g.routeOf(o)
	if route.Public {
		return login.User{}, nil
	}
	if r.Header.Get("Authorization") == "" {
		if route.Role == access.None && !g.required {
			return login.User{}, nil
		}
		return login.User{}, login.ErrWrong
	}
	name, u, err := g.logins.Check(r)
	if errors.Is(err, login.ErrWrong) && name != "" {
		g.failed.Inc()
	}
	if err != nil {
		return login.User{}, err
	}
	return u, route.Refuse(u.Identity().String(), u.Role())
}

// isStillAllowed reports whether the user of a request that was authorised may still make it: the users file has the same name and
// password, with the role for it. It is no attempt to log in, so it counts as none.
func (g *gate) isStillAllowed(c *call) bool {
	name, password, _ := c.BasicAuth()
	if name == "" {
		return true // a guest
	}
	u, _ := g.logins.Find(name)
	return u.HasPassword(password) && u.Role() >= g.routeOf(&c.operation).Role
}

package console

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"lockstep/core/access"
	"lockstep/core/answer"
	"lockstep/core/session"
	"lockstep/edge/login"
	"lockstep/edge/rapi"
	"lockstep/edge/tlsserver"
)

const (
	// sessionFresh is the age from which a cached session is asked for again. Also while the queue does not answer it counts no longer: it may
	// have ended on another node.
	sessionFresh = 10 * time.Second
	sessionsKept = 4096
)

const idOctets = 32 // 256 bits

// user is who uses the console.
type user struct {
	Who  string // as in reason trails: "user=deploy"
	Name string // for people
	Role access.Role
	From access.Identity // of the account that has asked for the link, or of a user of the users file, without the account of as=
	// login is the user of the users file; zero: the login is by a link. It permits what the socket permits to its account.
	login login.User
}

// Reads reports whether the user may see the pages.
func (u user) Reads() bool { return u.Role >= access.Read }

// isByLink reports whether the login is by a link.
func (u user) isByLink() bool { return u.login.Name() == "" }

var errNoSession = errors.New("no session")

// sessionCache knows the sessions that browsers have shown lately. It asks for the user's role at each use: the users file and the grants
// may have changed.
type sessionCache struct {
	queue   rapi.Luxi
	logins  *login.Logins
	now     func() time.Time
	account login.FindAccount

	mu    sync.Mutex
	known map[string]cachedSession // by hash
}

type cachedSession struct {
	session   answer.Session
	checkedAt time.Time
	role      access.Role // last answer about the role of a link's account
}

func newSessionCache(queue rapi.Luxi, logins *login.Logins) *sessionCache {
	return &sessionCache{queue: queue, logins: logins, now: time.Now, account: logins.FindAccount, known: map[string]cachedSession{}}
}

// user is the user of a request's cookie, with the hash of the session. The error is errNoSession, or one of the queue.
func (s *sessionCache) user(r *http.Request, cookie string) (who user, hash string, err error) {
	if who, hash, err = s.owner(r, cookie); err == nil && who.isByLink() {
		who.Role, err = s.askRole(r.Context(), hash, who)
	}
	return who, hash, err
}

// owner is user without the role of a link's account, which the master knows.
func (s *sessionCache) owner(r *http.Request, cookie string) (user, string, error) {
	c, err := r.Cookie(cookie)
	if err != nil {
		return user{}, "", errNoSession
	}
	id, err := base64.RawURLEncoding.DecodeString(c.Value)
	if err != nil || len(id) != idOctets {
		return user{}, "", errNoSession
	}
	hash := session.HashOf(id)
	found, err := s.find(r.Context(), hash)
	if err != nil {
		return user{}, "", err
	}
	who, err := s.ownerOf(r.Context(), found, id)
	return who, hash, err
}

// hasAccount reports whether the account of a link is still there under its name. An account without a name cannot be looked up; it and an
// account at a time when accounts cannot be read count as there.
func (s *sessionCache) hasAccount(ctx context.Context, i access.Identity) bool {
	if i.Name == "" {
		return true
	}
	uid, known, err := s.account(ctx, i.Name)
	return err != nil || known && uid == i.UID
}

// ownerOf is the user of the session with this id. The error is errNoSession for a user who was removed, or has another password since the
// login, and for a link of a version that did not note its account.
func (s *sessionCache) ownerOf(ctx context.Context, found answer.Session, id []byte) (user, error) {
	if found.Name == "" { // by a link
		if found.Account == nil || !s.hasAccount(ctx, *found.Account) {
			return user{}, errNoSession
		}
		return user{Who: found.User, Name: shortUser(found.User), From: *found.Account}, nil
	}
	u, known := s.logins.Find(found.Name)
	if !known || u.Proof(id) != found.Proof {
		return user{}, errNoSession
	}
	return user{Who: found.User, Name: found.Name, Role: u.Role(), From: u.Identity(), login: u}, nil
}

// askRole asks the master for the role of the account of a link. While the queue does not answer it is the role of the last answer, as long
// as the session counts: it shows pages only, for the master decides about each change.
func (s *sessionCache) askRole(ctx context.Context, hash string, who user) (access.Role, error) {
	var told struct {
		Role access.Role `json:"role"`
	}
	data, err := s.queue.Call(rapi.WithCaller(ctx, who.Who, who.From), rapi.Short, "LockstepWhoAmI")
	if err == nil {
		err = json.Unmarshal(data, &told)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	cached, isCached := s.known[hash]
	if err != nil {
		if cached.role == access.None || !isAway(err) {
			return access.None, err
		}
		return cached.role, nil
	}
	if isCached {
		cached.role = told.Role
		s.known[hash] = cached
	}
	return told.Role, nil
}

func (s *sessionCache) find(ctx context.Context, hash string) (answer.Session, error) {
	s.mu.Lock()
	cached, isCached := s.known[hash]
	s.mu.Unlock()
	if isCached && s.now().Sub(cached.checkedAt) < sessionFresh {
		return cached.session, nil
	}
	var found answer.Session
	data, err := s.queue.Call(ctx, rapi.Short, "LockstepCheckSession", hash)
	if err == nil {
		err = json.Unmarshal(data, &found)
	}
	switch {
	case err != nil:
		return answer.Session{}, err
	case !found.Valid:
		s.forget(hash)
		return answer.Session{}, errNoSession
	}
	s.keep(hash, found)
	return found, nil
}

func (s *sessionCache) keep(hash string, found answer.Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.known) >= sessionsKept {
		clear(s.known)
	}
	s.known[hash] = cachedSession{session: found, checkedAt: s.now()}
}

func (s *sessionCache) forget(hash string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, hash)
}

// cookieName has the port: browsers send a cookie to all ports of a host. The prefix makes them refuse it without Secure, or for another
// path. They count loopback as secure without TLS.
func (x *Console) cookieName() string { return fmt.Sprintf("__Host-lockstep-%d", x.config.Port) }

func (x *Console) setCookie(w http.ResponseWriter, value string, age int) {
	http.SetCookie(w, &http.Cookie{
		Name:     x.cookieName(),
		Value:    value,
		Path:     "/",
		MaxAge:   age,
		Secure:   true,
		HttpOnly: true,
		SameSite: http.SameSiteLaxMode,
	})
}

// loginView is the data of the login page.
type loginView struct {
	Next    string
	Name    string
	Problem string
	Open    bool // logins are possible on this connection
}

// mayHaveSession reports whether a connection may carry a session: with TLS, or from this machine.
func mayHaveSession(r *http.Request) bool { return r.TLS != nil || isLocal(r) }

// isLocal reports whether a request comes from this machine: from loopback, or from the address that it is sent to.
func isLocal(r *http.Request) bool {
	remote := net.ParseIP(tlsserver.RemoteHost(r))
	if remote == nil {
		return false
	}
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if local == nil {
		return remote.IsLoopback()
	}
	host, _, err := net.SplitHostPort(local.String())
	own := net.ParseIP(host)
	return remote.IsLoopback() || err == nil && own != nil && own.Equal(remote)
}

// safeNext is a path of the console to go to after the login.
func safeNext(next string) string {
	u, err := url.Parse(next)
	if err != nil || strings.Contains(next, "\\") || !isPageAfterLogin(u) {
		return rapi.ConsolePath
	}
	return u.RequestURI()
}

// isPageAfterLogin reports whether a URL names no server, and is a page of the console other than those of the login.
func isPageAfterLogin(u *url.URL) bool {
	isOfThisServer := !u.IsAbs() && u.Host == ""
	return isOfThisServer && strings.HasPrefix(u.Path, rapi.ConsolePath) && !strings.HasPrefix(u.Path, "/ui/login")
}

func (x *Console) loginPage(q *request) error {
	next := safeNext(q.URL.Query().Get("next"))
	if _, _, err := x.sessions.user(q.Request, x.cookieName()); err == nil {
		http.Redirect(q.w, q.Request, next, http.StatusSeeOther)
		return nil
	}
	q.render(http.StatusOK, "login", view{Title: "Log in", Data: loginView{Next: next, Open: mayHaveSession(q.Request)}})
	return nil
}

// login checks a name and a password, and opens a session. A wrong password or too many attempts show the page of the login again.
func (x *Console) login(q *request) error {
	if !mayHaveSession(q.Request) {
		return &pageError{http.StatusForbidden, "Without TLS a login is possible from the daemon's own machine only."}
	}
	if err := q.ParseForm(); err != nil {
		return badRequest("The form cannot be read.")
	}
	name, next := q.PostForm.Get("name"), safeNext(q.PostForm.Get("next"))
	u, err := x.config.Logins.CheckPassword(q.Request, name, q.PostForm.Get("password"))
	if err != nil {
		problem := "The name or the password is wrong."
		code := http.StatusUnprocessableEntity // a page may not ask the browser for a password by 401
		var many *login.TooManyError
		if errors.As(err, &many) {
			problem, code = many.Error()+".", http.StatusTooManyRequests
			q.w.Header().Set("Retry-After", fmt.Sprint(many.RetryAfter))
		}
		q.render(code, "login", view{Title: "Log in", Data: loginView{Next: next, Name: name, Problem: problem, Open: true}})
		return nil
	}
	if u.Role() < access.Read {
		return access.ConsoleRoute("GET ").Refuse(u.Identity().String(), u.Role())
	}
	id := newID()
	_, err = x.queue.Call(q.Context(), rapi.Short, "LockstepOpenSession", session.HashOf(id), "user="+name, name, u.Proof(id))
	return x.begin(q, id, next, "user="+name, err)
}

func newID() []byte {
	id := make([]byte, idOctets)
	_, _ = rand.Read(id) // never fails
	return id
}

// begin gives the browser the cookie of its new session, and sends it to the page that it wanted.
func (x *Console) begin(q *request, id []byte, next, who string, err error) error {
	if err != nil {
		return err
	}
	x.setCookie(q.w, base64.RawURLEncoding.EncodeToString(id), 0)
	x.config.Log.WithFields(logrus.Fields{"user": who, "address": tlsserver.RemoteHost(q.Request)}).Info("console: logged in")
	http.Redirect(q.w, q.Request, next, http.StatusSeeOther)
	return nil
}

// logout ends the session on all nodes.
func (x *Console) logout(q *request) error {
	if _, err := x.queue.Call(q.Context(), rapi.Short, "LockstepEndSession", q.id); err != nil {
		return err
	}
	x.sessions.forget(q.id)
	x.setCookie(q.w, "", -1)
	q.w.Header().Set("Clear-Site-Data", `"cache"`)
	x.config.Log.WithFields(logrus.Fields{"user": q.user.Who, "address": tlsserver.RemoteHost(q.Request)}).Info("console: logged out")
	http.Redirect(q.w, q.Request, "/ui/login", http.StatusSeeOther)
	return nil
}

// linkView is the data of the page of a login link.
type linkView struct {
	Token string
	Next  string
	Local bool
}

// linkPage has the button that consumes a login link. A preview or a prefetch of the link has no effect.
func (x *Console) linkPage(q *request) error {
	q.w.Header().Set("Referrer-Policy", "no-referrer") // the address has the token
	token := q.URL.Query().Get("token")
	if _, err := base64.RawURLEncoding.DecodeString(token); err != nil || len(token) > 100 {
		token = ""
	}
	q.render(http.StatusOK, "open",
		view{Title: "Open the console", Data: linkView{token, safeNext(q.URL.Query().Get("next")), isLocal(q.Request)}})
	return nil
}

// redeem consumes a login link and opens a session. It works on the daemon's own machine only.
func (x *Console) redeem(q *request) error {
	if !isLocal(q.Request) {
		return &pageError{http.StatusForbidden, "A login link works on the daemon's own machine only."}
	}
	if err := q.ParseForm(); err != nil {
		return badRequest("The form cannot be read.")
	}
	token, err := base64.RawURLEncoding.DecodeString(q.PostForm.Get("token"))
	if err != nil || len(token) != idOctets {
		return badRequest("This is no login link.")
	}
	id := newID()
	data, err := x.queue.Call(q.Context(), rapi.Short, "LockstepRedeemLink", session.HashOf(token), session.HashOf(id))
	var opened answer.Session
	if err == nil {
		err = json.Unmarshal(data, &opened)
	}
	if err == nil && !opened.Valid {
		return &pageError{
			http.StatusForbidden,
			"The login link was used already, or is older than a minute. “lockstep open” prints a new one.",
		}
	}
	return x.begin(q, id, safeNext(q.PostForm.Get("next")), opened.User, err)
}

package console

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"
	"github.com/stretchr/testify/require"

	"lockstep/actors/events"
	"lockstep/actors/kittest"
	"lockstep/actors/luxi"
	"lockstep/actors/sessions"
	"lockstep/actors/store"
	"lockstep/core/access"
	"lockstep/core/answer"
	"lockstep/core/budget"
	"lockstep/core/opcode"
	"lockstep/core/session"
	"lockstep/edge/admission"
	"lockstep/edge/login"
	"lockstep/edge/rapi"
	"lockstep/messages"
)

// bench is a console over the real gateway and the real sessions. The queue and the publisher of events are probes, and time is virtual.
type bench struct {
	*testing.T
	*kittest.Env
	queue, publisher *kittest.Probe
	console          *Console
	users            string
}

func onBench(t *testing.T, f func(*bench)) {
	t.Helper()
	users := filepath.Join(t.TempDir(), "users")
	require.NoError(t, os.WriteFile(users, []byte("operator secret write\nreader secret read\n"), 0o600))
	kittest.Run(t, func(t *testing.T, e *kittest.Env) {
		b := &bench{T: t, Env: e, queue: e.Probe("queue"), publisher: e.Probe("events"), users: users}
		files := e.Start("store", store.Props(store.Config{Env: e.Env, Files: kittest.NewDisk(nil), Writers: 4,
			Clients: []*actor.PID{e.PID("above-sessions/sessions"), e.PID("above-luxi/luxi")}}))
		random := func(n int) []byte { return bytes.Repeat([]byte{7}, n) }
		known := e.Start("sessions", sessions.Props(sessions.Config{Env: e.Env, Store: files, Random: random}))
		gateway := e.Start("luxi", luxi.Props(luxi.Config{Env: e.Env, Queue: b.queue.PID, Jobs: b.queue.PID, Store: files, Events: b.publisher.PID,
			Sessions: known, Catalogue: opcode.Builtin(), Policy: access.Policy{DaemonUID: os.Geteuid(), SocketGID: 27}}))
		log := logrus.New()
		log.SetOutput(t.Output())
		table := admission.NewTable()
		var err error
		b.console, err = New(Config{Log: log, Queue: rapi.NewForwardingPool(rapi.Gateway{System: e.System(), PID: func() *actor.PID { return gateway }}, table),
			Logins: login.New(users, log), Port: 5080, Table: table})
		require.NoError(t, err)
		f(b)
		b.console.Stop()
		b.pass(time.Minute)
	})
}

// pass lets virtual time pass, for the console and for the actors.
func (b *bench) pass(d time.Duration) {
	<-time.After(d)
	b.Advance(d)
}

// login opens a session, and returns its cookie.
func (b *bench) login(name string) *http.Cookie {
	b.Helper()
	id := newID()
	u, known := b.console.config.Logins.Find(name)
	require.True(b, known)
	_, err := b.console.config.Queue.Call(b.Context(), rapi.Short, "LockstepOpenSession", session.HashOf(id), "user="+name, name, u.Proof(id))
	require.NoError(b, err)
	return &http.Cookie{Name: b.console.cookieName(), Value: base64.RawURLEncoding.EncodeToString(id)}
}

func (b *bench) get(path string, cookie *http.Cookie) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.AddCookie(cookie)
	w := httptest.NewRecorder()
	b.console.ServeHTTP(w, r)
	return w
}

// A user is not refused for the memory that others have who come from the same address: neither a page nor a form.
func TestAUserBehindAFullAddress(t *testing.T) {
	onBench(t, func(b *bench) {
		operator := b.login("operator")
		require.Equal(b, http.StatusOK, b.get("/ui/help", operator).Code)
		others := b.console.config.Table.Share(admission.Address("192.0.2.1"), func() {}) // the address of requests of httptest
		require.NoError(b, others.Grow(budget.ClientBytesMax))
		defer others.End()
		require.Equal(b, http.StatusOK, b.get("/ui/help", operator).Code)
		r := httptest.NewRequest(http.MethodPost, "/ui/logout", strings.NewReader("a=b"))
		r.AddCookie(operator)
		w := httptest.NewRecorder()
		b.console.ServeHTTP(w, r)
		require.NotEqual(b, http.StatusServiceUnavailable, w.Code)
		require.Equal(b, http.StatusServiceUnavailable, b.get("/ui/login", &http.Cookie{Name: "other", Value: "x"}).Code)
	})
}

// browser is the receiving end of one stream. It takes no more than room bytes; 0: everything.
type browser struct {
	*bench
	header   http.Header
	messages chan string
	room     int
	deadline time.Time
	ended    chan struct{} // closed at the end of the stream
	leave    context.CancelFunc
}

func (b *bench) open(cookie *http.Cookie, room int) *browser {
	ctx, leave := context.WithCancel(context.Background())
	x := &browser{bench: b, header: http.Header{}, messages: make(chan string, 1000), room: room, ended: make(chan struct{}), leave: leave}
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/ui/events", nil)
	r.AddCookie(cookie)
	go func() {
		defer close(x.ended)
		b.console.ServeHTTP(x, r)
	}()
	return x
}

func (x *browser) Header() http.Header                 { return x.header }
func (x *browser) WriteHeader(int)                     {}
func (x *browser) Flush()                              {}
func (x *browser) SetWriteDeadline(at time.Time) error { x.deadline = at; return nil }

func (x *browser) Write(data []byte) (int, error) {
	if x.room > 0 {
		if x.room -= len(data); x.room <= 0 {
			x.room = 1
			<-time.After(time.Until(x.deadline))
			return 0, os.ErrDeadlineExceeded
		}
	}
	x.messages <- string(data)
	return len(data), nil
}

// expect takes messages until one of a kind, and returns its data.
func (x *browser) expect(kind string) string {
	x.Helper()
	end := time.After(time.Minute)
	for {
		select {
		case m := <-x.messages:
			if _, data, is := strings.Cut(m, "data: "); is && strings.HasPrefix(m, "event: "+kind+"\n") {
				return strings.TrimSpace(data)
			}
		case <-end:
			require.FailNow(x, "a message has not come", kind)
		}
	}
}

// begun waits until streams have sent what they say at their begin.
func begun(all ...*browser) {
	<-time.After(2 * tickInterval)
	for _, x := range all {
		for len(x.messages) > 0 {
			<-x.messages
		}
	}
}

// With 200 open consoles the queue sends one message a change: it has one subscriber, and no console asks it anything.
func TestManyConsolesCostOneMessageAChange(t *testing.T) {
	onBench(t, func(b *bench) {
		cookie := b.login("reader")
		var open []*browser
		for range 200 {
			open = append(open, b.open(cookie, 0))
		}
		_, subscriber := kittest.ExpectFrom[*messages.SubscribeAllJobs](b.queue)
		require.Equal(b, []events.Kind{events.Filters, events.Locks}, kittest.Expect[*events.Subscribe](b.publisher).Kinds)
		begun(open...)
		for id := range int64(5) {
			b.Send(subscriber, &messages.JobStatesChanged{Archived: []int64{id + 1}})
			for _, x := range open {
				require.JSONEq(b, fmt.Sprintf(`{"jobs": [%d]}`, id+1), x.expect("change"))
			}
		}
		b.queue.Quiet()
		b.publisher.Quiet()
		for _, x := range open {
			x.leave()
			<-x.ended
		}
		require.Empty(b, b.console.hub.listeners)
		b.pass(2 * hubLinger)
		require.False(b, b.console.hub.running, "without a console nothing is asked")
	})
}

// A console that takes no message is cut off, so that it holds neither a place nor changes. Others get their messages meanwhile. When it
// connects again, its pages load again.
func TestASlowConsoleIsCutOff(t *testing.T) {
	onBench(t, func(b *bench) {
		cookie := b.login("reader")
		slow, quick := b.open(cookie, 200), b.open(cookie, 0)
		_, subscriber := kittest.ExpectFrom[*messages.SubscribeAllJobs](b.queue)
		begun(slow, quick)
		begin := time.Now()
		for id := range int64(40) {
			b.Send(subscriber, &messages.JobStatesChanged{Archived: []int64{id + 1}})
			require.JSONEq(b, fmt.Sprintf(`{"jobs": [%d]}`, id+1), quick.expect("change"))
		}
		<-slow.ended
		require.LessOrEqual(b, time.Since(begin), time.Minute)
		b.Settle()
		require.Len(b, b.console.hub.listeners, 1)
		require.Equal(b, 1, b.console.streams.Len())
		again := b.open(cookie, 0)
		require.Equal(b, "{}", again.expect("open"), "at which pages load again")
		b.queue.Quiet()
		again.leave()
		quick.leave()
		<-again.ended
		<-quick.ended
	})
}

// A user without an option gets no session, and no request of his has an effect on the table.
func TestAUserWithoutOptionsHasNoSession(t *testing.T) {
	onBench(t, func(b *bench) {
		require.NoError(b, os.WriteFile(b.users, []byte("guest secret\nreader secret read\n"), 0o600))
		b.pass(2 * time.Second)
		login := func(name string) *httptest.ResponseRecorder {
			r := httptest.NewRequest(http.MethodPost, "/ui/login", strings.NewReader("name="+name+"&password=secret"))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.RemoteAddr = "127.0.0.1:1"
			w := httptest.NewRecorder()
			b.console.ServeHTTP(w, r)
			return w
		}
		refused := login("guest")
		require.Equal(b, http.StatusForbidden, refused.Code)
		require.Empty(b, refused.Result().Cookies())
		require.Equal(b, http.StatusSeeOther, login("reader").Code)
	})
}

// A session ends when it was not used for twelve hours, when its user gets another password, and when its user is removed. The pages
// lead to the login then, and the stream says so.
func TestHowASessionEnds(t *testing.T) {
	rewrite := func(users string) func(*bench) {
		return func(b *bench) { require.NoError(b, os.WriteFile(b.users, []byte(users), 0o600)) }
	}
	for name, end := range map[string]func(*bench){
		"idle":             func(b *bench) { b.Advance(session.Idle + time.Minute) },
		"another password": rewrite("operator secret write\nreader changed read\n"),
		"removed":          rewrite("operator secret write\n"),
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, func(b *bench) {
				cookie := b.login("reader")
				require.Equal(b, http.StatusOK, b.get("/ui/help", cookie).Code)
				x := b.open(cookie, 0)
				x.expect("open")
				end(b)
				require.Equal(b, "{}", x.expect("logout"))
				<-x.ended
				answer := b.get("/ui/help", cookie)
				require.Equal(b, http.StatusSeeOther, answer.Code)
				require.Equal(b, "/ui/login?next=%2Fui%2Fhelp", answer.Header().Get("Location"))
				require.Equal(b, http.StatusUnauthorized, b.get("/ui/events", cookie).Code)
			})
		})
	}
}

// silentQueue does not answer while it is silent.
type silentQueue struct {
	rapi.Luxi
	silent atomic.Bool
}

func (q *silentQueue) Call(ctx context.Context, class rapi.Class, method string, args ...any) (json.RawMessage, error) {
	if q.silent.Load() {
		return nil, errors.New("the queue does not answer")
	}
	return q.Luxi.Call(ctx, class, method, args...)
}

// A session may have ended on another node. While the queue does not answer, a node shows nothing to it ten seconds after the last answer, and
// does not send its user to the login either.
func TestASessionWhileTheQueueDoesNotAnswer(t *testing.T) {
	onBench(t, func(b *bench) {
		queue := &silentQueue{Luxi: b.console.sessions.queue}
		b.console.sessions.queue = queue
		cookie := b.login("reader")
		require.Equal(b, http.StatusOK, b.get("/ui/help", cookie).Code)
		queue.silent.Store(true)
		b.pass(9 * time.Second)
		require.Equal(b, http.StatusOK, b.get("/ui/help", cookie).Code)
		b.pass(2 * time.Second)
		require.Equal(b, http.StatusInternalServerError, b.get("/ui/help", cookie).Code)
		require.Equal(b, http.StatusServiceUnavailable, b.get("/ui/events", cookie).Code)
		queue.silent.Store(false)
		require.Equal(b, http.StatusOK, b.get("/ui/help", cookie).Code)
	})
}

// The session of a link ends with the account that has made the link: when userdel has removed it, or it has another number. While
// accounts cannot be read, and for an account without a name, it goes on.
func TestTheSessionOfALinkEndsWithItsAccount(t *testing.T) {
	for name, c := range map[string]struct {
		account access.Identity
		later   int // the number of the account with that name; 0: there is none
		err     error
		ending  bool
	}{
		"it is there":      {alice, 1000, nil, false},
		"removed":          {alice, 0, nil, true},
		"another number":   {alice, 1001, nil, true},
		"cannot be read":   {alice, 0, errors.New("too many open files"), false},
		"never had a name": {access.Identity{UID: 1000, GIDs: []int{27}, Login: access.NoUID}, 0, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, func(b *bench) {
				var isLater atomic.Bool
				b.console.sessions.account = func(_ context.Context, name string) (int, bool, error) {
					require.Equal(b, "alice", name)
					if !isLater.Load() {
						return 1000, true, nil
					}
					return c.later, c.later != 0, c.err
				}
				b.roleOfLinks("submit")
				cookie := b.loginByLink(c.account)
				require.Equal(b, http.StatusOK, b.get("/ui/help", cookie).Code)
				x := b.open(cookie, 0)
				x.expect("open")
				isLater.Store(true)
				if c.ending {
					require.Equal(b, "{}", x.expect("logout"))
					<-x.ended
				} else {
					b.pass(2 * beatInterval)
					x.leave()
				}
				want := http.StatusOK
				if c.ending {
					want = http.StatusSeeOther
				}
				require.Equal(b, want, b.get("/ui/help", cookie).Code)
			})
		})
	}
}

var alice = access.Identity{UID: 1000, Name: "alice", GIDs: []int{1000, 27}, Groups: []string{"alice", "ops"}, Login: 1000}

// rolesOf answers LockstepWhoAmI as a policy does that gives each account of a link a role.
type rolesOf struct {
	rapi.Luxi
	mu    sync.Mutex
	role  string
	asked []access.Identity
}

func (l *rolesOf) Call(ctx context.Context, class rapi.Class, method string, args ...any) (json.RawMessage, error) {
	if method != "LockstepWhoAmI" {
		return l.Luxi.Call(ctx, class, method, args...)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = append(l.asked, rapi.CallerOf(ctx))
	return json.RawMessage(`{"role": "` + l.role + `"}`), nil
}

// roleOfLinks makes the policy give a role to each account of a link.
func (b *bench) roleOfLinks(role string) *rolesOf {
	l := &rolesOf{Luxi: b.console.sessions.queue, role: role}
	b.console.sessions.queue = l
	return l
}

// loginByLink opens a session by a link that a client of the socket has asked for, and returns its cookie.
func (b *bench) loginByLink(client access.Identity) *http.Cookie {
	b.Helper()
	var link answer.LoginLink
	user := fmt.Sprintf("uid=%d", client.UID)
	if client.Name != "" {
		user += "(" + client.Name + ")"
	}
	data, err := b.console.config.Queue.Call(rapi.WithCaller(b.Context(), user+", pid=7", client), rapi.Short, "LockstepLoginLink")
	require.NoError(b, err)
	require.NoError(b, json.Unmarshal(data, &link))
	token, err := base64.RawURLEncoding.DecodeString(link.Token)
	require.NoError(b, err)
	id := newID()
	_, err = b.console.config.Queue.Call(b.Context(), rapi.Short, "LockstepRedeemLink", session.HashOf(token), session.HashOf(id))
	require.NoError(b, err)
	return &http.Cookie{Name: b.console.cookieName(), Value: base64.RawURLEncoding.EncodeToString(id)}
}

// The role of a link's account is asked for at each request, as its user with the groups of the login. What the queue does then is in the
// name of the account.
func TestTheRoleOfALinkIsAskedForEachTime(t *testing.T) {
	onBench(t, func(b *bench) {
		b.console.sessions.account = func(context.Context, string) (int, bool, error) { return 1000, true, nil }
		roles := b.roleOfLinks("submit")
		cookie := b.loginByLink(alice)
		page := b.get("/ui/help", cookie)
		require.Equal(b, http.StatusOK, page.Code)
		require.Contains(b, page.Body.String(), "alice, submit")
		require.Equal(b, []access.Identity{alice}, roles.asked)
		roles.role = "admin"
		require.Contains(b, b.get("/ui/help", cookie).Body.String(), "alice, admin")
		roles.role = "none"
		page = b.get("/ui/help", cookie)
		require.Equal(b, http.StatusForbidden, page.Code)
		require.Contains(b, page.Body.String(), "To see the jobs needs the role read, alice has none.")
		require.Contains(b, page.Body.String(), "Log out")
		require.Equal(b, http.StatusForbidden, b.get("/ui/events", cookie).Code)
	})
}

// A link of a version that did not note the account opens no page: its user asks for another one.
func TestALinkWithoutAnAccountIsNoLogin(t *testing.T) {
	onBench(t, func(b *bench) {
		id := newID()
		_, err := b.console.config.Queue.Call(b.Context(), rapi.Short, "LockstepOpenSession", session.HashOf(id), "uid=0(root)", "", "")
		require.NoError(b, err)
		cookie := &http.Cookie{Name: b.console.cookieName(), Value: base64.RawURLEncoding.EncodeToString(id)}
		require.Equal(b, http.StatusSeeOther, b.get("/ui/help", cookie).Code)
	})
}

// What needs a higher role is refused to others, whatever the page shows.
func TestAReaderChangesNothing(t *testing.T) {
	onBench(t, func(b *bench) {
		cookie := b.login("reader")
		for _, path := range []string{"jobs/apply", "jobs/1/cancel", "jobs/1/kill", "jobs/1/hold", "jobs/1/release", "jobs/1/priority", "jobs/1/archive", "jobs/1/rerun",
			"filters/save", "filters/delete", "nodes/promote", "settings", "drain", "opcodes/OP_TEST_DELAY"} {
			r := httptest.NewRequest(http.MethodPost, rapi.ConsolePath+path, strings.NewReader("drained=1"))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.AddCookie(cookie)
			w := httptest.NewRecorder()
			b.console.ServeHTTP(w, r)
			require.Equal(b, http.StatusForbidden, w.Code, path)
			require.Contains(b, w.Body.String(), "reader (remote API) has read.")
		}
		b.queue.Quiet()
	})
}

// countingLuxi answers when it may.
type countingLuxi struct {
	calls atomic.Int64
	may   chan struct{}
}

func (l *countingLuxi) Call(context.Context, rapi.Class, string, ...any) (json.RawMessage, error) {
	l.calls.Add(1)
	<-l.may
	return json.RawMessage(`1`), nil
}

// Browsers that show the same page at the same time cost one question.
func TestReadersShareAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := &countingLuxi{may: make(chan struct{})}
		r := newReads(queue)
		var all sync.WaitGroup
		ask := func() {
			data, err := r.get(t.Context(), readFresh, rapi.Short, "LockstepStatus")
			require.NoError(t, err)
			require.Equal(t, "1", string(data))
		}
		for range 200 {
			all.Go(ask)
		}
		synctest.Wait()
		close(queue.may)
		all.Wait()
		require.EqualValues(t, 1, queue.calls.Load())
		<-time.After(readFresh)
		ask()
		require.EqualValues(t, 1, queue.calls.Load())
		<-time.After(time.Millisecond)
		ask()
		require.EqualValues(t, 2, queue.calls.Load())
	})
}

// Package getent asks the node for the accounts of users and the names of groups, by the programs getent and id. So those of a directory
// service are known, and lockstep needs no C library. It implements the port jobs.Accounts, and answers edges, which may wait.
//
// It owns the answers of the last minute, at most knownMax of them, and the programs that run. A question is answered after at most
// askMax. While the node has no answer, each further question about the same user or group is answered at once, that there is none, and
// the node is asked again meanwhile.
package getent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/calendar"
	"lockstep/actors/jobs"
	"lockstep/core/access"
	"lockstep/core/jobproc"
)

const (
	// askMax is how long the node may take to answer about one user.
	askMax = 5 * time.Second
	// keptFor is how long an answer is used again.
	keptFor = time.Minute
	// knownMax bounds the users in memory.
	knownMax = 1000
	// programsMax bounds the programs that run at a time.
	programsMax = 8
	// outputMax bounds the output of a program, in bytes.
	outputMax = 1 << 20
	// notFound is the exit status of getent if there is no such entry. A directory service that restarts often gives it, too.
	notFound = 2
	// missingFor is for how long getent must have found no entry before there is none.
	missingFor = 5 * time.Second
)

// Users asks the node for accounts. Its methods do not block.
type Users struct {
	system             *actor.ActorSystem
	askMax, missingFor time.Duration
	programs           chan struct{} // a place for each program that may run

	mu    sync.Mutex
	known map[question]*entry
}

// question is about a user, or about the name of a group.
type question struct {
	user  jobproc.User
	group int // 0: about the user
}

// entry is what is known of a user or group.
type entry struct {
	answer  answer
	at      time.Time     // of the answer; zero: there is none yet
	missing time.Time     // since when getent has found no entry; zero: it has found one, or was not asked
	asked   chan struct{} // closed at the end of the question that is open; nil: none is
}

func (e *entry) isFresh() bool { return !e.at.IsZero() && time.Since(e.at) < keptFor }

// answer is what the node says of a user or group, or why it says nothing.
type answer struct {
	jobproc.AccountAnswer
	group      string // its name
	missing    bool   // there is no entry
	unanswered string // "": it has answered
}

var _ jobs.Accounts = (*Users)(nil)

// New returns a Users that knows none.
func New(system *actor.ActorSystem) *Users {
	return &Users{system: system, askMax: askMax, missingFor: missingFor, programs: make(chan struct{}, programsMax),
		known: map[question]*entry{}}
}

// Find answers `to` with jobs.AccountsFound.
func (u *Users) Find(number uint64, users []jobproc.User, to *actor.PID) {
	go func() {
		found := &jobs.AccountsFound{Question: number}
		for _, user := range users {
			a := u.find(question{user: user})
			if a.unanswered != "" {
				found = &jobs.AccountsFound{Question: number, Unanswered: &user, Text: a.unanswered}
				break
			}
			found.Answers = append(found.Answers, a.AccountAnswer)
		}
		u.system.Root.Send(to, found)
	}()
}

// Owner is the answer about the owner of a schedule with an account of this node. It may wait.
func (u *Users) Owner(user jobproc.User) *calendar.OwnerFound {
	a := u.find(question{user: user})
	found := &calendar.OwnerFound{Unanswered: a.unanswered, Refusal: a.Refusal}
	if a.Account == nil {
		return found
	}
	found.Identity = access.Identity{UID: a.Account.UID, Login: access.NoUID, Name: a.Account.Name, GIDs: a.Account.Groups}
	for _, gid := range a.Account.Groups {
		if name, known := u.GroupName(gid); known && name != "" {
			found.Identity.Groups = append(found.Identity.Groups, name)
		}
	}
	return found
}

// FindAccount is a login.FindAccount.
func (u *Users) FindAccount(_ context.Context, name string) (uid int, known bool, err error) {
	switch a := u.find(question{user: jobproc.User{UID: jobproc.NoUID, Name: name}}); {
	case a.unanswered != "":
		return 0, false, errors.New(a.unanswered)
	case a.Account == nil:
		return 0, false, nil
	default:
		return a.Account.UID, true, nil
	}
}

// UserName returns the name of the account with a uid; "": it has none, or known is false, since the node does not say it now.
func (u *Users) UserName(uid int) (name string, known bool) {
	a := u.find(question{user: jobproc.User{UID: uid}})
	if a.Account != nil {
		name = a.Account.Name
	}
	return name, a.unanswered == ""
}

// GroupName is UserName for a group.
func (u *Users) GroupName(gid int) (name string, known bool) {
	if gid == 0 {
		return "root", true
	}
	a := u.find(question{group: gid})
	return a.group, a.unanswered == ""
}

// find returns the answer to a question. It waits for the node, unless there is an answer of the last minute, or the node has not answered
// the last question.
func (u *Users) find(q question) answer {
	u.mu.Lock()
	e := u.entryOf(q)
	switch {
	case e.isFresh() && e.answer.unanswered == "":
		defer u.mu.Unlock()
		return e.answer
	case e.asked == nil:
		e.asked = make(chan struct{})
		go u.ask(q, e)
	}
	asked, last, isFresh := e.asked, e.answer, e.isFresh()
	u.mu.Unlock()
	if isFresh { // it is that there was no answer
		return last
	}
	<-asked
	u.mu.Lock()
	defer u.mu.Unlock()
	return e.answer
}

// entryOf returns the entry of a question. If there are too many, it drops those about which no question is open.
func (u *Users) entryOf(q question) *entry {
	e := u.known[q]
	if e != nil {
		return e
	}
	if len(u.known) >= knownMax {
		for other, e := range u.known {
			if e.asked == nil {
				delete(u.known, other)
			}
		}
	}
	e = &entry{}
	u.known[q] = e
	return e
}

func (u *Users) ask(q question, e *entry) {
	ctx, cancel := context.WithTimeout(context.Background(), u.askMax)
	defer cancel()
	a := answer{unanswered: "too many questions about users are open"}
	select {
	case u.programs <- struct{}{}:
		a = q.lookUp(ctx)
		<-u.programs
	case <-ctx.Done():
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	now := time.Now()
	switch {
	case !a.missing:
		e.missing = time.Time{}
	case e.missing.IsZero():
		e.missing = now
	}
	if a.missing && now.Sub(e.missing) < u.missingFor {
		a = answer{unanswered: a.Refusal + "; getent is asked again, since a directory service that restarts knows no users"}
	}
	e.answer, e.at = a, now
	close(e.asked)
	e.asked = nil
}

// lookUp asks getent for the account, and id for its groups, or getent for the group.
func (q question) lookUp(ctx context.Context) answer {
	if q.group != 0 {
		return lookUpGroup(ctx, q.group)
	}
	user := q.user
	key := user.Name
	if key == "" {
		key = strconv.Itoa(user.UID)
	}
	if strings.HasPrefix(key, "-") { // the programs would take it for an option
		return refusal(user, user.NoAccount())
	}
	line, found, err := entryWith(ctx, "passwd", key)
	switch {
	case err != nil:
		return answer{unanswered: err.Error()}
	case !found:
		a := refusal(user, user.NoAccount())
		a.missing = true
		return a
	}
	account, ok := parseAccount(line)
	if !ok {
		return answer{unanswered: fmt.Sprintf("getent passwd answers %q", line)}
	}
	if why := user.Refusal(account); why != "" {
		return refusal(user, why)
	}
	groups, err := run(ctx, "id", "-G", account.Name)
	if err != nil {
		return answer{unanswered: err.Error()}
	}
	if account.Groups, ok = parseGroups(groups, account.GID); !ok {
		return answer{unanswered: fmt.Sprintf("id -G answers %q", groups)}
	}
	return answer{AccountAnswer: jobproc.AccountAnswer{User: user, Account: &account}}
}

func lookUpGroup(ctx context.Context, gid int) answer {
	line, found, err := entryWith(ctx, "group", strconv.Itoa(gid))
	if err != nil {
		return answer{unanswered: err.Error()}
	}
	if !found {
		return answer{missing: true}
	}
	f := strings.Split(line, ":")
	if len(f) != 4 || f[2] != strconv.Itoa(gid) {
		return answer{unanswered: fmt.Sprintf("getent group answers %q", line)}
	}
	return answer{group: f[0]}
}

// entryWith asks getent for the entry of a database with a key.
func entryWith(ctx context.Context, database, key string) (line string, found bool, err error) {
	line, err = run(ctx, "getent", database, key)
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == notFound {
		return "", false, nil
	}
	return line, err == nil, err
}

func refusal(user jobproc.User, why string) answer {
	return answer{AccountAnswer: jobproc.AccountAnswer{User: user, Refusal: why}}
}

// run returns the first line of a program's output. The program is ended with all that it has started when ctx is done.
func run(ctx context.Context, program string, args ...string) (string, error) {
	var out, complaint limited
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdout, cmd.Stderr = &out, &complaint
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	called := program + " " + args[0]
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("%s has not answered in time", called)
	case err != nil && complaint.Len() > 0:
		text, _, _ := strings.Cut(complaint.String(), "\n")
		return "", fmt.Errorf("%s: %w: %s", called, err, text)
	case err != nil:
		return "", fmt.Errorf("%s: %w", called, err)
	}
	line, _, _ := strings.Cut(out.String(), "\n")
	return line, nil
}

// limited keeps the beginning of what is written to it.
type limited struct{ bytes.Buffer }

func (l *limited) Write(p []byte) (int, error) {
	if room := outputMax - l.Len(); room > 0 {
		_, _ = l.Buffer.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

// parseAccount reads a line of passwd(5).
func parseAccount(line string) (jobproc.Account, bool) {
	f := strings.Split(line, ":")
	if len(f) != 7 || f[0] == "" {
		return jobproc.Account{}, false
	}
	uid, err := strconv.Atoi(f[2])
	gid, gidErr := strconv.Atoi(f[3])
	a := jobproc.Account{Name: f[0], UID: uid, GID: gid, Home: f[5], Shell: f[6]}
	if a.Home == "" {
		a.Home = "/"
	}
	if a.Shell == "" {
		a.Shell = "/bin/sh" // passwd(5)
	}
	return a, err == nil && gidErr == nil
}

// parseGroups reads the output of id -G. The group of the account is always among the groups.
func parseGroups(line string, own int) ([]int, bool) {
	groups := []int{own}
	for _, field := range strings.Fields(line) {
		gid, err := strconv.Atoi(field)
		if err != nil || gid < 0 || gid > jobproc.UIDMax {
			return nil, false
		}
		if gid != own {
			groups = append(groups, gid)
		}
	}
	return groups, true
}

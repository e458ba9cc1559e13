// Package grants is the actor that keeps the roles which an administrator has given to users and groups.
//
// It owns access.json, the grants (package access). In a cluster all nodes share the file, like the settings, so that a new master decides
// by the same grants. It takes Change and List. A change is answered when the store has written the file, and then the subscribers get the
// grants as Changed, as they do at the start.
//
// A crash loses the changes that are not answered. The next incarnation reads the file. A file that cannot be used gives no role, and is
// not replaced: changes are refused until it is removed.
package grants

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/kit"
	"lockstep/actors/store"
	"lockstep/core/access"
	"lockstep/core/paths"
	"lockstep/messages"
)

type (
	// Change asks the actor to give a role to a user or group, or to take it. ChangeResult answers it.
	Change struct {
		Request uint64
		Revoke  bool // the role is taken
		Role    access.Role
		Who     string // as access.ParseWho takes it
	}
	// ChangeResult answers a Change. Changed: it is not as it was before.
	ChangeResult struct {
		Request uint64
		Changed bool
		Failure *messages.Failure
	}
	// List asks for the grants. ListResult answers it.
	List struct{ Request uint64 }
	// ListResult answers a List. Failure says that the file cannot be used.
	ListResult struct {
		Request uint64
		Grants  access.Grants
		Failure *messages.Failure
	}
	// Changed tells a gateway which grants are in force from now on. The first of the subscribers answers it with Taken.
	Changed struct {
		Grants access.Grants
		Number uint64
	}
	// Taken answers Changed, when the gateway has told its connections. What their clients send next meets the grants.
	Taken struct{ Number uint64 }
)

// GetRequest is the number of the request.
func (r *ChangeResult) GetRequest() uint64 { return r.Request }

// GetFailure is the error, nil if there is none.
func (r *ChangeResult) GetFailure() *messages.Failure { return r.Failure }

// GetRequest is the number of the request.
func (r *ListResult) GetRequest() uint64 { return r.Request }

// GetFailure is the error, nil if there is none.
func (r *ListResult) GetFailure() *messages.Failure { return r.Failure }

// Config has the neighbours of the actor that keeps the grants.
type Config struct {
	Env         *kit.Env
	Store       *actor.PID
	Subscribers []*actor.PID // receive Changed
}

// Props describes the actor that keeps the grants and is the only writer of access.json.
func Props(c Config) *actor.Props {
	return kit.NumberedProps(c.Env, "grants", func(incarnation uint32) actor.Actor {
		return &grants{config: c, store: store.NewClient(c.Store, incarnation)}
	})
}

type grants struct {
	config Config
	store  *store.Client

	loaded  bool
	inForce access.Grants
	damaged error // why the file cannot be used; nil: it can
	writing bool  // a write is on its way
	waiting kit.Deferred[any]

	number  uint64              // of the last Changed
	untaken func(actor.Context) // answers the change that the gateway has not taken yet; nil: there is none
	untimed func() bool         // stops the timer of untaken
}

// readAgain is a timer: the file could not be read.
type readAgain struct{}

// untakenMax is how long the answer to a change waits for the gateway, which may have crashed.
const untakenMax = time.Second

const readPause = time.Second

func (g *grants) Receive(ctx actor.Context) {
	if g.store.Handle(ctx) {
		return
	}
	switch m := ctx.Message().(type) {
	case *actor.Started:
		g.store.Connect(ctx)
		g.load(ctx)
	case *readAgain:
		g.load(ctx)
	case *Taken:
		g.taken(ctx, m.Number)
	case *Change, *List:
		g.take(ctx, kit.Deferral[any]{Message: m, Sender: ctx.Sender()})
	default:
		kit.Unexpected(ctx)
	}
}

func (g *grants) load(ctx actor.Context) {
	g.store.Read(ctx, "grants", paths.AccessPath, func(ctx actor.Context, m *messages.ReadFileResult) {
		if m.Failure != nil {
			g.config.Env.Log().WithField("err", m.Failure.Text).Error("granted roles cannot be read; reading them again")
			kit.SendAfter(g.config.Env.Clock(), ctx.ActorSystem(), readPause, ctx.Self(), &readAgain{})
			return
		}
		g.inForce, g.damaged = access.DecodeGrants(m.Content)
		if g.damaged != nil {
			g.config.Env.Log().WithField("err", g.damaged).Error(paths.AccessPath + " cannot be used; no granted role is in force")
		}
		g.loaded = true
		g.publish(ctx)
		g.takeWaiting(ctx)
	})
}

func (g *grants) publish(ctx actor.Context) {
	g.number++
	for _, pid := range g.config.Subscribers {
		ctx.Request(pid, &Changed{Grants: g.inForce, Number: g.number})
	}
}

// taken answers the change that waits for the gateway.
func (g *grants) taken(ctx actor.Context, number uint64) {
	if answer := g.untaken; answer != nil && number == g.number {
		g.untimed()
		g.untaken = nil
		answer(ctx)
		g.takeWaiting(ctx)
	}
}

// take answers a question, and begins a change, in the order of arrival: each waits for the write before it.
func (g *grants) take(ctx actor.Context, q kit.Deferral[any]) {
	if !g.loaded || g.writing || g.untaken != nil {
		g.waiting = append(g.waiting, q)
		return
	}
	switch m := q.Message.(type) {
	case *List:
		ctx.Send(q.Sender, &ListResult{Request: m.Request, Grants: g.inForce, Failure: g.unusable()})
	case *Change:
		g.change(ctx, m, q.Sender)
	}
}

// unusable is the failure of a request because of the file; nil: it can be used.
func (g *grants) unusable() *messages.Failure {
	if g.damaged == nil {
		return nil
	}
	return messages.PrereqFailure(messages.WrongState, "No granted role is in force, since "+paths.AccessPath+
		" cannot be used: "+g.damaged.Error()+". To begin without grants, remove it while the daemon is stopped, in a cluster on all nodes")
}

func (g *grants) change(ctx actor.Context, m *Change, sender *actor.PID) {
	answer := &ChangeResult{Request: m.Request, Failure: g.unusable()}
	if answer.Failure != nil {
		ctx.Send(sender, answer)
		return
	}
	change := g.inForce.Add
	if m.Revoke {
		change = g.inForce.Remove
	}
	next, changed, err := change(m.Role, m.Who)
	switch {
	case err != nil:
		answer.Failure = messages.PrereqFailure(messages.WrongInput, err.Error())
		ctx.Send(sender, answer)
	case !changed:
		ctx.Send(sender, answer)
	default:
		g.write(ctx, next, func(ctx actor.Context, f *messages.Failure) {
			answer.Changed, answer.Failure = f == nil, f
			ctx.Send(sender, answer)
		})
	}
}

// write writes the grants, which are in force when they are on the disk. After a failed write the former ones stay in force, unless the
// disk has the new ones, which the next start finds out.
func (g *grants) write(ctx actor.Context, next access.Grants, then func(actor.Context, *messages.Failure)) {
	g.writing = true
	file := &messages.FileWrite{Op: "grants", Path: paths.AccessPath, Content: next.Encode()}
	g.store.Write(ctx, &messages.WriteFiles{Files: []*messages.FileWrite{file}, Durable: true},
		func(ctx actor.Context, m *messages.ChangeFilesResult) {
			g.writing = false
			if len(m.Failures) > 0 {
				then(ctx, m.Failures[0].Failure)
			} else {
				g.inForce = next
				g.publish(ctx)
				g.untaken = func(ctx actor.Context) { then(ctx, nil) }
				g.untimed = kit.SendAfter(g.config.Env.Clock(), ctx.ActorSystem(), untakenMax, ctx.Self(), &Taken{g.number})
			}
			g.takeWaiting(ctx)
		})
}

// takeWaiting takes waiting requests in their order, until one of them writes.
func (g *grants) takeWaiting(ctx actor.Context) {
	for len(g.waiting) > 0 && !g.writing && g.untaken == nil {
		next := g.waiting[0]
		g.waiting = g.waiting[1:]
		g.take(ctx, next)
	}
}

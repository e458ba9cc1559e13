// Package audit is the actor that writes the audit log: who has asked for which change, and who was refused one (core/audit).
//
// It owns the files in the directory audit, and is their only writer. In a cluster all nodes share the files, like the sessions. It takes
// Record from connections, and answers when the entry is durable. Entries that come during a write are written together. It takes Look from
// connections that read the log, and tells its clients of each start (Started). It asks features whether all members of a cluster know the
// log; until they do, it has no entries.
//
// A crash loses the entries that are not answered. The next incarnation reads the newest file, and connections send their entries again, so
// that an entry may be there twice. A newest file that is damaged goes to the quarantine; the next file begins with an entry about that.
package audit

import (
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/features"
	"lockstep/actors/kit"
	"lockstep/actors/store"
	coreaudit "lockstep/core/audit"
	"lockstep/messages"
)

// Config has the neighbours of the actor that writes the audit log.
type Config struct {
	Env     *kit.Env
	Store   *actor.PID
	Clients []*actor.PID // get Started
	// Features knows what the versions of the members of a cluster know; nil: there are no members.
	Features *actor.PID
}

// Props describes the actor that writes the audit log and is the only writer of its files.
func Props(c Config) *actor.Props {
	return kit.NumberedProps(c.Env, "audit", func(incarnation uint32) actor.Actor {
		return &audit{config: c, incarnation: incarnation, store: store.NewClient(c.Store, incarnation), known: c.Features == nil}
	})
}

type audit struct {
	config      Config
	incarnation uint32
	store       *store.Client

	known    bool   // all members know the log
	question uint64 // number of the last question about that
	asking   bool   // it has no answer
	warned   bool   // the log of the daemon says that a member does not know it

	loaded   bool
	deferred kit.Deferred[any] // until the log is read

	files   []uint64       // first numbers of the files, in order; replaced, not changed
	newest  coreaudit.File // as it is on the disk, or without an entry
	writing []entry        // on their way to the disk
	waiting []entry        // for the end of that write
	failure *messages.Failure
	since   time.Time // of the first of the writes that have failed since one has succeeded

	refusals coreaudit.Refusals
	pausing  bool // the timer of refusals runs
	looks    []look
}

// entry is an entry that is not on the disk.
type entry struct {
	coreaudit.Entry
	required bool
	request  uint64
	sender   *actor.PID // gets Recorded; nil: it has gone on without the entry, or there is none
}

// look is a Look that waits for an entry.
type look struct {
	*Look
	sender *actor.PID
}

func (a *audit) Receive(ctx actor.Context) {
	if a.store.Handle(ctx) {
		return
	}
	switch m := ctx.Message().(type) {
	case *actor.Started:
		a.store.Connect(ctx)
		a.load(ctx)
		kit.Publish(ctx, a.config.Clients, &Started{})
	case *Record, *Look:
		if !a.loaded {
			a.deferred.Add(m, ctx.Sender())
			return
		}
		a.take(ctx, m, ctx.Sender())
	case *features.AskResult:
		a.answered(ctx, m)
	case *askAgain:
		if m.incarnation == a.incarnation && m.question == a.question && a.asking {
			a.asking = false
			a.write(ctx)
		}
	case *readAgain:
		if m.incarnation == a.incarnation {
			a.load(ctx)
		}
	case *writeAgain:
		if m.incarnation == a.incarnation {
			a.write(ctx)
		}
	case *pauseOver:
		if m.incarnation == a.incarnation {
			a.pauseOver(ctx)
		}
	default:
		kit.Unexpected(ctx)
	}
}

func (a *audit) take(ctx actor.Context, m any, sender *actor.PID) {
	switch m := m.(type) {
	case *Record:
		a.record(ctx, m, sender)
	case *Look:
		a.look(ctx, m, sender)
	}
}

func (a *audit) now() time.Time { return a.config.Env.Clock().Now() }

func (a *audit) after(ctx actor.Context, d time.Duration, timer any) {
	kit.SendAfter(a.config.Env.Clock(), ctx.ActorSystem(), d, ctx.Self(), timer)
}

// last is the number of the newest entry that is durable.
func (a *audit) last() uint64 { return a.newest.Next - 1 }

func (a *audit) look(ctx actor.Context, m *Look, sender *actor.PID) {
	now := a.now()
	a.looks = slices.DeleteFunc(a.looks, func(l look) bool { return !now.Before(l.Until) })
	if now.Before(m.Until) && a.last() <= m.After {
		a.looks = append(a.looks, look{m, sender})
		return
	}
	a.answerLook(ctx, look{m, sender})
}

// answerLooks answers those that wait for an entry that is there.
func (a *audit) answerLooks(ctx actor.Context) {
	a.looks = slices.DeleteFunc(a.looks, func(l look) bool {
		done := a.last() > l.After
		if done {
			a.answerLook(ctx, l)
		}
		return done
	})
}

func (a *audit) answerLook(ctx actor.Context, l look) {
	ctx.Send(l.sender, &LookResult{Request: l.Request, Files: a.files, Last: a.last(), Failure: a.failure, Since: a.since})
}

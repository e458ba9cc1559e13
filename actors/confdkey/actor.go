// Package confdkey is the actor that changes the key of queries about the configuration (confd.md 1).
//
// It owns hmac.key and hmac.key.other, and is their only writer while the daemon runs. In a cluster all nodes share the two files, like
// the settings. It answers Rotate.
//
// A rotation first makes the new key the second one, so that every node accepts it before a client uses it. After Spread the new key is
// the first and the former key the second one. After Overlap the second one is removed. A crash in between leaves two valid keys: the
// next incarnation removes the second one after Overlap, and the rotation can be asked for again.
package confdkey

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/kit"
	"lockstep/actors/store"
	"lockstep/core/confd"
	"lockstep/core/paths"
	"lockstep/messages"
)

const (
	// Spread is the time in which all nodes that run accept a new key: the log tells them of it, and they look at their files every
	// second.
	Spread = 3 * time.Second
	// Overlap is how long the former key is valid after that.
	Overlap = 10 * time.Minute
)

// Rotate asks the actor to replace ConfD's key by a new random one. Rotated answers it.
type Rotate struct{ Request uint64 }

// Rotated answers Rotate as soon as clients sign with the new key, which is then the first of the two files. First: there was no key
// before. Overlap is how long the former key stays valid.
type Rotated struct {
	Request uint64
	First   bool
	Overlap time.Duration
	Failure *messages.Failure
}

// GetRequest is the number of the request.
func (r *Rotated) GetRequest() uint64 { return r.Request }

// GetFailure is the error, nil if there is none.
func (r *Rotated) GetFailure() *messages.Failure { return r.Failure }

// Config has the neighbours and ports of the actor that rotates ConfD's key.
type Config struct {
	Env    *kit.Env
	Store  *actor.PID
	Random func(count int) []byte // unpredictable octets
}

// Props describes the actor that rotates ConfD's key and is the only writer of hmac.key and hmac.key.other.
func Props(c Config) *actor.Props {
	return kit.NumberedProps(c.Env, "confdkey", func(incarnation uint32) actor.Actor {
		return &confdkey{config: c, incarnation: incarnation, store: store.NewClient(c.Store, incarnation)}
	})
}

// confdkey is the actor that replaces the key. One rotation is under way at most.
type confdkey struct {
	config      Config
	incarnation uint32
	store       *store.Client
	rotation    *rotation // nil: none is under way
	rotations   uint64    // number of the last one
}

// rotation is a change of the key that is under way, with the request that it answers.
type rotation struct {
	number      uint64
	request     uint64
	sender      *actor.PID
	former, key []byte
}

// The timers: a new key has spread; the second key is removed.
type (
	spread struct {
		incarnation uint32
		rotation    uint64
	}
	overlapped struct {
		incarnation uint32
		rotation    uint64
	}
)

func (k *confdkey) Receive(ctx actor.Context) {
	if k.store.Handle(ctx) {
		return
	}
	switch m := ctx.Message().(type) {
	case *actor.Started:
		k.store.Connect(ctx)
		k.after(ctx, Overlap, &overlapped{k.incarnation, 0})
	case *Rotate:
		k.begin(ctx, m)
	case *spread:
		if k.rotation != nil && m.incarnation == k.incarnation && m.rotation == k.rotation.number {
			k.swap(ctx)
		}
	case *overlapped:
		if k.rotation == nil && m.incarnation == k.incarnation && m.rotation == k.rotations {
			k.removeSecond(ctx)
		}
	default:
		kit.Unexpected(ctx)
	}
}

func (k *confdkey) after(ctx actor.Context, d time.Duration, timer any) {
	kit.SendAfter(k.config.Env.Clock(), ctx.ActorSystem(), d, ctx.Self(), timer)
}

func (k *confdkey) begin(ctx actor.Context, m *Rotate) {
	if k.rotation != nil && m.Request == k.rotation.request && ctx.Sender().Equal(k.rotation.sender) {
		return // a connection repeats its request after a restart of core
	}
	if k.rotation != nil {
		ctx.Respond(&Rotated{Request: m.Request, Failure: messages.GenericFailure("A rotation of the key is under way; it takes a few seconds")})
		return
	}
	k.rotations++
	k.rotation = &rotation{number: k.rotations, request: m.Request, sender: ctx.Sender(), key: confd.GenerateKey(k.config.Random)}
	k.store.Read(ctx, "confd-key", paths.ConfdKeyPath, func(ctx actor.Context, r *messages.ReadFileResult) {
		switch {
		case r.Failure != nil:
			k.end(ctx, &Rotated{Failure: r.Failure})
		case r.Missing || len(r.Content) == 0:
			k.write(ctx, func(ctx actor.Context) { k.end(ctx, &Rotated{First: true}) }, file(paths.ConfdKeyPath, k.rotation.key))
		default:
			k.rotation.former = r.Content
			// The new key is the second one at first: every node accepts it before a client signs with it.
			k.write(ctx, func(ctx actor.Context) { k.after(ctx, Spread, &spread{k.incarnation, k.rotation.number}) },
				file(paths.ConfdOtherKeyPath, k.rotation.key))
		}
	})
}

// swap makes the new key the first one. The former key is the second one before that, so that an interruption leaves a valid key.
func (k *confdkey) swap(ctx actor.Context) {
	k.write(ctx, func(ctx actor.Context) {
		k.after(ctx, Overlap, &overlapped{k.incarnation, k.rotation.number})
		k.end(ctx, &Rotated{Overlap: Overlap})
	}, file(paths.ConfdOtherKeyPath, k.rotation.former), file(paths.ConfdKeyPath, k.rotation.key))
}

func file(path string, content []byte) *messages.FileWrite {
	return &messages.FileWrite{Op: "confd-key", Path: path, Content: content}
}

// write replaces files one after the other, and then calls then. A failure ends the rotation, whose client gets it.
func (k *confdkey) write(ctx actor.Context, then func(actor.Context), files ...*messages.FileWrite) {
	if len(files) == 0 {
		then(ctx)
		return
	}
	k.store.Write(ctx, &messages.WriteFiles{Files: files[:1], Durable: true}, func(ctx actor.Context, m *messages.ChangeFilesResult) {
		if len(m.Failures) > 0 {
			k.end(ctx, &Rotated{Failure: m.Failures[0].Failure})
			return
		}
		k.write(ctx, then, files[1:]...)
	})
}

// end answers the request of the rotation that is under way. The next rotation may begin.
func (k *confdkey) end(ctx actor.Context, answer *Rotated) {
	answer.Request = k.rotation.request
	if answer.Failure == nil {
		k.config.Env.Log().WithField("duration", answer.Overlap).
			Info("key of configuration queries replaced; the former key stays valid for this time")
	}
	ctx.Send(k.rotation.sender, answer)
	k.rotation = nil
}

// removeSecond removes hmac.key.other: from then on only the first key is valid. It does nothing while a rotation is under way. After a
// failure it tries again later.
func (k *confdkey) removeSecond(ctx actor.Context) {
	k.store.Read(ctx, "confd-key", paths.ConfdOtherKeyPath, func(ctx actor.Context, r *messages.ReadFileResult) {
		if r.Missing || k.rotation != nil {
			return
		}
		remove := &messages.RemoveFiles{Op: "confd-key", Paths: []string{paths.ConfdOtherKeyPath}}
		k.store.Remove(ctx, remove, func(ctx actor.Context, m *messages.ChangeFilesResult) {
			if len(m.Failures) > 0 {
				k.config.Env.Log().WithField("err", m.Failures[0].Failure.Text).
					Warn("former key of configuration queries cannot be removed; trying again later")
				k.after(ctx, Overlap, &overlapped{k.incarnation, k.rotations})
			}
		})
	})
}

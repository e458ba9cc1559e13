// Package features is the actor that notes, on the master of a cluster, which features the versions of the members know.
//
// It owns features.json (replication.FeaturesKnown), which all nodes share. It asks the replicator for the members and their states, now
// and then and when a question needs it. It takes Ask: whether all members know a feature.
//
// A crash loses what was not written. The next incarnation reads the file and asks the members again.
package features

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/kit"
	"lockstep/actors/store"
	"lockstep/core/paths"
	"lockstep/core/replication"
	"lockstep/messages"
)

type (
	// Ask asks whether all members of the cluster know a feature. AskResult answers it.
	Ask struct {
		Request uint64
		Feature string // one of replication.Features
	}
	// AskResult answers an Ask. Lacking is a member that does not know the feature, as far as is known; "": all know it.
	AskResult struct {
		Request uint64
		Lacking string
	}
)

// GetRequest is the number of the request.
func (r *AskResult) GetRequest() uint64 { return r.Request }

// Every is the pause between two questions to the members, so that a member that was replaced by an older version is noticed.
const Every = 20 * time.Second

// Config has the neighbours of the actor that notes the features of members.
type Config struct {
	Env        *kit.Env
	Store      *actor.PID
	Replicator *actor.PID
}

// Props describes the actor that notes the features of members and is the only writer of features.json.
func Props(c Config) *actor.Props {
	return kit.NumberedProps(c.Env, "features", func(incarnation uint32) actor.Actor {
		return &features{config: c, store: store.NewClient(c.Store, incarnation), number: uint64(incarnation) << 32, open: map[uint64]question{}}
	})
}

// question is an Ask whose answer waits for the members.
type question = kit.Deferral[*Ask]

type features struct {
	config Config
	store  *store.Client

	loaded  bool
	known   replication.FeaturesKnown
	shared  bool // the file exists
	writing bool
	unsaved bool // known has changed since the write on its way has begun

	number  uint64              // of the last question to the replicator
	open    map[uint64]question // of questions to the replicator, by number; without a Message: no client waits
	waiting kit.Deferred[*Ask]  // until the file is read
}

// The timers: the file could not be read; the members are asked again.
type (
	readAgain struct{}
	askAgain  struct{}
)

const readPause = time.Second

func (f *features) Receive(ctx actor.Context) {
	if f.store.Handle(ctx) {
		return
	}
	switch m := ctx.Message().(type) {
	case *actor.Started:
		f.store.Connect(ctx)
		f.load(ctx)
	case *readAgain:
		f.load(ctx)
	case *askAgain:
		f.askEvery(ctx)
	case *Ask:
		f.take(ctx, m, ctx.Sender())
	case *messages.GetNodesResult:
		f.nodes(ctx, m)
	default:
		kit.Unexpected(ctx)
	}
}

func (f *features) after(ctx actor.Context, d time.Duration, timer any) {
	kit.SendAfter(f.config.Env.Clock(), ctx.ActorSystem(), d, ctx.Self(), timer)
}

func (f *features) load(ctx actor.Context) {
	f.store.Read(ctx, "features", paths.FeaturesPath, func(ctx actor.Context, m *messages.ReadFileResult) {
		if m.Failure != nil {
			f.config.Env.Log().WithField("err", m.Failure.Text).Error("features of the members cannot be read; reading them again")
			f.after(ctx, readPause, &readAgain{})
			return
		}
		known, err := replication.DecodeFeaturesKnown(m.Content)
		if err != nil {
			f.config.Env.Log().WithField("err", err).Warn("features of the members cannot be used; the members are asked again")
		}
		f.known, f.shared, f.loaded = known, !m.Missing, true
		f.askEvery(ctx)
		f.waiting.HandleAll(ctx, f.take)
	})
}

// askEvery asks the members for their states, also later.
func (f *features) askEvery(ctx actor.Context) {
	f.ask(ctx, true, question{})
	f.after(ctx, Every, &askAgain{})
}

// ask asks the replicator for the members, and with states each member for its state.
func (f *features) ask(ctx actor.Context, states bool, q question) {
	f.number++
	f.open[f.number] = q
	ctx.Request(f.config.Replicator, &messages.GetNodes{Request: f.number, WithStates: states})
}

func (f *features) take(ctx actor.Context, m *Ask, sender *actor.PID) {
	if !f.loaded {
		f.waiting.Add(m, sender)
		return
	}
	f.ask(ctx, false, question{Message: m, Sender: sender})
}

// nodes takes the members, with their states if they were asked for. A feature that a member lacks is asked for once more: the member may
// have been upgraded since.
func (f *features) nodes(ctx actor.Context, m *messages.GetNodesResult) {
	q, is := f.open[m.Request]
	if !is {
		return // of an earlier incarnation
	}
	delete(f.open, m.Request)
	stated := len(m.States) > 0
	if stated {
		f.state(ctx, m)
	}
	if q.Message == nil {
		return
	}
	lacking := f.known.Lacking(q.Message.Feature, m.Members)
	if lacking != "" && !stated {
		f.ask(ctx, true, q)
		return
	}
	ctx.Send(q.Sender, &AskResult{Request: q.Message.Request, Lacking: lacking})
}

func (f *features) state(ctx actor.Context, m *messages.GetNodesResult) {
	next, changed := f.known.State(m.Members, m.States)
	if f.known = next; changed {
		f.unsaved = true
	}
	if f.shared = f.shared || next.AllState(m.Members); f.shared {
		f.write(ctx)
	}
}

// write writes what is known. What changes meanwhile is written after that. A failed write is repeated with the next statements.
func (f *features) write(ctx actor.Context) {
	if f.writing || !f.unsaved {
		return
	}
	f.writing, f.unsaved = true, false
	file := &messages.FileWrite{Op: "features", Path: paths.FeaturesPath, Content: f.known.Encode()}
	f.store.Write(ctx, &messages.WriteFiles{Files: []*messages.FileWrite{file}, Durable: true},
		func(ctx actor.Context, m *messages.ChangeFilesResult) {
			if f.writing = false; len(m.Failures) > 0 {
				f.config.Env.Log().WithField("err", m.Failures[0].Failure.Text).Warn("features of the members cannot be written; trying again later")
				f.unsaved = true
				return
			}
			f.write(ctx)
		})
}

// Package configstore keeps the configuration on the disk; package journal decides what its files say (config.md 12.2, 12.16).
//
// It owns config.data, tempres.data, config.extra, config.journal and the two files of the history of this node. AddRecords adds
// records to the journal; Load, Flush, Check, Adopt and Discard are its other requests. Each answer is sent after the disk has what
// it says. Its subscribers get each configuration that is durable on this node (CopyPublished).
//
// Requests that arrive while one is being written form the next one, so that they share one sync. After a failed append the
// journal is replaced by the records before it, and only then the failure is answered. A fold writes the state to the other
// files, off the actor's own thread as far as the whole configuration is concerned, and removes its records from the journal.
//
// A fold also writes the entries of the history about its records, before config.data and beside the other files. No change waits
// for the history. After a crash the records are folded again, and entries that the files have are not written twice. Entries whose
// write fails stay in memory until the next fold.
//
// After a crash it reads its files: every answered record is there, and no record that was refused or has failed. Clients repeat
// their open requests.
package configstore

import (
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/kit"
	"lockstep/actors/store"
	"lockstep/core/config/journal"
	"lockstep/core/config/model"
	"lockstep/messages"
)

// Config has the neighbours and ports of the actor that keeps the configuration on this node's disk. Store is the store of this node,
// also in a cluster. Clients are sent each new incarnation.
type Config struct {
	Env     *kit.Env
	Store   *actor.PID
	Clients []*actor.PID
	// Subscribers are sent CopyPublished after each change.
	Subscribers []*actor.PID
	// Secrets returns the names of the parameters that are declared secret: the history has none of their values. It is called on
	// the thread of the codec. nil: no parameter is declared secret.
	Secrets func() []string
	// Prepared is what the first load finds if the files have not changed; nil: it is unknown.
	Prepared *Prepared
}

// Props describes the actor that keeps the configuration on this node's disk. If it fails too often, its supervisor fails with it.
func Props(c Config) *actor.Props {
	return kit.NumberedProps(c.Env, "configstore", func(incarnation uint32) actor.Actor {
		return &configstore{config: c, incarnation: incarnation, store: store.NewClient(c.Store, incarnation)}
	}, kit.Supervise(c.Env.Strategy(kit.Policy{OnGiveUp: kit.Escalate})))
}

// configstore is the state of the actor: the position that its files have together, what is being written, and the requests that wait for
// that.
type configstore struct {
	config      Config
	incarnation uint32
	store       *store.Client
	codec       codecClient

	ready    bool              // the files are read and agree with the fields below
	failure  *messages.Failure // why the files cannot be used; nil: they can, or are being read
	tries    int               // failed reads in a row
	requests kit.Deferred[any] // not handled yet, in order

	at      journal.Position // the durable state
	isEmpty bool             // there is no config.data
	file    file
	journal journalFile
	folds   folds
	history historyFile

	published *model.Config // as sent to the subscribers last; nil: none yet

	draining *actor.PID
}

// retryLoad is a timer after a failed read of the files.
type retryLoad struct{ incarnation uint32 }

func (k *configstore) Receive(ctx actor.Context) {
	if k.store.Handle(ctx) {
		k.proceed(ctx)
		return
	}
	switch m := ctx.Message().(type) {
	case *actor.Started:
		k.start(ctx)
	case *Announce:
		ctx.Respond(&Started{uint64(k.incarnation)})
	case *Load, *AddRecords, *Commit, *Flush, *Check, *Export, *Adopt, *Discard, *Reload:
		k.requests.Add(m, ctx.Sender())
	case *encoded, *parsed, *recovered, *installed:
		k.codec.answered(ctx, m)
	case *PublishCopy:
		if k.published != nil {
			ctx.Respond(&CopyPublished{k.published})
		}
	case *retryLoad:
		if m.incarnation == k.incarnation && k.failure != nil && !k.file.isAdopting {
			k.load(ctx)
		}
	case *retryRewrite:
		if m.incarnation == k.incarnation && k.journal.waits && m.tries == k.journal.tries {
			k.rewrite(ctx)
		}
	case *foldDue:
		k.foldDue(m)
	case *messages.Drain:
		k.draining, k.folds.failure = ctx.Sender(), nil
	default:
		kit.Unexpected(ctx)
	}
	k.proceed(ctx)
}

func (k *configstore) start(ctx actor.Context) {
	props := k.config.Env.Props("codec", func() actor.Actor { return &codec{secrets: k.config.Secrets, prepared: k.config.Prepared} })
	pid, err := ctx.SpawnNamed(props, fmt.Sprintf("codec.%d", k.incarnation))
	if err != nil {
		panic(fmt.Errorf("spawn codec: %w", err))
	}
	k.codec = codecClient{pid: pid, last: uint64(k.incarnation) << 32}
	kit.Publish(ctx, k.config.Clients, &Started{uint64(k.incarnation)})
	k.store.Connect(ctx)
	k.load(ctx)
}

// proceed does what is possible now: it replaces a journal of unknown content, handles requests, begins folds, and ends the drain.
func (k *configstore) proceed(ctx actor.Context) {
	if k.failure != nil {
		k.refuseAll(ctx)
	}
	switch {
	case !k.journal.waits:
	case k.wantsRecords():
		k.rewrite(ctx)
	default:
		k.serveReads(ctx)
	}
	if k.ready && !k.journal.writing {
		if k.journal.isUnsure {
			k.rewrite(ctx)
		} else {
			k.serve(ctx)
		}
	}
	k.publish(ctx)
	k.schedule(ctx)
	k.sendDrained(ctx)
}

// publish sends the subscribers a new state once it is durable. A journal of unknown content may lack a record of the state.
func (k *configstore) publish(ctx actor.Context) {
	if !k.ready || k.isEmpty || k.journal.isUnsure || k.at.Config == k.published {
		return
	}
	k.published = k.at.Config
	kit.Publish(ctx, k.config.Subscribers, &CopyPublished{k.published})
}

// serve handles the waiting requests in the order of their arrival, until one of them has to wait for the disk.
func (k *configstore) serve(ctx actor.Context) {
	for len(k.requests) > 0 && k.ready && !k.journal.writing && !k.file.isAdopting {
		r := k.requests[0]
		switch m := r.Message.(type) {
		case *AddRecords:
			if !k.addAll(ctx) {
				return
			}
			continue // it has taken its requests
		case *Commit:
			if !k.commit(ctx, r.Sender, m) {
				return
			}
		case *Load:
			ctx.Send(r.Sender, k.loaded(m.Request))
		case *Reload:
			if k.file.busy || k.folds.wanted {
				return
			}
			k.ready = false
			k.requests[0].Message = &Load{m.Request}
			k.load(ctx)
			return
		case *Flush:
			k.folds.want(func(ctx actor.Context, f *messages.Failure) { ctx.Send(r.Sender, &Flushed{m.Request, f}) }, false)
		case *Discard:
			k.folds.want(func(ctx actor.Context, f *messages.Failure) {
				ctx.Send(r.Sender, &ForeignResolved{m.Request, k.file.resolved, f})
			}, true)
		case *Check:
			k.check(ctx, func(ctx actor.Context, f *messages.Failure) {
				ctx.Send(r.Sender, &Checked{m.Request, k.file.foreign, f})
			})
		case *Export:
			if k.file.busy {
				return
			}
			k.export(ctx, m, func(ctx actor.Context, answer *Exported) { ctx.Send(r.Sender, answer) })
		case *Adopt:
			if k.file.busy {
				return
			}
			k.adopt(ctx, func(ctx actor.Context, f *messages.Failure) {
				ctx.Send(r.Sender, &ForeignResolved{m.Request, k.file.resolved, f})
			})
		}
		k.requests = k.requests[1:]
	}
}

func (k *configstore) loaded(request uint64) *Loaded {
	return &Loaded{Request: request, State: k.at.State, Number: k.at.Number, Missing: k.isEmpty}
}

// refuseAll answers all requests while the files cannot be used. A whole state replaces the files.
func (k *configstore) refuseAll(ctx actor.Context) {
	for len(k.requests) > 0 && !k.file.isAdopting {
		r := k.requests[0]
		k.requests = k.requests[1:]
		if m, is := r.Message.(*Commit); is && m.hasWhole() {
			k.install(ctx, r.Sender, m)
		} else {
			ctx.Send(r.Sender, failed(r.Message, k.failure))
		}
	}
}

// failed returns the answer to a request that has failed, of the type that the request expects.
func failed(request any, f *messages.Failure) any {
	switch m := request.(type) {
	case *Load:
		return &Loaded{Request: m.Request, Failure: f}
	case *Reload:
		return &Loaded{Request: m.Request, Failure: f}
	case *AddRecords:
		return &AddRecordsResult{Request: m.Request, Failure: f}
	case *Commit:
		return &Committed{Request: m.Request, Failure: f}
	case *Export:
		return &Exported{Request: m.Request, Failure: f}
	case *Flush:
		return &Flushed{m.Request, f}
	case *Check:
		return &Checked{Request: m.Request, Failure: f}
	case *Adopt:
		return &ForeignResolved{Request: m.Request, Failure: f}
	case *Discard:
		return &ForeignResolved{Request: m.Request, Failure: f}
	default:
		panic(fmt.Sprintf("configstore: no request: %T", request))
	}
}

// sendDrained ends the drain when the journal is empty, or cannot be folded.
func (k *configstore) sendDrained(ctx actor.Context) {
	isIdle := len(k.requests) == 0 && !k.journal.writing && !k.journal.isUnsure && !k.file.busy
	if k.draining == nil || k.failure == nil && (!k.ready || !isIdle || len(k.journal.open) > 0 && !k.folds.hasFailed()) {
		return
	}
	ctx.Request(k.draining, &messages.DrainResult{})
	k.draining = nil
}

func (k *configstore) now() time.Time { return k.config.Env.Clock().Now() }

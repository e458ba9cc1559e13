// Package ssconf is the actor that writes the ssconf files of its node in lockstep's own mode (config.md 9). In Ganeti
// mode the node daemons write them, and the actor is not in the tree. There are no files about hypervisors: nothing in lockstep's own mode
// reads them. After a start the actor removes those that an earlier version has written; that version writes them again at its start.
//
// It owns the files ssconf_* of the data directory, and is their only writer. The storage of the configuration on this node tells
// it each configuration that is durable there (configstore.CopyPublished), in a cluster on each node. The actor computes the
// values, and writes the files whose content differs from what it wrote last. It writes all files once after each start. It answers
// no requests.
//
// A crash between two files leaves files of two configurations, until the start of the daemon writes all of them.
//
// Configurations that are published within Interval are computed once, the latest one. Files are replaced atomically and
// not synced durably: after a power loss the start of the daemon writes them. After a failed write the actor tries again,
// with growing pauses. After a crash it asks for the configuration again, and writes all files.
package ssconf

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"lockstep/actors/config/configstore"
	"lockstep/actors/kit"
	"lockstep/actors/store"
	"lockstep/core/config/model"
	coressconf "lockstep/core/config/ssconf"
	"lockstep/messages"
)

// Interval is the pause between two computations.
const Interval = 100 * time.Millisecond

// Config has the neighbours of the actor that writes ssconf files.
type Config struct {
	Env         *kit.Env
	Store       *actor.PID // of this node: the files are not replicated
	ConfigStore *actor.PID // of this node, which has the actor as a subscriber
	Release     string     // version of Ganeti that the nodes' tools expect: "3.0.2"
}

// Props describes the actor that writes this node's ssconf files and is their only writer.
func Props(c Config) *actor.Props {
	return kit.NumberedProps(c.Env, "ssconf", func(incarnation uint32) actor.Actor {
		return &ssconf{config: c, incarnation: incarnation, store: store.NewClient(c.Store, incarnation), written: map[string]string{}}
	})
}

// ssconf is the actor. It is idle, writing, or in the pause after that.
type ssconf struct {
	config      Config
	store       *store.Client
	incarnation uint32

	latest   *model.Config     // as published last; nil: none yet
	computed *model.Config     // to which files belongs; nil: none yet
	files    []coressconf.File // of computed
	written  map[string]string // content by path that is on the disk; no entry: unknown
	busy     bool              // writing or in a pause
	failures int               // failed writes in a row
	refused  int               // number of values that were too long at the last computation
}

// pauseEnded is the timer of a pause.
type pauseEnded struct{ incarnation uint32 }

func (w *ssconf) Receive(ctx actor.Context) {
	if w.store.Handle(ctx) {
		return
	}
	switch m := ctx.Message().(type) {
	case *actor.Started:
		w.store.Connect(ctx)
		ctx.Request(w.config.ConfigStore, &configstore.PublishCopy{})
	case *configstore.CopyPublished:
		w.latest = m.Config
		w.update(ctx)
	case *pauseEnded:
		if m.incarnation == w.incarnation {
			w.busy = false
			w.update(ctx)
		}
	default:
		kit.Unexpected(ctx)
	}
}

// update writes the files that differ from the latest configuration, unless the actor is busy. After each write there is a pause.
func (w *ssconf) update(ctx actor.Context) {
	if w.busy || w.latest == nil || w.latest == w.computed && w.failures == 0 {
		return
	}
	w.busy = true
	if w.computed == nil {
		w.removeFormer(ctx)
	}
	if w.computed == nil || !coressconf.Unchanged(w.computed, w.latest) {
		w.compute()
	}
	w.computed = w.latest
	write := &messages.WriteFiles{}
	for _, f := range w.files {
		if content, known := w.written[f.Name]; !known || content != f.Content {
			write.Files = append(write.Files, &messages.FileWrite{Op: "ssconf", Path: f.Name, Content: []byte(f.Content)})
		}
	}
	if len(write.Files) == 0 {
		w.failures = 0
		w.pause(ctx, Interval)
		return
	}
	w.store.Write(ctx, write, func(ctx actor.Context, m *messages.ChangeFilesResult) { w.wrote(ctx, write, m.Failures) })
}

// removeFormer removes the files that earlier versions wrote. If that fails, the next start tries again.
func (w *ssconf) removeFormer(ctx actor.Context) {
	remove := &messages.RemoveFiles{Op: "ssconf", Paths: coressconf.FilesOfHypervisors(), Unsynced: true}
	w.store.Remove(ctx, remove, func(_ actor.Context, m *messages.ChangeFilesResult) {
		if len(m.Failures) > 0 {
			w.config.Env.Log().WithFields(logrus.Fields{"path": m.Failures[0].Path, "err": m.Failures[0].Failure}).
				Warn("a file of an earlier version cannot be removed; the next start tries again")
		}
	})
}

func (w *ssconf) compute() {
	values := coressconf.Of(w.latest, w.config.Release).WithoutHypervisors()
	files, err := values.Files()
	refused := len(values) - len(files)
	if refused > w.refused {
		w.config.Env.Log().WithField("err", err).Error("ssconf values are too long; their files keep their content")
	}
	w.files, w.refused = files, refused
}

// wrote records what is on the disk, and begins the pause. A failed write leaves the old content or the new one, so the file counts as
// unknown and is written again.
func (w *ssconf) wrote(ctx actor.Context, write *messages.WriteFiles, failures []*messages.FileFailure) {
	for _, f := range write.Files {
		w.written[f.Path] = string(f.Content)
	}
	if len(failures) == 0 {
		w.failures = 0
		w.pause(ctx, Interval)
		return
	}
	for _, f := range failures {
		delete(w.written, f.Path)
	}
	delay := kit.Backoff(w.failures)
	w.failures++
	w.config.Env.Log().WithFields(logrus.Fields{"path": failures[0].Path, "err": failures[0].Failure, "files": len(failures), "delay": delay}).
		Error("write of ssconf files failed; they are written again after a pause")
	w.pause(ctx, delay)
}

func (w *ssconf) pause(ctx actor.Context, d time.Duration) {
	kit.SendAfter(w.config.Env.Clock(), ctx.ActorSystem(), d, ctx.Self(), &pauseEnded{w.incarnation})
}

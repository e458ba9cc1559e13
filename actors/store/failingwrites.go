package store

import (
	"maps"
	"path"
	"time"

	"lockstep/actors/kit"
	"lockstep/messages"
)

// writeKind is what a request does to the disk. A disk without room refuses new files, but may take a few bytes at the end
// of a file, and removes files.
type writeKind uint8

const (
	noWrite writeKind = iota
	appends
	replaces
)

// quietAfter is for how long writes must have succeeded before another failure is logged as a new one. A directory in which no write has
// failed for that time, while one elsewhere has succeeded, counts as one with room.
const quietAfter = time.Minute

// failingWrites remembers that writes of one kind fail, until one succeeds in each directory in which one has failed: directories may be
// on different disks. The caller of each write has its error; this is for the operator.
type failingWrites struct {
	kind  writeKind            // of the latest failed write
	dirs  map[string]time.Time // the latest failure in each directory; empty: files can be written
	text  string               // of the latest failure
	since time.Time            // of the first failure
	last  time.Time            // of the latest failure; zero: none has failed
}

// answered takes the end of a request, and follows whether files can be written. The begin and the end of a time in which they cannot are
// logged.
func (w *failingWrites) answered(env *kit.Env, kind writeKind, written []string, failures []*messages.FileFailure) {
	now := env.Clock().Now()
	switch {
	case kind == noWrite:
	case len(failures) > 0:
		w.failed(env, now, failures)
		w.kind = kind
	case kind == w.kind && len(w.dirs) > 0:
		for _, file := range written {
			delete(w.dirs, path.Dir(file))
		}
		maps.DeleteFunc(w.dirs, func(_ string, failed time.Time) bool { return now.Sub(failed) >= quietAfter })
		if len(w.dirs) == 0 {
			env.Log().WithField("after", now.Sub(w.since).Round(time.Millisecond)).Info("files of the daemon can be written again")
		}
	}
}

func (w *failingWrites) failed(env *kit.Env, now time.Time, failures []*messages.FileFailure) {
	if len(w.dirs) == 0 {
		w.since, w.dirs = now, map[string]time.Time{}
		if w.last.IsZero() || now.Sub(w.last) >= quietAfter {
			env.Log().WithField("err", failures[0].Failure.Text).
				Error("file of the daemon cannot be written; requests that need it fail until it can")
		}
	}
	for _, f := range failures {
		w.dirs[path.Dir(f.Path)] = now
	}
	w.text, w.last = failures[0].Failure.Text, now
}

func (w *failingWrites) list() []*messages.FailingWrite {
	if len(w.dirs) == 0 {
		return nil
	}
	return []*messages.FailingWrite{{Text: w.text, SinceUs: w.since.UnixMicro()}}
}

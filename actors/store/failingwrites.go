package store

import (
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

// quietAfter is for how long writes must have succeeded before another failure is logged as a new one.
const quietAfter = time.Minute

// failingWrites remembers that writes of one kind fail, until one succeeds. The caller of each has its error; this is for
// the operator.
type failingWrites struct {
	kind  writeKind // of the failed write; noWrite: the latest write of the failed kind has succeeded
	text  string    // of the latest failure
	since time.Time // of the first failure
	last  time.Time // of the latest failure; zero: none has failed
}

// answered takes the end of a request, and follows whether files can be written. The begin and the end of a time in which they cannot are
// logged.
func (w *failingWrites) answered(env *kit.Env, kind writeKind, failures []*messages.FileFailure) {
	now := env.Clock().Now()
	switch {
	case kind == noWrite:
	case len(failures) > 0:
		if w.kind == noWrite {
			w.since = now
			if w.last.IsZero() || now.Sub(w.last) >= quietAfter {
				env.Log().WithField("err", failures[0].Failure.Text).
					Error("file of the daemon cannot be written; requests that need it fail until it can")
			}
		}
		w.kind, w.text, w.last = kind, failures[0].Failure.Text, now
	case kind == w.kind:
		w.kind = noWrite
		env.Log().WithField("after", now.Sub(w.since).Round(time.Millisecond)).Info("files of the daemon can be written again")
	}
}

func (w *failingWrites) list() []*messages.FailingWrite {
	if w.kind == noWrite {
		return nil
	}
	return []*messages.FailingWrite{{Text: w.text, SinceUs: w.since.UnixMicro()}}
}

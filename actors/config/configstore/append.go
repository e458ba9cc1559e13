package configstore

import (
	"errors"
	"slices"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"lockstep/actors/kit"
	"lockstep/core/config/journal"
	"lockstep/core/config/model"
	"lockstep/core/paths"
	"lockstep/messages"
)

const (
	// writeMax is the length of an append in bytes from which further requests wait for the next one.
	writeMax = 32 << 20
	// openMax is the length of the journal in bytes from which appends wait for a fold.
	openMax = 256 << 20
)

// entry is a record in the journal that is not folded. before and after are the configurations around it.
type entry struct {
	record        *journal.Record
	line          journal.Line
	before, after *model.Config
}

// journalFile is config.journal.
//
// Invariant: unless writing or isUnsure, the file has exactly the lines of open, durably.
type journalFile struct {
	open     []entry
	length   int  // of open in bytes
	writing  bool // a write of the file is under way, or is repeated after a pause
	isUnsure bool // the content of the file is unknown, or has folded records: it must be replaced before the next append
	tries    int  // failed replacements in a row
	waits    bool // for the next replacement, after a failed one; writing is true
	unsynced bool // what was read at the start may not be durable
	answers  []func(actor.Context)
}

// retryRewrite is a timer after a failed replacement of the journal.
type retryRewrite struct {
	incarnation uint32
	tries       int
}

func (j *journalFile) add(e entry) {
	j.open = append(j.open, e)
	j.length += len(e.line.Bytes)
}

// drop removes the first records, which are folded, from memory. The file still has them, so it is rewritten later.
func (j *journalFile) drop(count int) {
	for _, e := range j.open[:count] {
		j.length -= len(e.line.Bytes)
	}
	j.open = append([]entry(nil), j.open[count:]...)
	j.isUnsure = j.isUnsure || count > 0
}

// journalWrite is the records of one write to the journal.
type journalWrite struct {
	at      journal.Position // after all its records
	entries []entry
	content []byte
	answers []reply
}

// reply answers a request after the write. f is the failure of the write.
type reply func(ctx actor.Context, f *messages.Failure)

func (m *AddRecordsResult) replyTo(to *actor.PID) reply {
	return func(ctx actor.Context, f *messages.Failure) {
		if f != nil && !m.Refused && m.Failure == nil {
			m.Failure = f
		}
		ctx.Send(to, m)
	}
}

// addAll writes the records of the requests at the head of the queue, for which one append is enough. It reports true if all these
// requests are answered, and false if they wait for a fold, or are being written.
func (k *configstore) addAll(ctx actor.Context) bool {
	if f := k.cannotAdd(); f != nil {
		r := k.requests[0]
		k.requests = k.requests[1:]
		ctx.Send(r.Sender, failed(r.Message, f))
		return true
	}
	if k.file.isFilled || k.journal.length > openMax {
		k.folds.want(nil, false)
		return false
	}
	b := &journalWrite{at: k.at}
	for len(k.requests) > 0 && len(b.content) < writeMax {
		r := k.requests[0]
		m, is := r.Message.(*AddRecords)
		if !is {
			break
		}
		k.requests = k.requests[1:]
		b.answers = append(b.answers, b.add(m).replyTo(r.Sender))
	}
	if len(b.entries) == 0 {
		b.answer(ctx, nil)
		return true
	}
	k.write(ctx, b)
	return false
}

// cannotAdd returns why no record is accepted now; nil: records are accepted.
func (k *configstore) cannotAdd() *messages.Failure {
	switch {
	case k.file.foreign != nil:
		return k.file.foreign
	case (k.file.isFilled || k.journal.length > openMax) && k.folds.hasFailed() && k.now().Before(k.folds.notBefore):
		return k.folds.failure
	}
	return nil
}

// add adds the records of a request, all or none of them, and returns its answer for after the write. Refused: the first does not fit the
// position.
func (b *journalWrite) add(m *AddRecords) *AddRecordsResult {
	at, steps, err := b.at.ApplyAll(m.Records, len(b.content) == 0)
	switch {
	case errors.As(err, new(*journal.UnfitError)):
		return &AddRecordsResult{Request: m.Request, Refused: true}
	case err != nil:
		return &AddRecordsResult{Request: m.Request, Failure: messages.ConfigurationFailure(err.Error())}
	}
	b.take(at, steps)
	return &AddRecordsResult{Request: m.Request}
}

// take adds records that lead to a position, which becomes that of the write.
func (b *journalWrite) take(at journal.Position, steps []journal.Step) {
	b.at = at
	for _, s := range steps {
		b.entries = append(b.entries, entry{s.Record, s.Line, s.Before.Config, s.After.Config})
		b.content = append(b.content, s.Line.Bytes...)
	}
}

// answer sends the answers. f is the failure of the write.
func (b *journalWrite) answer(ctx actor.Context, f *messages.Failure) {
	for _, reply := range b.answers {
		reply(ctx, f)
	}
}

// write appends to the journal, unless another program has changed config.data. A fold that is under way examines the file
// itself, and so does the next one if the file cannot be examined now.
func (k *configstore) write(ctx actor.Context, b *journalWrite) {
	k.journal.writing = true
	if k.file.busy {
		k.writeJournal(ctx, b)
		return
	}
	k.file.busy = true
	// Before the append: a record that follows on content which another program has replaced could never be folded.
	k.examine(ctx, func(ctx actor.Context, _ *messages.Failure) {
		k.file.busy = false
		if k.file.foreign != nil {
			k.journal.writing = false
			b.answer(ctx, k.file.foreign)
			return
		}
		k.writeJournal(ctx, b)
	})
}

// writeJournal appends to the journal and answers. A success makes the position of the write the present one. If the content of the file
// is not certain, the answers wait until it is rewritten. A restart of the store in between may have written the records twice.
func (k *configstore) writeJournal(ctx actor.Context, b *journalWrite) {
	k.journal.writing = true
	incarnation := k.store.StoreIncarnation()
	k.store.Append(ctx, &messages.AppendFile{Op: "config-journal", Path: paths.ConfigJournalPath, Content: b.content, Durable: true},
		func(ctx actor.Context, done *messages.ChangeFilesResult) {
			k.journal.writing = false
			var f *messages.Failure
			if len(done.GetFailures()) > 0 {
				f = cannotWrite(done.Failures[0])
				k.config.Env.Log().WithFields(logrus.Fields{"err": done.Failures[0].Failure.Text, "serial": k.at.Point().Serial}).Error(
					"journal of the configuration cannot be written; the changes fail")
			} else {
				// Only when the records are durable, because the next ones follow on this position.
				k.at = b.at
				for _, e := range b.entries {
					k.journal.add(e)
				}
			}
			isKnown := f == nil || done.Failures[0].Unchanged
			if isKnown && incarnation == k.store.StoreIncarnation() {
				b.answer(ctx, f)
				return
			}
			// The file may have the records not at all, in part or twice. It is replaced first, and the answer waits for that: until then neither
			// success nor failure is certain.
			k.journal.isUnsure = true
			k.journal.answers = append(k.journal.answers, func(ctx actor.Context) { b.answer(ctx, f) })
		})
}

func cannotWrite(f *messages.FileFailure) *messages.Failure {
	return messages.ConfigurationFailure("The change cannot be written, so nothing was changed: " + f.Failure.Text)
}

// wantsRecords reports whether a client waits for its records to be written.
func (k *configstore) wantsRecords() bool {
	return slices.ContainsFunc(k.requests, func(r kit.Deferral[any]) bool { _, is := r.Message.(*AddRecords); return is })
}

// refuseRecords answers with a failure the AddRecords that have not begun, and drops them.
func (k *configstore) refuseRecords(ctx actor.Context, f *messages.Failure) {
	k.requests = slices.DeleteFunc(k.requests, func(r kit.Deferral[any]) bool {
		_, is := r.Message.(*AddRecords)
		if is {
			ctx.Send(r.Sender, failed(r.Message, f))
		}
		return is
	})
}

// syncRead makes durable what was read at the start although the journal cannot be replaced: that needs no room on the disk. An empty
// append syncs the file and its directory.
func (k *configstore) syncRead(ctx actor.Context) {
	if !k.journal.unsynced {
		return
	}
	request := &messages.AppendFile{Op: "config-sync", Path: paths.ConfigJournalPath, Durable: true}
	k.store.Append(ctx, request, func(_ actor.Context, done *messages.ChangeFilesResult) {
		k.journal.unsynced = k.journal.unsynced && len(done.GetFailures()) > 0
	})
}

// serveReads answers while the journal cannot be replaced: loads, once what was read at the start is durable, and checks, with
// what is known of config.data.
func (k *configstore) serveReads(ctx actor.Context) {
	k.requests = slices.DeleteFunc(k.requests, func(r kit.Deferral[any]) bool {
		switch m := r.Message.(type) {
		case *Load:
			if k.journal.unsynced {
				return false
			}
			ctx.Send(r.Sender, k.loaded(m.Request))
		case *Check:
			ctx.Send(r.Sender, &Checked{m.Request, k.file.foreign, nil})
		default:
			return false
		}
		return true
	})
}

// rewrite replaces the journal by the records that are not folded. It is repeated until it succeeds: after a pause, and when a client wants
// to append. If it fails, the records that wait to be appended are refused, and the state is told to clients that load it.
func (k *configstore) rewrite(ctx actor.Context) {
	k.journal.writing, k.journal.waits = true, false
	count := len(k.journal.open)
	done := func(ctx actor.Context, done *messages.ChangeFilesResult) {
		if len(done.GetFailures()) > 0 {
			delay := kit.Backoff(k.journal.tries)
			k.journal.tries++
			k.journal.waits = true
			k.config.Env.Log().WithFields(logrus.Fields{"err": done.Failures[0].Failure.Text, "delay": delay}).Error(
				"journal of the configuration cannot be replaced; changes fail until it can")
			kit.SendAfter(k.config.Env.Clock(), ctx.ActorSystem(), delay, ctx.Self(), &retryRewrite{k.incarnation, k.journal.tries})
			k.refuseRecords(ctx, cannotWrite(done.Failures[0]))
			k.syncRead(ctx)
			return
		}
		k.journal.writing, k.journal.tries, k.journal.unsynced = false, 0, false
		k.journal.isUnsure = count != len(k.journal.open) // a fold has ended meanwhile
		answers := k.journal.answers
		k.journal.answers = nil
		// The file has exactly the open records now, so that what is answered stays true.
		for _, answer := range answers {
			answer(ctx)
		}
	}
	if count == 0 {
		k.store.Remove(ctx, &messages.RemoveFiles{Op: "config-journal", Paths: []string{paths.ConfigJournalPath}}, done)
		return
	}
	content := make([]byte, 0, k.journal.length)
	for _, e := range k.journal.open {
		content = append(content, e.line.Bytes...)
	}
	data := &messages.FileWrite{Op: "config-journal", Path: paths.ConfigJournalPath, Content: content}
	k.store.Write(ctx, &messages.WriteFiles{Files: []*messages.FileWrite{data}, Durable: true}, done)
}

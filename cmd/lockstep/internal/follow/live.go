package follow

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"lockstep/cmd/lockstep/internal/client"
	"lockstep/core/answer"
	"lockstep/core/job"
	"lockstep/core/outflow"
)

const (
	// followerPatience is how long the process of a job may take to send something to the client that follows it. It waits for the client
	// for 30 seconds.
	followerPatience = 35 * time.Second
	// readerPatience is the same for another reader, for which the process does not wait.
	readerPatience = 2 * time.Second
)

// LiveView shows a job that is followed.
type LiveView interface {
	ShowChange(c Change)
	StreamBegins(at outflow.Position)
	ShowPiece(p Piece)
	ShowRest(entries []LogEntry)
	// Keeps reports whether the kept files have all output that the log has lost, as entries of it say.
	Keeps(entries []LogEntry) bool
}

// Live brings together the changes of a job and the Stream of its output, for a view. It has no goroutine: the owner passes on what comes
// of Changes, Pieces and Timer until one of them is done, and calls Finish then.
//
// A log that has lost output is held back for a while until the Stream begins, which may have that output, unless the files have it.
type Live struct {
	View LiveView
	// Follows: this client has submitted the job, so that its commands wait for it. The stream is opened at once, otherwise when the job runs.
	Follows bool
	Open    func() *Stream // for each try of a command; nil: there is no stream to read
	// Ask begins to ask for the progress of the command, when the job runs; nil: it is not shown.
	Ask func() <-chan []answer.ListedJob
	// ShowProgress shows what Progress brings: the job, with the progress of its command.
	ShowProgress func([]answer.ListedJob)
	After        func(time.Duration) <-chan time.Time

	stream   *Stream // nil: it is not open, or has ended
	opened   bool    // the stream of this try was
	next     *Change // what follows the end of a try; the end of the stream of the try is awaited
	streamed bool    // it has begun
	complete bool    // it has brought all that there is
	broken   bool    // its connection is lost
	held     *Change // waits for the beginning of the stream
	gaveUp   bool    // changes are not held any more
	last     Change  // the latest one that was shown
	ended    bool    // the job has; the end of the stream is awaited
	lacks    bool    // the log has lost output
	cut      bool    // the process of the job has died
	timer    <-chan time.Time
	progress <-chan []answer.ListedJob // nil: it is not asked for
}

// Changes are the updates while one may be shown; then nil.
func (l *Live) Changes(updates <-chan Update) <-chan Update {
	if l.held != nil || l.next != nil || l.ended {
		return nil
	}
	return updates
}

// Pieces are those of the stream; nil: there is none.
func (l *Live) Pieces() <-chan Piece {
	if l.stream == nil {
		return nil
	}
	return l.stream.Pieces
}

// Progress brings what ShowProgress takes.
func (l *Live) Progress() <-chan []answer.ListedJob { return l.progress }

// Timer says that TimeIsUp is due.
func (l *Live) Timer() <-chan time.Time { return l.timer }

// Start opens the stream of a job that this client has submitted.
func (l *Live) Start() {
	if l.Open != nil && !l.opened {
		l.stream, l.opened = l.Open(), true
	}
}

// Close ends the stream.
func (l *Live) Close() {
	if l.stream != nil {
		l.stream.Close()
		l.stream = nil
	}
}

// Change takes the next change of the job.
func (l *Live) Change(c Change) (done bool) {
	if c.Status == client.StatusRunning || c.Status == client.StatusCanceling {
		l.Start()
		if l.Ask != nil {
			l.progress, l.Ask = l.Ask(), nil
		}
	}
	if at := slices.IndexFunc(c.Entries, func(e LogEntry) bool { return typeOf(e) == job.LogTry }); at >= 0 {
		return l.tryEnds(c, at)
	}
	return l.change(c)
}

// tryEnds takes a change whose entry at says that a try has ended. What follows it waits for the end of the stream, which belongs to the
// try.
func (l *Live) tryEnds(c Change, at int) (done bool) {
	before, after := c, c
	before.Final = false
	before.Entries, after.Entries = c.Entries[:at], c.Entries[at:]
	l.next = &after
	if len(before.Entries) > 0 {
		l.change(before)
	}
	if l.held == nil {
		return l.awaitTry()
	}
	return false
}

// awaitTry waits for the rest of the stream of a try that has ended.
func (l *Live) awaitTry() (done bool) {
	if l.stream == nil || !l.streamed || l.broken {
		return l.nextTry()
	}
	l.timer = l.After(followerPatience)
	return false
}

// nextTry goes on after a try.
func (l *Live) nextTry() (done bool) {
	l.Close()
	c := l.next
	l.next, l.timer, l.opened = nil, nil, false
	l.streamed, l.complete, l.broken, l.gaveUp, l.lacks, l.cut = false, false, false, false, false, false
	if l.Follows {
		l.Start()
	}
	note, rest := *c, *c
	note.Entries, note.Final, rest.Entries = c.Entries[:1], false, c.Entries[1:]
	l.show(note)
	return l.Change(rest)
}

// change takes a change within a try.
func (l *Live) change(c Change) (done bool) {
	lacks := has(c.Entries, job.LogMissing)
	l.lacks, l.cut = l.lacks || lacks, l.cut || has(c.Entries, job.LogCut)
	if lacks && !l.streamed && !l.gaveUp && l.stream != nil && l.stream.Connected() && !l.View.Keeps(c.Entries) {
		l.held, l.timer = &c, l.After(l.patience())
		return false
	}
	return l.show(c)
}

func (l *Live) patience() time.Duration {
	if l.Follows {
		return followerPatience
	}
	return readerPatience
}

func has(entries []LogEntry, typ string) bool {
	return slices.ContainsFunc(entries, func(e LogEntry) bool { return typeOf(e) == typ })
}

// typeOf is the type of a log entry outside Ganeti's form.
func typeOf(e LogEntry) string {
	typ, _ := job.FromMessage(e.Type, e.Payload)
	return typ
}

// show shows a change; of the last one only the entries, because output may follow.
func (l *Live) show(c Change) (done bool) {
	l.last, l.ended = c, c.Final
	c.Final = false
	if !l.ended || len(c.Entries) > 0 {
		l.View.ShowChange(c)
	}
	if !l.ended {
		return false
	}
	if l.stream == nil || !l.streamed || l.broken && !l.isAwaited() {
		return true
	}
	l.timer = l.After(followerPatience)
	return false
}

// isAwaited reports whether the process of the job waits for this client, which has lost its connection, until all output is taken: at its
// end it does so if the log lacks some.
func (l *Live) isAwaited() bool { return l.Follows && l.lacks && !l.cut }

// release shows what was held.
func (l *Live) release() (done bool) {
	c := l.held
	l.held, l.timer = nil, nil
	if c == nil {
		return false
	}
	done = l.show(*c)
	if l.next != nil {
		return l.awaitTry()
	}
	return done
}

// Piece takes the next piece of the stream.
func (l *Live) Piece(p Piece) (done bool) {
	if l.broken = p.Lost; p.Lost && l.next != nil && l.held == nil {
		return l.nextTry()
	} else if p.Lost {
		if l.ended && l.isAwaited() {
			l.timer = l.After(followerPatience) // the former one may be over
			return false
		}
		return l.ended
	}
	if !l.streamed {
		l.streamed = true
		l.View.StreamBegins(p.At)
		l.release()
	}
	l.View.ShowPiece(p)
	l.stream.Taken()
	switch {
	case p.Ends():
		l.complete = true
		l.Close()
		if l.next != nil && l.held == nil {
			return l.nextTry()
		}
		return l.ended
	case l.ended:
		l.timer = l.After(followerPatience) // writing it may have taken long
	}
	return false
}

// TimeIsUp ends a wait, unless what it was for has come in the meantime.
func (l *Live) TimeIsUp() (done bool) {
	select {
	case p := <-l.Pieces():
		return l.Piece(p)
	default:
	}
	l.gaveUp = true
	switch {
	case l.held != nil:
		return l.release()
	case l.next != nil:
		return l.nextTry()
	}
	return l.ended
}

// Finish shows the rest of a stream that has not brought its end, from the log of the job, and then the end of the job.
func (l *Live) Finish(log func() ([]LogEntry, error)) error {
	if l.streamed && !l.complete {
		entries, err := log()
		if err != nil {
			return err
		}
		l.View.ShowRest(entries)
	}
	l.last.Entries = nil
	l.View.ShowChange(l.last)
	return nil
}

// Follow follows a job to its end, and returns its last status. showing is locked while the view is called.
func (l *Live) Follow(ctx context.Context, f *Follower, showing sync.Locker) (status string, err error) {
	notice := f.Session.Notice
	updates, stop := f.Updates(ctx)
	defer stop()
	defer l.Close()
	if l.Follows {
		l.Start()
	}
	for done := false; !done; {
		select {
		case p := <-l.Pieces():
			showing.Lock()
			done = l.Piece(p)
		case jobs := <-l.Progress():
			showing.Lock()
			l.ShowProgress(jobs)
		case <-l.Timer():
			showing.Lock()
			done = l.TimeIsUp()
		case <-ctx.Done(): // the updates may not be read now
			return "", context.Cause(ctx)
		case u, open := <-l.Changes(updates):
			if !open || u.Err != nil {
				return "", cmp.Or(u.Err, ctx.Err())
			}
			showing.Lock()
			if u.Notice != "" {
				notice(u.Notice)
			} else {
				done = l.Change(u.Change)
			}
		}
		showing.Unlock()
	}
	showing.Lock()
	defer showing.Unlock()
	return l.last.Status, l.Finish(func() ([]LogEntry, error) { return f.Log(ctx) })
}

package store

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/messages"
)

// Client is the part of an actor that sends requests to the store. It keeps unanswered requests and repeats them, in order, to a new
// incarnation of the store. It is no kit.Asker, because a repeated write must not undo a later one (coveredBy).
//
// A Client belongs to one incarnation of its actor. The actor passes each message to Handle
// first.
type Client struct {
	store       *actor.PID
	incarnation uint64 // of the store; 0: not known yet
	last        uint64
	open        map[uint64]*call
	opened      []uint64 // request numbers in the order of the requests; answered ones are skipped
}

type call struct {
	request *messages.AccessStore
	done    func(actor.Context, *messages.AccessStoreResult)
	// covers are earlier writes that were not repeated, because this one replaces the same
	// files.
	covers []*call
}

// NewClient returns the Client by which an actor sends its requests to the store. incarnation is that of the actor: it numbers the
// requests, so that an answer to a former incarnation is recognised.
func NewClient(store *actor.PID, incarnation uint32) *Client {
	return &Client{store: store, last: uint64(incarnation) << 32, open: map[uint64]*call{}}
}

// Connect asks the store for its incarnation. Requests are kept until the answer comes.
func (c *Client) Connect(ctx actor.Context) { ctx.Request(c.store, &messages.AnnounceStore{}) }

// Write replaces the content of files, in the order that messages.WriteFiles states. done is called once, when the disk has them or has
// refused some.
func (c *Client) Write(ctx actor.Context, m *messages.WriteFiles, done func(actor.Context, *messages.ChangeFilesResult)) {
	c.ask(ctx, &messages.AccessStore{What: &messages.AccessStore_Write{Write: m}},
		func(ctx actor.Context, a *messages.AccessStoreResult) { done(ctx, a.GetFiles()) })
}

// Append adds to the end of a file. After a restart of the store the content may be there
// twice.
func (c *Client) Append(ctx actor.Context, m *messages.AppendFile, done func(actor.Context, *messages.ChangeFilesResult)) {
	c.ask(ctx, &messages.AccessStore{What: &messages.AccessStore_Append{Append: m}},
		func(ctx actor.Context, a *messages.AccessStoreResult) { done(ctx, a.GetFiles()) })
}

// Remove removes files, durably. An absent file is no error.
func (c *Client) Remove(ctx actor.Context, m *messages.RemoveFiles, done func(actor.Context, *messages.ChangeFilesResult)) {
	c.ask(ctx, &messages.AccessStore{What: &messages.AccessStore_Remove{Remove: m}},
		func(ctx actor.Context, a *messages.AccessStoreResult) { done(ctx, a.GetFiles()) })
}

// Read asks for the content of the file at path. An absent file has Missing in the answer.
func (c *Client) Read(ctx actor.Context, op, path string, done func(actor.Context, *messages.ReadFileResult)) {
	c.ask(ctx, &messages.AccessStore{What: &messages.AccessStore_Read{Read: &messages.ReadFile{Op: op, Path: path}}},
		func(ctx actor.Context, a *messages.AccessStoreResult) { done(ctx, a.GetRead()) })
}

// Identify asks for the identity of a file, which changes when another program writes it.
func (c *Client) Identify(ctx actor.Context, op, path string, done func(actor.Context, *messages.IdentifyFileResult)) {
	c.ask(ctx, &messages.AccessStore{What: &messages.AccessStore_Identify{Identify: &messages.IdentifyFile{Op: op, Path: path}}},
		func(ctx actor.Context, a *messages.AccessStoreResult) { done(ctx, a.GetIdentify()) })
}

// Quarantine moves an unreadable file to queue/quarantine, so that it is kept for the operator and not read again.
func (c *Client) Quarantine(ctx actor.Context, path string, done func(actor.Context, *messages.QuarantineFileResult)) {
	c.ask(ctx, &messages.AccessStore{What: &messages.AccessStore_Quarantine{Quarantine: &messages.QuarantineFile{Path: path}}},
		func(ctx actor.Context, a *messages.AccessStoreResult) { done(ctx, a.GetQuarantine()) })
}

// Move renames files, durably.
func (c *Client) Move(ctx actor.Context, m *messages.MoveFiles, done func(actor.Context, *messages.ChangeFilesResult)) {
	c.ask(ctx, &messages.AccessStore{What: &messages.AccessStore_Move{Move: m}},
		func(ctx actor.Context, a *messages.AccessStoreResult) { done(ctx, a.GetFiles()) })
}

// List asks for the names in a directory. An absent directory is empty.
func (c *Client) List(ctx actor.Context, op, dir string, done func(actor.Context, *messages.ListDirResult)) {
	c.ask(ctx, &messages.AccessStore{What: &messages.AccessStore_List{List: &messages.ListDir{Op: op, Dir: dir}}},
		func(ctx actor.Context, a *messages.AccessStoreResult) { done(ctx, a.GetList()) })
}

// Scan reads all live jobs of the queue directory, with their records.
func (c *Client) Scan(ctx actor.Context, done func(actor.Context, *messages.ScanQueueResult)) {
	c.ask(ctx, &messages.AccessStore{What: &messages.AccessStore_Scan{Scan: &messages.ScanQueue{}}},
		func(ctx actor.Context, a *messages.AccessStoreResult) { done(ctx, a.GetScan()) })
}

// StoreIncarnation is the incarnation of the store that answers now. If it differs between
// a request and its answer, the request was sent twice, and the store may have carried it
// out twice.
func (c *Client) StoreIncarnation() uint64 { return c.incarnation }

// Idle reports whether every request has been answered.
func (c *Client) Idle() bool { return len(c.open) == 0 }

// Handle takes StoreStarted and the store's answers, and calls the function of the request. It returns false for a message that is not
// for the client.
func (c *Client) Handle(ctx actor.Context) bool {
	switch m := ctx.Message().(type) {
	case *messages.StoreStarted:
		c.storeStarted(ctx, m.Incarnation)
	case *messages.AccessStoreResult:
		if call, known := c.open[m.Request]; known {
			delete(c.open, m.Request)
			// The covered calls were not repeated: the answer to the later write is theirs, too. They are answered first, in the order in which
			// they were asked.
			for _, earlier := range call.covers {
				delete(c.open, earlier.request.Request)
				earlier.done(ctx, earlier.part(m))
			}
			call.done(ctx, m)
		}
	default:
		return false
	}
	return true
}

func (c *Client) ask(ctx actor.Context, r *messages.AccessStore, done func(actor.Context, *messages.AccessStoreResult)) {
	c.last++
	r.Request = c.last
	// Kept before it is sent: while the incarnation of the store is unknown nothing is sent, and storeStarted sends what is kept.
	c.open[r.Request] = &call{request: r, done: done}
	if len(c.opened) > 2*len(c.open)+16 {
		c.opened = slices.DeleteFunc(c.opened, func(n uint64) bool { return c.open[n] == nil })
	}
	c.opened = append(c.opened, r.Request)
	c.send(ctx, r)
}

func (c *Client) storeStarted(ctx actor.Context, incarnation uint64) {
	if incarnation <= c.incarnation {
		return
	}
	c.incarnation = incarnation
	calls := make([]*call, 0, len(c.open))
	for _, n := range c.opened {
		if call := c.open[n]; call != nil {
			// Since the last restart the client may have asked for writes that cover other calls.
			call.covers = nil
			calls = append(calls, call)
		}
	}
	for i, call := range calls {
		if by := call.coveredBy(calls[i+1:]); by != nil {
			by.covers = append(by.covers, call)
		} else {
			c.send(ctx, call.request)
		}
	}
}

// coveredBy is the last of the later calls that replaces all files of this one, at least as
// durably, or nil. Repeating the earlier one would take the files back, because the later
// one may be done already.
func (c *call) coveredBy(later []*call) *call {
	mine := c.request.GetWrite()
	if mine == nil || len(mine.Files) == 0 || mine.CommitRecord != nil {
		return nil
	}
	for _, other := range slices.Backward(later) {
		w := other.request.GetWrite()
		if w == nil || mine.Durable && !w.Durable || w.Logged && !mine.Logged {
			continue
		}
		if !slices.ContainsFunc(mine.Files, func(f *messages.FileWrite) bool { return !writes(w, f.Path) }) {
			return other
		}
	}
	return nil
}

// part is the part of an answer to a write that concerns the files of this call.
func (c *call) part(m *messages.AccessStoreResult) *messages.AccessStoreResult {
	done := &messages.ChangeFilesResult{}
	for _, f := range m.GetFiles().GetFailures() {
		if writes(c.request.GetWrite(), f.Path) {
			done.Failures = append(done.Failures, f)
		}
	}
	return &messages.AccessStoreResult{Request: c.request.Request, What: &messages.AccessStoreResult_Files{Files: done}}
}

// send sends a copy of the envelope, because a sent message never changes.
func (c *Client) send(ctx actor.Context, r *messages.AccessStore) {
	if c.incarnation != 0 {
		ctx.Request(c.store, &messages.AccessStore{Incarnation: c.incarnation, Request: r.Request, What: r.What})
	}
}

func writes(m *messages.WriteFiles, path string) bool {
	return slices.ContainsFunc(m.Files, func(f *messages.FileWrite) bool { return f.Path == path })
}

package configstore

import (
	"lockstep/core/config/journal"
	"lockstep/core/config/model"
	"lockstep/messages"
)

// These messages are plain Go, because core/config has the types of their content. A message, and what it points to, never
// changes once sent. The answer to a repeated request is the same, so that a client repeats its open requests, in their order,
// when it gets Started with a higher incarnation. messages.Drain folds and answers messages.DrainResult: an orderly stop leaves
// no journal.

// Announce tells the configstore that a client has started. The answer is Started, with the incarnation that takes the client's requests.
type Announce struct{}

// Started tells a client which incarnation of the configstore takes requests from now on. It answers Announce, and is sent to
// Config.Clients at each start of the actor.
type Started struct{ Incarnation uint64 }

// CopyPublished has a configuration that is durable on this node. Subscribers get it after each change, and the sender of PublishCopy.
type CopyPublished struct{ Config *model.Config }

// PublishCopy asks for CopyPublished. It is answered now, or not at all if no configuration was published yet.
type PublishCopy struct{}

// Load asks for the state on the disk, including the records of all requests before it.
type Load struct{ Request uint64 }

// Loaded answers Load with the configuration on this node's disk. Number is that of the last record. State has no configuration if there is
// a Failure, or if there is no config.data (Missing).
type Loaded struct {
	Request uint64
	State   journal.State
	Number  uint64
	Missing bool
	Failure *messages.Failure
}

// AddRecords adds records, in ascending order without gaps. The first has Number+1 of the last record, and its From is the point of
// the present configuration. Records that were applied before are skipped.
type AddRecords struct {
	Request uint64
	Records []*journal.Record
}

// AddRecordsResult answers AddRecords after all of the records are durable, or none of them is. Refused: they do not fit the present
// state, which has not changed; the sender loads again. Failure: they could not be written, and no restart brings them back.
type AddRecordsResult struct {
	Request uint64
	Refused bool
	Failure *messages.Failure
}

// Flush asks for a fold at once, even if there is no new record.
type Flush struct{ Request uint64 }

// Flushed answers Flush after config.data, tempres.data and config.extra have the state with the records of all requests before.
type Flushed struct {
	Request uint64
	Failure *messages.Failure
}

// Check asks whether another program has changed config.data. During a fold the answer is what was known before it.
type Check struct{ Request uint64 }

// Checked answers Check: it says whether another program has changed the content of config.data. If so, AddRecords and Flush fail until
// Adopt or Discard.
type Checked struct {
	Request uint64
	Foreign *messages.Failure // for an operator: what the content is and what to do; nil: there is no foreign content
	Failure *messages.Failure // config.data could not be read
}

// Adopt makes the foreign content of config.data the state. The records that were not folded are set aside. The sender loads
// again. Without foreign content it has no effect.
type Adopt struct{ Request uint64 }

// Discard replaces the foreign content of config.data by the state. Without foreign content it is Flush.
type Discard struct{ Request uint64 }

// ForeignResolved answers Adopt and Discard. Foreign: there was foreign content.
type ForeignResolved struct {
	Request uint64
	Foreign bool
	Failure *messages.Failure
}

// Reload reads the files again, after something else than this actor has replaced them on purpose: a snapshot of the consensus
// log. It is answered by Loaded.
type Reload struct{ Request uint64 }

// Commit takes what the log of the cluster says about the configuration, in its order. Repeated changes have no effect, unless a
// whole state is among them.
type Commit struct {
	Request uint64
	Changes []journal.Change
}

// Committed answers Commit after the changes are durable. With a Failure nothing can be said: the sender repeats the request.
type Committed struct {
	Request uint64
	// Refused says of each change whether it did not fit. It is the same on all nodes.
	Refused []bool
	// Foreign is why config.data is not written: another program has changed it. The changes are in the journal.
	Foreign *messages.Failure
	Failure *messages.Failure
}

// Export asks for the state with the records of all requests before, as the contents of files. Adopting: the state that Adopt
// would lead to.
type Export struct {
	Request  uint64
	Adopting bool
}

// Exported answers Export with the files of the configuration. Contents is empty if there is no config.data, or nothing to adopt.
type Exported struct {
	Request  uint64
	Contents journal.Contents
	Failure  *messages.Failure
}

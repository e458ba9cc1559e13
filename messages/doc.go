// Package messages has the messages between actors: protobuf messages and a few methods. A
// message is immutable once sent. The package has no state and sends nothing.
//
// A request is a verb (SubmitJobs), its answer the verb and Result (SubmitJobsResult), an
// event is in the past tense (JobEnded). A request may be answered by an event, if other
// actors get that event too (AnnounceStore, StoreStarted). Parts of messages are nouns.
//
// JSON appears only where it is the content itself: a job's file, an opcode's parameters and
// secrets, a filter rule, the configuration. Statuses, filter actions and lock modes are
// numbers of core's enums. If core already has a type for the content, the message is plain
// Go, in the package of the actor that receives it: conn.Received, locks.Call,
// opcodes.Changed.
//
// Only LogEntry and its parts are stored. Their field numbers, types and meaning never
// change.
//
// The .proto files are the source; `make proto` writes the Go files.
package messages

// Package messages is the vocabulary of the actors: protobuf messages and a few
// methods. A message is immutable once sent.
//
// A request is a verb (SubmitJobs), its answer the verb and Result
// (SubmitJobsResult), an event is in the past tense (JobEnded). A request may be
// answered by an event, where others get that event too (AnnounceStore,
// StoreStarted). Parts of messages are nouns.
//
// JSON travels only where it is the content itself: a job's file, an opcode's
// parameters and secrets, a filter rule, the configuration. Statuses, filter
// actions and lock modes are numbers of core's enums. Values for which core has a
// type already travel as plain Go messages, beside the actor that takes them:
// conn.Received, locks.Call, opcodes.Changed.
//
// Only LogEntry and its parts are ever stored. Their field numbers, types and
// meaning never change.
//
// The .proto files are the source; `make proto` writes the Go beside them.
package messages

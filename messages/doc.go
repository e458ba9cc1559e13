// Package messages is the vocabulary of the actors: protobuf messages and the
// few methods that make them pleasant. A message is immutable once sent; what
// it carries of a job is the encoded file, as opaque bytes.
//
// The .proto files are the source; `make proto` writes the Go beside them.
package messages

// Package outflow decides how the output of a job's commands reaches its readers.
//
// A Source belongs to the job process. It keeps the latest output, and knows how far each reader is. One reader may be the
// follower: the client that submitted the job and follows it. The command waits for the follower, as it would wait at a pipe,
// and for no other reader. A Source does not wait for ever: see Limits.
//
// Output travels in frames (frame.go). A Received belongs to the reader. It checks that nothing is lost or doubled, and says
// how much is missing where a reader was too slow, or where the job process died.
//
// The package has no goroutines, no clock and no descriptors; the job process, the simulator and the command line drive it.
package outflow

import "lockstep/core/job"

// Stream is a stream of a command.
type Stream uint8

// The streams of a command.
const (
	Stdout Stream = iota
	Stderr
)

// Position is a place in the output of a job: how many bytes of each stream come before it, over all opcodes.
type Position struct {
	Stdout int64 `json:"stdout"`
	Stderr int64 `json:"stderr"`
}

// After is the place after an amount of output.
func After(o job.Output) Position { return Position{Stdout: o.Stdout.Bytes, Stderr: o.Stderr.Bytes} }

// Sum is the number of bytes before the place. Output has one order, in which each place has another sum.
func (p Position) Sum() int64 { return p.Stdout + p.Stderr }

// In is what a place has of one stream.
func (p *Position) In(s Stream) *int64 {
	if s == Stderr {
		return &p.Stderr
	}
	return &p.Stdout
}

// Of is the number of bytes of one stream before the place.
func (p Position) Of(s Stream) int64 { return *p.In(s) }

// plus is the place n bytes of a stream later.
func (p Position) plus(s Stream, n int64) Position {
	*p.In(s) += n
	return p
}

// Part is a part of one stream of a job.
type Part struct {
	Stream Stream `json:"stream"`
	From   int64  `json:"from"` // bytes of the stream before the part, over all opcodes
	To     int64  `json:"to"`   // bytes of the stream before the end of the part
	// Tries is how many tries of the job's opcodes had ended before (job.LogTry). Each process of the job has kept files of its own; a part
	// is of one process.
	Tries int `json:"tries,omitempty"`
}

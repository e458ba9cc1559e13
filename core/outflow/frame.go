package outflow

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// A frame is a header and the bytes of the output:
//
//	1 byte    'D' for output, 'E' for the end
//	1 byte    the stream of the output; 0 in an end
//	8 bytes   how many bytes of standard output come before it; in an end: in all
//	8 bytes   the same of standard error
//	4 bytes   how many bytes follow; 0 in an end
//
// Numbers are big-endian. A reader answers with acknowledgements of 8 bytes: the sum of all that it has taken, with what it has missed.
// It sends nothing else. The sender of an end waits for no acknowledgement.
const (
	kindOutput = 'D'
	kindEnd    = 'E'
	// HeaderSize is the size of a frame without its output, in bytes.
	HeaderSize = 22
	// FrameMax bounds the output of one frame, in bytes.
	FrameMax = 64 << 10
	// AckSize is the size of an acknowledgement, in bytes.
	AckSize = 8
)

// Frame is a piece of output, or the end of it.
type Frame struct {
	At     Position // before the output
	Stream Stream
	Output []byte // empty: this is the end, after which nothing comes
}

// Ends reports whether the frame is the end of the output.
func (f Frame) Ends() bool { return len(f.Output) == 0 }

// AppendHeader appends the frame without its output.
func (f Frame) AppendHeader(to []byte) []byte {
	kind := byte(kindOutput)
	if f.Ends() {
		kind = kindEnd
	}
	to = append(to, kind, byte(f.Stream))
	to = binary.BigEndian.AppendUint64(to, uint64(f.At.Stdout))
	to = binary.BigEndian.AppendUint64(to, uint64(f.At.Stderr))
	return binary.BigEndian.AppendUint32(to, uint32(len(f.Output)))
}

// ReadFrame reads a frame. Its output is in the buffer, which has FrameMax bytes, until the next call. io.EOF says that the job
// process has ended between two frames.
func ReadFrame(r io.Reader, buffer []byte) (Frame, error) {
	var header [HeaderSize]byte
	if _, err := io.ReadFull(r, header[:1]); err != nil {
		return Frame{}, err
	}
	if _, err := io.ReadFull(r, header[1:]); err != nil {
		return Frame{}, noEOF(err)
	}
	at := Position{int64(binary.BigEndian.Uint64(header[2:])), int64(binary.BigEndian.Uint64(header[10:]))}
	f := Frame{Stream: Stream(header[1]), At: at}
	size := binary.BigEndian.Uint32(header[18:])
	switch {
	case f.At.Stdout < 0 || f.At.Stderr < 0 || f.Stream > Stderr:
		return Frame{}, errors.New("a frame of output has a number that is not possible")
	case header[0] == kindEnd && size == 0:
		return f, nil
	case header[0] != kindOutput || size == 0 || size > FrameMax:
		return Frame{}, fmt.Errorf("a frame of output has the kind %q and %d bytes", header[0], size)
	}
	f.Output = buffer[:size]
	_, err := io.ReadFull(r, f.Output)
	return f, noEOF(err)
}

// noEOF is the error of a read in the middle of a frame.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// AppendAck appends the acknowledgement of all output with a smaller sum.
func AppendAck(to []byte, sum int64) []byte { return binary.BigEndian.AppendUint64(to, uint64(sum)) }

// DecodeAck decodes an acknowledgement.
func DecodeAck(ack [AckSize]byte) int64 { return int64(binary.BigEndian.Uint64(ack[:])) }

// Package wire is the LUXI protocol as bytes: frames, requests, answers and errors (queue.md 1.1 to 1.3). It splits a
// stream into frames, and encodes and decodes the content of a frame. Package luxiclient makes calls with it.
//
// It does not depend on methods and jobs. It is linked into the job process, which must start in a millisecond, so it
// imports only small parts of the standard library: no net, no regexp (deps_test.go checks that).
package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// Terminator ends every frame. It cannot occur inside one: JSON writes it as
// \u0003 (queue.md 1.1).
const Terminator = 0x03

// MaxFrame is the largest frame in bytes, without its terminator, that a client
// takes. It bounds memory, not the protocol; servers pass a smaller one.
const MaxFrame = 64 << 20

// firstBuffer is the size in bytes a Reader starts with; most frames fit.
const firstBuffer = 4 << 10

// emptyReadsMax is how often in a row a source may return neither bytes nor an
// error before the Reader gives up on it.
const emptyReadsMax = 100

// FrameTooLarge says that the peer sent more than Limit bytes without ending the frame. The rest of that frame and
// later frames cannot be distinguished, so the connection cannot be used any longer.
type FrameTooLarge struct {
	Limit int // bytes
}

func (e *FrameTooLarge) Error() string {
	return fmt.Sprintf("frame is larger than %d bytes", e.Limit)
}

// ErrTerminatorInside is returned by WriteFrame for a payload that would be read
// as two frames.
var ErrTerminatorInside = errors.New("payload contains the frame terminator 0x03")

// Reader splits a byte stream into frames. It reads ahead, so nothing else may
// read from the source. It is used by one goroutine at a time.
type Reader struct {
	source io.Reader
	limit  int // bytes of one frame, without terminator

	// buffer[start:end] was read and not yet returned;
	// buffer[start:searched] holds no terminator. start <= searched <= end.
	buffer               []byte
	start, searched, end int

	growCheck func(size int) error // nil: always
	failed    error                // final: every later call returns it
}

// NewReader returns a Reader of frames of at most limit bytes, limit >= 1.
func NewReader(source io.Reader, limit int) *Reader {
	if limit < 1 {
		panic(fmt.Sprintf("wire: frame limit %d is not positive", limit))
	}
	return &Reader{source: source, limit: limit}
}

// SetGrowCheck sets a function that the Reader calls before its buffer grows, with the size in bytes that it will
// have. If the function returns an error, ReadFrame returns it, from then on.
func (r *Reader) SetGrowCheck(ask func(size int) error) { r.growCheck = ask }

// Size is the size of the buffer in bytes.
func (r *Reader) Size() int { return len(r.buffer) }

// ReadFrame returns the next frame without its terminator. The bytes belong to
// the caller.
//
// Errors: io.EOF when the stream ended between two frames, io.ErrUnexpectedEOF when it ended inside one,
// *FrameTooLarge; these are final. Any other error is the source's; the bytes that were read are kept, so a caller
// whose read deadline passed may call again.
func (r *Reader) ReadFrame() ([]byte, error) {
	for emptyReads := 0; ; {
		if r.failed != nil {
			return nil, r.failed
		}
		if frame, ok := r.take(); ok {
			return frame, nil
		}
		if r.failed != nil {
			continue
		}
		if r.failed = r.makeRoom(); r.failed != nil {
			r.buffer = nil
			r.start, r.searched, r.end = 0, 0, 0
			continue
		}
		n, err := r.source.Read(r.buffer[r.end:])
		r.end += n
		switch {
		case n > 0:
			// The bytes come first. An error that came with them is
			// returned again by the next Read.
			emptyReads = 0
		case err == io.EOF:
			r.failed = r.endOfStream()
		case err != nil:
			return nil, err
		default:
			if emptyReads++; emptyReads >= emptyReadsMax {
				return nil, io.ErrNoProgress
			}
		}
	}
}

// take removes one frame from the buffer, if it is complete. A frame above the limit sets r.failed. Each byte is searched once, for any
// number of reads.
func (r *Reader) take() ([]byte, bool) {
	found := bytes.IndexByte(r.buffer[r.searched:r.end], Terminator)
	if found < 0 {
		r.searched = r.end
		if r.end-r.start > r.limit {
			r.failed = &FrameTooLarge{Limit: r.limit}
			r.buffer = nil
			r.start, r.searched, r.end = 0, 0, 0
		}
		return nil, false
	}
	at := r.searched + found
	if at-r.start > r.limit {
		r.failed = &FrameTooLarge{Limit: r.limit}
		return nil, false
	}
	frame := r.buffer[r.start:at:at]
	rest := r.buffer[at+1 : r.end]
	if len(r.buffer) > firstBuffer && len(rest) <= firstBuffer {
		// A large frame keeps the buffer, so that it is not copied. An idle connection must not keep a large buffer.
		if len(frame) <= len(r.buffer)/2 {
			frame = bytes.Clone(frame)
		}
		r.buffer = make([]byte, firstBuffer)
		r.start, r.searched, r.end = 0, 0, copy(r.buffer, rest)
		return frame, true
	}
	r.start, r.searched = at+1, at+1
	return bytes.Clone(frame), true
}

// makeRoom ensures that buffer[end:] is not empty: by moving the unread bytes to the front when that frees half of the
// buffer, otherwise by doubling it. Doubling stops just above the limit, so memory is proportional to the received
// bytes.
func (r *Reader) makeRoom() error {
	if r.start == r.end {
		r.start, r.searched, r.end = 0, 0, 0
	}
	if r.end < len(r.buffer) {
		return nil
	}
	unread := r.buffer[r.start:r.end]
	target := r.buffer
	if len(unread) > len(r.buffer)/2 || len(r.buffer) == 0 {
		size := max(min(max(firstBuffer, 2*len(r.buffer)), r.limit+1), len(unread)+1)
		if r.growCheck != nil {
			if err := r.growCheck(size); err != nil {
				return err
			}
		}
		target = make([]byte, size)
	}
	copy(target, unread)
	r.buffer = target
	r.searched -= r.start
	r.start, r.end = 0, len(unread)
	return nil
}

func (r *Reader) endOfStream() error {
	if r.start == r.end {
		return io.EOF
	}
	return io.ErrUnexpectedEOF
}

// WriteFrame writes payload and the terminator in one write, or a payload that is too long to copy in a write of its own. When it returns
// an error the terminator was not written, so the peer cannot have acted on the frame.
func WriteFrame(w io.Writer, payload []byte) error {
	if bytes.IndexByte(payload, Terminator) >= 0 {
		return ErrTerminatorInside
	}
	if len(payload) > copyMax {
		if _, err := w.Write(payload); err != nil {
			return err
		}
		payload = nil
	}
	frame := make([]byte, 0, len(payload)+1)
	frame = append(append(frame, payload...), Terminator)
	_, err := w.Write(frame)
	return err
}

// copyMax is the length of a payload up to which it is copied, to be written with its terminator in one system call.
const copyMax = 64 << 10

package raftlog

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// A snapshot on its way to another node is, numbers being big-endian:
//
//	magic, length of state (4), state, number of files (4),
//	and for each file: length of path (4), path, length of content (8), content
const streamMagic = "lockstep snapshot 1\n"

const (
	pathMax  = 4096
	stateMax = 64 << 20
)

// errStream says that a received snapshot makes no sense.
var errStream = errors.New("the received snapshot is damaged, or of a version that this node does not know")

// outgoing reads a frozen copy as a stream whose size is known before.
type outgoing struct {
	frozen  Frozen
	files   []FrozenFile // that have not begun
	head    []byte       // comes before content
	content io.ReadCloser
	left    int64 // of content
	path    string
}

// newOutgoing takes the copy over. size is that of the stream in bytes.
func newOutgoing(frozen Frozen, state []byte) (o *outgoing, size int64, err error) {
	files := frozen.Files()
	head := append([]byte(streamMagic), binary.BigEndian.AppendUint32(nil, uint32(len(state)))...)
	head = binary.BigEndian.AppendUint32(append(head, state...), uint32(len(files)))
	size = int64(len(head))
	for _, file := range files {
		if file.Size < 0 || file.Size > MaxFile || len(file.Path) > pathMax {
			return nil, 0, fmt.Errorf("sending a snapshot: %s has %d bytes, more than fits (%d)", file.Path, file.Size, MaxFile)
		}
		size += 4 + int64(len(file.Path)) + 8 + file.Size
	}
	return &outgoing{frozen: frozen, files: files, head: head}, size, nil
}

func (o *outgoing) Read(to []byte) (int, error) {
	for {
		switch {
		case len(o.head) > 0:
			n := copy(to, o.head)
			o.head = o.head[n:]
			return n, nil
		case o.left > 0:
			return o.readContent(to)
		case len(o.files) == 0:
			return 0, io.EOF
		}
		if err := o.next(); err != nil {
			return 0, err
		}
	}
}

func (o *outgoing) readContent(to []byte) (int, error) {
	n, err := o.content.Read(to[:min(int64(len(to)), o.left)])
	o.left -= int64(n)
	switch {
	case n > 0:
		return n, nil
	case errors.Is(err, io.EOF):
		return 0, fmt.Errorf("sending a snapshot: %s ends %d bytes early: %w", o.path, o.left, io.ErrUnexpectedEOF)
	case err != nil:
		return 0, fmt.Errorf("sending a snapshot: reading %s: %w", o.path, err)
	}
	return 0, nil
}

func (o *outgoing) next() (err error) {
	o.closeContent()
	file := o.files[0]
	o.files = o.files[1:]
	if o.content, err = o.frozen.Open(file.Path); err != nil {
		return fmt.Errorf("sending a snapshot: opening %s: %w", file.Path, err)
	}
	o.path, o.left = file.Path, file.Size
	o.head = binary.BigEndian.AppendUint32(nil, uint32(len(file.Path)))
	o.head = binary.BigEndian.AppendUint64(append(o.head, file.Path...), uint64(file.Size))
	return nil
}

func (o *outgoing) closeContent() {
	if o.content != nil {
		o.content.Close()
		o.content = nil
	}
}

// Close ends the copy.
func (o *outgoing) Close() error {
	o.closeContent()
	return o.frozen.Close()
}

// incoming reads such a stream.
type incoming struct {
	from  *bufio.Reader
	state []byte
	left  uint32 // files that have not been read
}

func newIncoming(from io.Reader) (*incoming, error) {
	in := &incoming{from: bufio.NewReaderSize(from, 64<<10)}
	magic, err := in.bytes(uint64(len(streamMagic)))
	if err != nil || string(magic) != streamMagic {
		return nil, errors.Join(errStream, err)
	}
	if in.state, err = in.counted(stateMax); err != nil {
		return nil, err
	}
	in.left, err = in.uint32()
	return in, err
}

// next reads a file; left says whether there is one.
func (in *incoming) next() (path string, content []byte, err error) {
	name, err := in.counted(pathMax)
	if err != nil {
		return "", nil, err
	}
	length, err := in.bytes(8)
	if err != nil {
		return "", nil, err
	}
	size := binary.BigEndian.Uint64(length)
	if size > MaxFile {
		return "", nil, errStream
	}
	in.left--
	content, err = in.bytes(size)
	return string(name), content, err
}

func (in *incoming) counted(most uint32) ([]byte, error) {
	n, err := in.uint32()
	if err != nil {
		return nil, err
	}
	if n > most {
		return nil, errStream
	}
	return in.bytes(uint64(n))
}

func (in *incoming) uint32() (uint32, error) {
	b, err := in.bytes(4)
	if err != nil {
		return 0, err
	}
	return binary.BigEndian.Uint32(b), nil
}

func (in *incoming) bytes(n uint64) ([]byte, error) {
	b := make([]byte, n)
	if _, err := io.ReadFull(in.from, b); err != nil {
		return nil, errors.Join(errStream, err)
	}
	return b, nil
}

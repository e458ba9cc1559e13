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

// errDamagedSnapshot says that a received snapshot cannot be decoded.
var errDamagedSnapshot = errors.New("the received snapshot is damaged, or of a version that this node does not know")

// snapshotEncoder reads a frozen copy as a stream whose size is known in advance.
type snapshotEncoder struct {
	frozen    Frozen
	files     []FrozenFile // that are not begun
	header    []byte       // comes before content
	content   io.ReadCloser
	remaining int64 // of content
	path      string
}

// newSnapshotEncoder takes ownership of the copy. size is that of the stream in bytes.
func newSnapshotEncoder(frozen Frozen, state []byte) (o *snapshotEncoder, size int64, err error) {
	files := frozen.Files()
	header := append([]byte(streamMagic), binary.BigEndian.AppendUint32(nil, uint32(len(state)))...)
	header = binary.BigEndian.AppendUint32(append(header, state...), uint32(len(files)))
	size = int64(len(header))
	for _, file := range files {
		if file.Size < 0 || file.Size > MaxFile || len(file.Path) > pathMax {
			return nil, 0, fmt.Errorf("sending a snapshot: %s has %d bytes, more than fits (%d)", file.Path, file.Size, MaxFile)
		}
		size += 4 + int64(len(file.Path)) + 8 + file.Size
	}
	return &snapshotEncoder{frozen: frozen, files: files, header: header}, size, nil
}

func (e *snapshotEncoder) Read(to []byte) (int, error) {
	for {
		switch {
		case len(e.header) > 0:
			n := copy(to, e.header)
			e.header = e.header[n:]
			return n, nil
		case e.remaining > 0:
			return e.readContent(to)
		case len(e.files) == 0:
			return 0, io.EOF
		}
		if err := e.next(); err != nil {
			return 0, err
		}
	}
}

func (e *snapshotEncoder) readContent(to []byte) (int, error) {
	n, err := e.content.Read(to[:min(int64(len(to)), e.remaining)])
	e.remaining -= int64(n)
	switch {
	case n > 0:
		return n, nil
	case errors.Is(err, io.EOF):
		return 0, fmt.Errorf("sending a snapshot: %s ends %d bytes early: %w", e.path, e.remaining, io.ErrUnexpectedEOF)
	case err != nil:
		return 0, fmt.Errorf("sending a snapshot: reading %s: %w", e.path, err)
	}
	return 0, nil
}

func (e *snapshotEncoder) next() (err error) {
	e.closeContent()
	file := e.files[0]
	e.files = e.files[1:]
	if e.content, err = e.frozen.Open(file.Path); err != nil {
		return fmt.Errorf("sending a snapshot: opening %s: %w", file.Path, err)
	}
	e.path, e.remaining = file.Path, file.Size
	e.header = binary.BigEndian.AppendUint32(nil, uint32(len(file.Path)))
	e.header = binary.BigEndian.AppendUint64(append(e.header, file.Path...), uint64(file.Size))
	return nil
}

func (e *snapshotEncoder) closeContent() {
	if e.content != nil {
		e.content.Close()
		e.content = nil
	}
}

// Close removes the copy of the files.
func (e *snapshotEncoder) Close() error {
	e.closeContent()
	return e.frozen.Close()
}

// snapshotDecoder reads such a stream.
type snapshotDecoder struct {
	reader    *bufio.Reader
	state     []byte
	filesLeft uint32 // files that have not been read
}

func newSnapshotDecoder(from io.Reader) (*snapshotDecoder, error) {
	in := &snapshotDecoder{reader: bufio.NewReaderSize(from, 64<<10)}
	magic, err := in.bytes(uint64(len(streamMagic)))
	if err != nil || string(magic) != streamMagic {
		return nil, errors.Join(errDamagedSnapshot, err)
	}
	if in.state, err = in.lengthPrefixed(stateMax); err != nil {
		return nil, err
	}
	in.filesLeft, err = in.uint32()
	return in, err
}

// next reads the next file. The caller checks filesLeft first.
func (d *snapshotDecoder) next() (path string, content []byte, err error) {
	name, err := d.lengthPrefixed(pathMax)
	if err != nil {
		return "", nil, err
	}
	length, err := d.bytes(8)
	if err != nil {
		return "", nil, err
	}
	size := binary.BigEndian.Uint64(length)
	if size > MaxFile {
		return "", nil, errDamagedSnapshot
	}
	d.filesLeft--
	content, err = d.bytes(size)
	return string(name), content, err
}

func (d *snapshotDecoder) lengthPrefixed(limit uint32) ([]byte, error) {
	n, err := d.uint32()
	if err != nil {
		return nil, err
	}
	if n > limit {
		return nil, errDamagedSnapshot
	}
	return d.bytes(uint64(n))
}

func (d *snapshotDecoder) uint32() (uint32, error) {
	b, err := d.bytes(4)
	if err != nil {
		return 0, err
	}
	return binary.BigEndian.Uint32(b), nil
}

func (d *snapshotDecoder) bytes(n uint64) ([]byte, error) {
	b := make([]byte, n)
	if _, err := io.ReadFull(d.reader, b); err != nil {
		return nil, errors.Join(errDamagedSnapshot, err)
	}
	return b, nil
}

package sim

import (
	"errors"
	"io"
	"time"

	"lockstep/sim/kernel"
)

// pipe carries frames from one process to another. The reader can still read what was written
// before the writer ended.
type pipe struct {
	frames       [][]byte
	writerClosed bool
	readerClosed bool
	wake         func() // wakes the waiting reader
}

var (
	errBrokenPipe = errors.New("broken pipe")
	errTimeout    = errors.New("i/o timeout")
)

func (p *pipe) write(frame []byte) error {
	if p.readerClosed {
		return errBrokenPipe
	}
	p.frames = append(p.frames, frame)
	p.notifyReader()
	return nil
}

// Each end is closed separately. A process that ends closes its ends.
func (p *pipe) closeWriter() { p.writerClosed = true; p.notifyReader() }
func (p *pipe) closeReader() { p.readerClosed = true }

func (p *pipe) notifyReader() {
	if p.wake != nil && (len(p.frames) > 0 || p.writerClosed) {
		wake := p.wake
		p.wake = nil
		wake()
	}
}

// read passes the next frame to then, as a step of t: io.EOF after the last one, errTimeout if
// none comes within limit (0: no limit).
func (p *pipe) read(c *kernel.Clock, t *kernel.Thread, limit time.Duration, then func([]byte, error)) {
	stop := func() bool { return true }
	p.wake = func() {
		stop()
		t.Do(func() {
			if len(p.frames) == 0 {
				then(nil, io.EOF)
				return
			}
			frame := p.frames[0]
			p.frames = p.frames[1:]
			then(frame, nil)
		})
	}
	if limit > 0 {
		stop = c.After(limit, t.Life, func() {
			p.wake = nil
			t.Do(func() { then(nil, errTimeout) })
		})
	}
	p.notifyReader()
}

package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"lockstep/core/job"
	"lockstep/core/jobproc"
	"lockstep/core/outflow"
	"lockstep/core/rawjson"
)

const (
	// outputGrace is how long processes outside the command's group may write output after the end of the command.
	outputGrace = time.Second
	// outputRestMax bounds what is read after outputGrace, in bytes for each stream. A pipe holds less, so everything that
	// the command has written is read.
	outputRestMax = 2 << 20
	// readMax bounds the output that becomes log entries at once, in bytes.
	readMax = 64 << 10
)

// output is the output of a command: two streams with a pipe each, whose pieces become log entries as they arrive. The
// order of pieces of different streams is the order in which they are read.
type output struct {
	log     func([]jobproc.LogEntry)
	relay   *relay
	keep    *keeper
	streams [2]struct {
		name           string
		reader, writer *os.File
		open           bool // the copying has ended, and a process still has the write end
	}
	copying sync.WaitGroup
}

func newOutput(log func([]jobproc.LogEntry), relay *relay, keep *keeper) (*output, error) {
	o := &output{log: log, relay: relay, keep: keep}
	for i, name := range []string{job.LogStdout, job.LogStderr} {
		s := &o.streams[i]
		s.name = name
		var err error
		if s.reader, s.writer, err = os.Pipe(); err != nil {
			o.close()
			return nil, err
		}
	}
	return o, nil
}

func (o *output) stdout() *os.File { return o.streams[0].writer }
func (o *output) stderr() *os.File { return o.streams[1].writer }

// closeWriters closes the write ends of the pipes, which the command has inherited.
func (o *output) closeWriters() {
	for i := range o.streams {
		_ = o.streams[i].writer.Close()
	}
}

// startCopying begins to make log entries of the output, on goroutines that end by finish.
func (o *output) startCopying() {
	for i := range o.streams {
		o.copying.Add(1)
		go func() {
			defer o.copying.Done()
			o.streams[i].open = !o.copyStream(o.streams[i].reader, o.streams[i].name)
		}()
	}
}

var streamNames = map[string]outflow.Stream{job.LogStdout: outflow.Stdout, job.LogStderr: outflow.Stderr}

// copyStream copies what comes from reader to the log as output of stream name. It reports whether it has read to the end: the last
// writer has closed the pipe. It is false if its time was over before.
func (o *output) copyStream(reader *os.File, name string) (ended bool) {
	lineOpen := false // the last line has no newline yet
	emit := func(p []byte) {
		lineOpen = len(p) > 0 && p[len(p)-1] != '\n'
		// The files first: who misses output elsewhere finds it there. Then the log: it is written while the command waits for its reader.
		complaint := o.keep.add(name, p)
		o.log([]jobproc.LogEntry{{Kind: name, Output: p}})
		complain(o.log, complaint)
		o.relay.write(streamNames[name], p)
	}
	buffer := make([]byte, readMax)
	for {
		n, err := reader.Read(buffer)
		if n > 0 {
			emit(bytes.Clone(buffer[:n])) // it belongs to the shell now
		}
		ended = errors.Is(err, io.EOF)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			ended = drainPipe(reader, buffer, func(p []byte) { emit(bytes.Clone(p)) })
		}
		if err != nil {
			break // the last writer has closed the pipe, or the time is over
		}
	}
	if lineOpen {
		emit(nil) // it comes before what finish adds
	}
	return ended
}

// complain says in the log why output is not kept, or the like; "": it says nothing.
func complain(log func([]jobproc.LogEntry), complaint string) {
	if complaint != "" {
		log([]jobproc.LogEntry{{Kind: job.LogNote, Payload: rawjson.Quote(complaint)}})
	}
}

// drainPipe reads what is in a pipe, and does not wait for more. It reports whether the pipe has ended.
func drainPipe(reader *os.File, buffer []byte, emit func([]byte)) (ended bool) {
	raw, err := reader.SyscallConn()
	if err != nil {
		return false
	}
	_ = raw.Control(func(fd uintptr) {
		for total := 0; total < outputRestMax; {
			n, err := unix.Read(int(fd), buffer)
			if errors.Is(err, unix.EINTR) {
				continue
			}
			if err != nil || n <= 0 { // EAGAIN: the pipe is empty
				ended = err == nil
				return
			}
			emit(buffer[:n])
			total += n
		}
	})
	return ended
}

// finish is called at the end of the command. It returns when the output is in the log: all of it when every writer has
// closed its pipe, otherwise what has arrived after outputGrace, and an entry that names the streams that are open.
func (o *output) finish() {
	o.relay.ending()
	copied := make(chan struct{})
	go func() {
		o.copying.Wait()
		close(copied)
	}()
	select {
	case <-copied:
	case <-time.After(outputGrace):
		o.relay.hurry() // a stream whose output waits for the follower would not end, and the locks would be held
		for i := range o.streams {
			_ = o.streams[i].reader.SetReadDeadline(time.Now())
		}
		<-copied
	}
	var open []string
	for i := range o.streams {
		if o.streams[i].open {
			open = append(open, o.streams[i].name)
		}
	}
	if len(open) > 0 {
		typ, payload := job.EncodeOpen(open)
		o.log([]jobproc.LogEntry{{Kind: typ, Payload: payload}})
	}
	o.close()
}

func (o *output) close() {
	for i := range o.streams {
		_ = o.streams[i].reader.Close() // a nil or closed file is no problem
		_ = o.streams[i].writer.Close()
	}
}

// Package swf reads the Standard Workload Format, version 2.2, in which the
// Parallel Workloads Archive keeps traces of parallel machines: a line for each
// job with 18 numbers, -1 where nothing is known, and comments that begin with a
// semicolon, the first of which describe the machine.
package swf

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// Unknown is the value of a field that is not known.
const Unknown = -1

// Status is the status of a job.
type Status int

const (
	// Failed after its run time.
	Failed Status = 0
	// Completed successfully.
	Completed Status = 1
	// Continued, LastCompleted and LastFailed are the status of a part of a job that was
	// checkpointed. The complete job has another line with the same number.
	Continued     Status = 2
	LastCompleted Status = 3
	LastFailed    Status = 4
	// Cancelled before or during its run.
	Cancelled Status = 5
)

// Partial reports whether the line is about a part of a job.
func (s Status) Partial() bool { return s >= Continued && s <= LastFailed }

// Job is a line. Times are in seconds, from 0 to TimeMax, memory is in kilobytes for each
// processor; all fields may be Unknown.
type Job struct {
	Line int // number in the file, from 1

	Number            int64
	Submit, Wait, Run float64
	Allocated         int64 // processors
	CPU, Memory       float64
	Requested         int64 // processors
	RequestedTime     float64
	RequestedMemory   float64
	Status            Status
	User, Group       int64
	Executable        int64
	Queue, Partition  int64
	Preceding         int64   // the number of a job; this one may start after its end
	Think             float64 // seconds from that end until this job was submitted
}

// TimeMax bounds times, in seconds: a hundred years.
const TimeMax = 100 * 365 * 24 * 3600

// Header has the values of the comments that are used; 0 is unknown.
type Header struct {
	MaxNodes, MaxProcs int
}

// LineError says that a line is not in the format.
type LineError struct {
	Line   int // from 1
	Reason string
}

func (e *LineError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Reason) }

// lineMax bounds a line, in bytes.
const lineMax = 64 << 10

// Reader reads a trace job by job.
type Reader struct {
	lines  *bufio.Scanner
	line   int
	header Header
}

// NewReader reads from r, which it does not close.
func NewReader(r io.Reader) *Reader {
	s := &Reader{lines: bufio.NewScanner(r)}
	s.lines.Buffer(nil, lineMax)
	return s
}

// Header returns the values of the comments read so far. It is complete once Next has returned a
// job, because the comments come first.
func (r *Reader) Header() Header { return r.header }

// Next returns the next job; io.EOF after the last. The error is a *LineError if the line is
// wrong, or the reader's own.
func (r *Reader) Next() (Job, error) {
	for r.lines.Scan() {
		r.line++
		text := bytes.TrimSpace(r.lines.Bytes())
		switch {
		case len(text) == 0:
		case text[0] == ';':
			r.header.parse(string(text[1:]))
		default:
			return parse(r.line, text)
		}
	}
	switch err := r.lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return Job{}, &LineError{r.line + 1, fmt.Sprintf("longer than %d bytes: this is no Standard Workload Format", lineMax)}
	case err != nil:
		return Job{}, fmt.Errorf("after line %d: %w", r.line, err)
	}
	return Job{}, io.EOF
}

// parse reads a comment such as "MaxProcs: 128". It ignores comments that are not
// "name: number".
func (h *Header) parse(text string) {
	name, value, _ := strings.Cut(text, ":")
	var to *int
	switch strings.ToLower(strings.TrimSpace(name)) {
	case "maxnodes":
		to = &h.MaxNodes
	case "maxprocs":
		to = &h.MaxProcs
	default:
		return
	}
	words := strings.Fields(value)
	if len(words) == 0 {
		return
	}
	if n, err := strconv.ParseInt(words[0], 10, 32); err == nil && n > 0 {
		*to = int(n)
	}
}

// field describes one of the 18 fields: an integer, unless marked otherwise.
type field struct {
	name string
	set  func(*Job, float64)
	time bool // is replayed; must be in range
	real bool // any number
}

var fields = []field{
	{name: "job number", set: func(j *Job, v float64) { j.Number = int64(v) }},
	{name: "submit time", set: func(j *Job, v float64) { j.Submit = v }, time: true},
	{name: "wait time", set: func(j *Job, v float64) { j.Wait = v }, time: true},
	{name: "run time", set: func(j *Job, v float64) { j.Run = v }, time: true},
	{name: "allocated processors", set: func(j *Job, v float64) { j.Allocated = int64(v) }},
	{name: "CPU time", set: func(j *Job, v float64) { j.CPU = v }, real: true},
	{name: "used memory", set: func(j *Job, v float64) { j.Memory = v }, real: true},
	{name: "requested processors", set: func(j *Job, v float64) { j.Requested = int64(v) }},
	{name: "requested time", set: func(j *Job, v float64) { j.RequestedTime = v }, real: true},
	{name: "requested memory", set: func(j *Job, v float64) { j.RequestedMemory = v }, real: true},
	{name: "status", set: func(j *Job, v float64) { j.Status = Status(v) }},
	{name: "user", set: func(j *Job, v float64) { j.User = int64(v) }},
	{name: "group", set: func(j *Job, v float64) { j.Group = int64(v) }},
	{name: "executable", set: func(j *Job, v float64) { j.Executable = int64(v) }},
	{name: "queue", set: func(j *Job, v float64) { j.Queue = int64(v) }},
	{name: "partition", set: func(j *Job, v float64) { j.Partition = int64(v) }},
	{name: "preceding job", set: func(j *Job, v float64) { j.Preceding = int64(v) }},
	{name: "think time", set: func(j *Job, v float64) { j.Think = v }, time: true},
}

func parse(line int, text []byte) (Job, error) {
	j := Job{Line: line}
	words := strings.Fields(string(text))
	if len(words) != len(fields) {
		return j, &LineError{line, fmt.Sprintf("%d fields, want %d", len(words), len(fields))}
	}
	for i, word := range words {
		v, err := strconv.ParseFloat(word, 64)
		if reason := fields[i].wrong(v); err != nil || reason != "" {
			if err != nil {
				reason = "is not a number"
			}
			return j, &LineError{line, fmt.Sprintf("field %d, %s: %q %s", i+1, fields[i].name, word, reason)}
		}
		fields[i].set(&j, v)
	}
	return j, nil
}

// wholeMax bounds integers: above it a float64 does not represent each of them.
const wholeMax = 1 << 53

// wrong says what is wrong with a value; "" if nothing is.
func (f *field) wrong(v float64) string {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "is not a number"
	case f.real:
		return ""
	case f.time && (v > TimeMax || v < 0 && v != Unknown):
		return "is neither -1 nor from 0 to 100 years"
	case !f.time && (v != math.Trunc(v) || math.Abs(v) > wholeMax):
		return "is not a whole number"
	}
	return ""
}

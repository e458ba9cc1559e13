package rapi

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"lockstep/core/answer"
	"lockstep/core/job"
	"lockstep/core/outflow/delivery"
	"lockstep/core/rawjson"
	"lockstep/core/wire"
	"lockstep/edge/admission"
)

var errNoCursor = errors.New("a page of jobs has no cursor")

// followSeconds is how long one wait for the log of a job lasts.
const followSeconds = 60

// LogEntry is one entry of a job's log.
type LogEntry struct {
	Serial int64       `json:"serial"`
	Time   answer.Time `json:"time_ts"`
	// Stream is stdout or stderr for output; message for other entries; missing for a place where output was dropped.
	Stream string `json:"stream"`
	// Text is the piece of output with its newline, or the text of the entry. Output that is not UTF-8 is in Base64.
	Text   string `json:"text"`
	Base64 string `json:"base64,omitempty"`
}

// Streams of entries that are no output.
const (
	StreamMessage = "message"
	StreamMissing = "missing"
)

// rawEntry is an entry of a log on the wire.
type rawEntry struct {
	serial  int64
	at      answer.Time
	kind    string
	payload raw
}

// appendEntries decodes a list of entries, each [serial, time, type, payload]. The call has checked the syntax of the answer, and a log may
// have thousands of entries, so the text is only walked. The payloads are parts of it.
func appendEntries(entries []rawEntry, list raw) ([]rawEntry, error) {
	for element := range rawjson.Elements(list) {
		parts := slices.Collect(rawjson.Elements(element))
		if len(parts) != 4 {
			return nil, fmt.Errorf("an entry of a log has %d parts", len(parts))
		}
		e := rawEntry{payload: parts[3]}
		err := errors.Join(
			json.Unmarshal(parts[0], &e.serial),
			json.Unmarshal(parts[1], &e.at),
			json.Unmarshal(parts[2], &e.kind),
		)
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// delivered is the entry for a delivery.Delivery.
func (e *rawEntry) delivered() delivery.Entry {
	d := delivery.Entry{Serial: e.serial}
	d.Type, d.Payload = job.FromMessage(e.kind, e.payload)
	return d
}

// entry is the entry for clients: output as text or base64, a note about missing output in words, or a message.
func (e *rawEntry) entry() LogEntry {
	shown := LogEntry{Serial: e.serial, Time: e.at, Stream: StreamMessage}
	if stream, piece, ok := job.DecodeOutput(e.kind, e.payload); ok {
		shown.Stream = stream
		if utf8.Valid(piece) {
			shown.Text = string(piece)
		} else {
			shown.Base64 = base64.StdEncoding.EncodeToString(piece)
		}
		return shown
	}
	kind, payload := job.FromMessage(e.kind, e.payload)
	switch kind {
	case job.LogOpen:
		shown.Stream = StreamMissing
		shown.Text = "a process outside the command's group had its output open a second after the end of the command; " +
			"what it writes then is missing"
		return shown
	case job.LogCut:
		shown.Stream, shown.Text = StreamMissing, job.CutText
		return shown
	case job.LogTry:
		var ended job.EndedTry
		if json.Unmarshal(payload, &ended) == nil {
			shown.Text = ended.String()
			return shown
		}
	case job.LogMissing:
		shown.Stream = StreamMissing
		var missing job.MissingOutput
		if json.Unmarshal(payload, &missing) == nil {
			shown.Text = fmt.Sprintf("%d bytes of output were dropped here", missing.Missing.Stdout.Bytes+missing.Missing.Stderr.Bytes)
		}
		return shown
	}
	if json.Unmarshal(payload, &shown.Text) != nil {
		shown.Text = string(e.payload)
	}
	return shown
}

// jobLog is the log of a job at one time.
type jobLog struct {
	status  string
	entries []rawEntry
}

// readLog reads a job's status and log, archived or not. An unknown job is a *Failure. The memory counts for the request of ctx.
func readLog(ctx context.Context, luxi Luxi, id int64) (jobLog, error) {
	data, err := luxi.Call(ctx, Page, "QueryJobs", []int64{id}, []string{"status", "oplog"})
	if err == nil {
		err = admission.Take(ctx, (logCopies-1)*len(data))
	}
	if err != nil {
		return jobLog{}, err
	}
	release, err := admission.RenderTurn(ctx)
	if err != nil {
		return jobLog{}, err
	}
	defer release()
	rows := slices.Collect(rawjson.Elements(data))
	if len(rows) != 1 {
		return jobLog{}, &wire.MalformedResponse{Err: fmt.Errorf("the answer has %d rows, not one", len(rows))}
	}
	values := slices.Collect(rawjson.Elements(rows[0]))
	if len(values) != 2 {
		return jobLog{}, &wire.MalformedResponse{Err: fmt.Errorf("the row has %d values, not two", len(values))}
	}
	var status *string
	if err := json.Unmarshal(values[0], &status); err != nil {
		return jobLog{}, &wire.MalformedResponse{Err: err}
	}
	if status == nil {
		return jobLog{}, newFailure(http.StatusNotFound, "Job %d not found in queue, nor in the archive", id)
	}
	l := jobLog{status: *status}
	for opcode := range rawjson.Elements(values[1]) {
		if l.entries, err = appendEntries(l.entries, opcode); err != nil {
			return jobLog{}, &wire.MalformedResponse{Err: err}
		}
	}
	return l, nil
}

// IsFinal reports whether a status is that of a job that has ended.
func IsFinal(status string) bool {
	s, known := job.ParseStatus(status)
	return known && s.Final()
}

// Bounds of a piece of a log.
const (
	pieceEntries = 400
	pieceBytes   = 64 << 10
	// logCopies is how often a log is in memory while it is decoded and sent.
	logCopies = 4
)

// FollowLog calls each with the entries of a job's log after a serial number, a piece at a time, and then with further ones as they
// come. It returns the status of the job when the job has ended, or an error of the queue, of each, or of ctx.
func FollowLog(ctx context.Context, luxi Luxi, id, after int64, each func([]LogEntry) error) (status string, err error) {
	for {
		var ended bool
		status, ended, err = followPart(ctx, luxi, id, status, &after, func(raw []rawEntry) error {
			entries := make([]LogEntry, len(raw))
			for i := range raw {
				entries[i] = raw[i].entry()
			}
			return each(entries)
		})
		if err != nil || ended {
			return status, err
		}
	}
}

// followPart delivers the entries after *after that there are, or waits for some, and moves *after behind them. known is the status that
// the client knows; "" for the first call. ended: the job is final. The memory of the entries is given back when they are delivered.
func followPart(
	ctx context.Context,
	luxi Luxi,
	id int64,
	known string,
	after *int64,
	each func([]rawEntry) error,
) (status string, ended bool, err error) {
	ctx, release := admission.Part(ctx)
	defer release()
	var l jobLog
	if known == "" {
		l, err = readLog(ctx, luxi, id)
	} else {
		l, err = waitLog(ctx, luxi, id, known, *after)
	}
	if err != nil {
		return "", false, err
	}
	entries := l.entries
	for len(entries) > 0 {
		var piece []rawEntry
		size := 0
		for len(entries) > 0 && len(piece) < pieceEntries && size < pieceBytes {
			if e := &entries[0]; e.serial > *after {
				piece = append(piece, *e)
				size += len(e.payload)
				*after = e.serial
			}
			entries = entries[1:]
		}
		if len(piece) > 0 {
			if err := each(piece); err != nil {
				return "", false, err
			}
		}
	}
	return l.status, IsFinal(l.status), nil
}

// waitLog waits for a change of the status or for an entry after a serial number. Without a change within followSeconds the log has no
// entries.
func waitLog(ctx context.Context, luxi Luxi, id int64, status string, after int64) (jobLog, error) {
	data, err := luxi.Call(ctx, Wait, "WaitForJobChange", id, []string{"status"}, []string{status}, after, followSeconds)
	var lost *wire.Error
	switch {
	case errors.As(err, &lost) && lost.Class == "JobLost":
		return readLog(ctx, luxi, id) // it was archived
	case err != nil:
		return jobLog{}, err
	case string(data) == `"nochange"`:
		return jobLog{status: status}, nil
	}
	if err := admission.Take(ctx, (logCopies-1)*len(data)); err != nil {
		return jobLog{}, err
	}
	parts := slices.Collect(rawjson.Elements(data))
	if len(parts) != 2 {
		return jobLog{}, &wire.MalformedResponse{Err: fmt.Errorf("a change of a job has %d parts, not two", len(parts))}
	}
	var values []string
	entries, err := appendEntries(nil, parts[1])
	if err = errors.Join(err, json.Unmarshal(parts[0], &values)); err != nil || len(values) != 1 {
		return jobLog{}, &wire.MalformedResponse{Err: fmt.Errorf("decode a change of a job: %w", err)}
	}
	return jobLog{status: values[0], entries: entries}, nil
}

// streamArgument is stdout, stderr, or empty for both.
func streamArgument(r *http.Request) (string, error) {
	stream := r.URL.Query().Get("stream")
	if stream != "" && stream != job.LogStdout && stream != job.LogStderr {
		return "", newFailure(http.StatusBadRequest, "The 'stream' argument is %s or %s", job.LogStdout, job.LogStderr)
	}
	return stream, nil
}

// followLog sends the log of a job as a stream of server-sent events: "log" with a LogEntry, and "end" with the status. The
// id of an event is the serial number of its entry, after which a client that connects again goes on.
func (s *Server) followLog(c *call) (any, error) {
	id, err := c.jobID()
	if err != nil {
		return nil, err
	}
	after, err := logPosition(c.Request)
	if err != nil {
		return nil, err
	}
	part, release := admission.Part(c.Context())
	_, err = readLog(part, s.config.Luxi, id)
	release()
	if err != nil {
		return nil, err
	}
	ctx, stop, err := s.listen(c, s.logStreams)
	if err != nil {
		return nil, err
	}
	defer stop()
	startEventStream(c.ResponseWriter)
	if c.Method == http.MethodHead {
		return alreadyWritten{}, nil
	}
	out := streamTo(c.ResponseWriter)
	status, err := FollowLog(ctx, s.config.Luxi, id, after, func(entries []LogEntry) error {
		var text []byte
		for _, e := range entries {
			data, err := json.Marshal(logEvent{e, rfc3339Of(e.Time)})
			if err != nil {
				return err
			}
			text = append(text, FormatEvent(strconv.FormatInt(e.Serial, 10), "log", data)...)
		}
		_, err := out.Write(text)
		return err
	})
	if err == nil {
		_, _ = out.Write(FormatEvent("", "end", append(append([]byte(`{"status": `), quoteJSON(status)...), '}')))
	}
	return alreadyWritten{}, nil
}

// logEvent is an entry with its time in both forms.
type logEvent struct {
	LogEntry
	When *string `json:"time"`
}

func rfc3339Of(t answer.Time) *string {
	if t.IsZero() {
		return nil
	}
	text := t.UTC().Format("2006-01-02T15:04:05.999999999Z07:00")
	return &text
}

// logPosition is the serial number after which a log is followed: Last-Event-ID or the argument after; 0 without either.
func logPosition(r *http.Request) (int64, error) {
	text := r.Header.Get("Last-Event-ID")
	if text == "" {
		text = r.URL.Query().Get("after")
	}
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil || n < 0 {
		return 0, newFailure(http.StatusBadRequest, "The 'after' argument and Last-Event-ID are the serial number of a log entry")
	}
	return n, nil
}

// LogEntries returns the log of a job so far, and its status.
func LogEntries(ctx context.Context, luxi Luxi, id int64) (entries []LogEntry, status string, err error) {
	l, err := readLog(ctx, luxi, id)
	for i := range l.entries {
		entries = append(entries, l.entries[i].entry())
	}
	return entries, l.status, err
}

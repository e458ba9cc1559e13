package job

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"lockstep/core/rawjson"
)

// Types of log entries. The output of a command is cut into pieces, one entry each. The type names the stream and the
// form of the payload. The bytes of a stream are the concatenated pieces of its entries. Ganeti's clients print entries
// of any type.
const (
	// LogMessage: a text of Ganeti's opcodes. Old job files, in which the streams are not distinguished, have the lines
	// of both as messages.
	LogMessage = "message"
	// LogStdout, LogStderr: one line in UTF-8, without its newline.
	LogStdout = "stdout"
	LogStderr = "stderr"
	// LogMissing: earlier entries of the opcode were dropped here. The payload is a MissingOutput.
	LogMissing = "output-missing"
	// LogOpen: the command has ended, and processes outside its group had streams open. What they write later is not in
	// the log. The payload is the list of the streams.
	LogOpen = "output-open"
	// LogCut: the job process died before it had reported the end of the command. What it had read of the output and not
	// written to the job file is not in the log. The payload is null.
	LogCut = "output-cut"
	// LogNote: what the job process says of the output, such as why none is kept from here on. The payload is a text.
	LogNote = "output-note"
	// LogTry: a try of the opcode has ended, and another one follows. All output of the try is before it. The payload is
	// an EndedTry.
	LogTry = "try-ended"
	// CutText is an entry LogCut in words.
	CutText = "the job process died here; output that it had not saved is missing"

	// unterminatedSuffix: the payload is the complete piece, which does not end with a newline.
	unterminatedSuffix = "-part"
	// base64Suffix: the payload is the complete piece, which is not UTF-8, in base64.
	base64Suffix = "-base64"
)

// StreamOutput is an amount of output of one stream. Lines are counted by their newlines.
type StreamOutput struct {
	Lines int64 `json:"lines"`
	Bytes int64 `json:"bytes"`
}

// Output is an amount of output of both streams. Messages counts the log entries that are no output.
type Output struct {
	Stdout   StreamOutput `json:"stdout"`
	Stderr   StreamOutput `json:"stderr"`
	Messages int64        `json:"messages"`
}

// EndedTry is the payload of LogTry.
type EndedTry struct {
	Try    int             `json:"try"`    // from 1
	Most   int             `json:"most"`   // how many tries there are at most
	End    string          `json:"end"`    // in words, such as "exit 75"
	Result json.RawMessage `json:"result"` // of the opcode, as if the try had been the last one
	Due    [2]int64        `json:"due_ts"` // when the next try may begin: seconds since 1970, and microseconds
}

// String is the end of the try for people: "try 1 of 3: exit 75".
func (t EndedTry) String() string { return fmt.Sprintf("try %d of %d: %s", t.Try, t.Most, t.End) }

// MissingOutput is the payload of LogMissing.
type MissingOutput struct {
	// Missing is the output that was dropped here, in serials up to this entry's.
	Missing Output `json:"missing"`
	// Written is the output of all opcodes of the job up to here.
	Written Output `json:"written"`
}

// Ganeti's daemon reads a job file with any other type of log entry than its own as damaged. So in Ganeti mode the type goes
// into a message: "[stdout] " and the text of the payload, "[output-missing] " and the payload as JSON.

// AsMessage is a log entry of this package in the form for Ganeti's daemon. It returns other entries unchanged.
func AsMessage(typ string, payload json.RawMessage) (string, json.RawMessage) {
	text := string(payload)
	if _, _, isOutput := outputType(typ); isOutput {
		if json.Unmarshal(payload, &text) != nil {
			return typ, payload
		}
	} else if !isNote(typ) {
		return typ, payload
	}
	return LogMessage, rawjson.Quote("[" + typ + "] " + text)
}

// FromMessage is the inverse of AsMessage. It returns an entry unchanged that AsMessage has not made.
func FromMessage(typ string, payload json.RawMessage) (string, json.RawMessage) {
	if typ != LogMessage || len(payload) < 3 || payload[1] != '[' {
		return typ, payload
	}
	var whole string
	if json.Unmarshal(payload, &whole) != nil {
		return typ, payload
	}
	inner, text, found := strings.Cut(whole[1:], "] ")
	if _, _, isOutput := outputType(inner); found && isOutput {
		return inner, rawjson.Quote(text)
	}
	if found && isNote(inner) && json.Valid([]byte(text)) {
		return inner, json.RawMessage(text)
	}
	return typ, payload
}

// EncodeOutput is the log entry for a piece of a command's output on a stream, LogStdout or LogStderr.
func EncodeOutput(stream string, piece []byte) (typ string, payload json.RawMessage) {
	line, complete := bytes.CutSuffix(piece, []byte("\n"))
	switch {
	case !utf8.Valid(piece):
		quoted := make([]byte, 0, base64.StdEncoding.EncodedLen(len(piece))+2)
		quoted = append(quoted, '"')
		quoted = base64.StdEncoding.AppendEncode(quoted, piece)
		return stream + base64Suffix, append(quoted, '"')
	case complete:
		return stream, rawjson.Quote(string(line))
	default:
		return stream + unterminatedSuffix, rawjson.Quote(string(piece))
	}
}

// EncodeOpen is the log entry LogOpen of streams, LogStdout or LogStderr.
func EncodeOpen(streams []string) (typ string, payload json.RawMessage) {
	payload, err := json.Marshal(streams)
	if err != nil { // texts can always be encoded
		panic(err)
	}
	return LogOpen, payload
}

// DecodeOutput is the stream that a log entry belongs to and the piece of output in it; false for entries that are no
// output.
func DecodeOutput(typ string, payload json.RawMessage) (stream string, piece []byte, ok bool) {
	typ, payload = FromMessage(typ, payload)
	stream, form, ok := outputType(typ)
	if !ok {
		return "", nil, false
	}
	var text string
	if json.Unmarshal(payload, &text) != nil {
		return "", nil, false
	}
	switch form {
	case base64Suffix:
		piece, err := base64.StdEncoding.DecodeString(text)
		return stream, piece, err == nil
	case unterminatedSuffix:
		return stream, []byte(text), true
	default:
		return stream, []byte(text + "\n"), true
	}
}

// isNote reports whether entries of a type say something of the output.
func isNote(typ string) bool {
	return typ == LogMissing || typ == LogOpen || typ == LogCut || typ == LogNote || typ == LogTry
}

// IsOutput reports whether entries of a type are output of a command.
func IsOutput(typ string) bool {
	_, _, ok := outputType(typ)
	return ok
}

func outputType(typ string) (stream, form string, ok bool) {
	switch typ {
	case LogStdout, LogStderr:
		return typ, "", true
	case LogStdout + unterminatedSuffix, LogStdout + base64Suffix:
		return LogStdout, typ[len(LogStdout):], true
	case LogStderr + unterminatedSuffix, LogStderr + base64Suffix:
		return LogStderr, typ[len(LogStderr):], true
	}
	return "", "", false
}

// OutputOf is the amount of output in one log entry. Any other entry counts as one message, and so does output that cannot be decoded. An
// entry of LogMissing has none.
func OutputOf(typ string, payload json.RawMessage) Output {
	typ, payload = FromMessage(typ, payload)
	stream, form, ok := outputType(typ)
	if !ok {
		if typ == LogMissing {
			return Output{}
		}
		return Output{Messages: 1}
	}
	var v StreamOutput
	if form != base64Suffix && len(payload) >= 2 && payload[0] == '"' && bytes.IndexByte(payload, '\\') < 0 {
		v.Bytes = int64(len(payload)) - 2 // the quotes
		if form == "" {
			v = StreamOutput{Lines: 1, Bytes: v.Bytes + 1}
		}
	} else if _, piece, ok := DecodeOutput(typ, payload); ok {
		return AmountOf(stream, piece)
	} else {
		return Output{Messages: 1}
	}
	return ofStream(stream, v)
}

// AmountOf is the amount of output in a piece of a stream, LogStdout or LogStderr.
func AmountOf(stream string, piece []byte) Output {
	return ofStream(stream, StreamOutput{Lines: int64(bytes.Count(piece, []byte("\n"))), Bytes: int64(len(piece))})
}

func ofStream(stream string, v StreamOutput) Output {
	if stream == LogStdout {
		return Output{Stdout: v}
	}
	return Output{Stderr: v}
}

// Plus is the sum of two amounts.
func (w Output) Plus(o Output) Output {
	return Output{
		Stdout:   StreamOutput{w.Stdout.Lines + o.Stdout.Lines, w.Stdout.Bytes + o.Stdout.Bytes},
		Stderr:   StreamOutput{w.Stderr.Lines + o.Stderr.Lines, w.Stderr.Bytes + o.Stderr.Bytes},
		Messages: w.Messages + o.Messages,
	}
}

// Minus is the difference of two amounts.
func (w Output) Minus(o Output) Output {
	return Output{
		Stdout:   StreamOutput{w.Stdout.Lines - o.Stdout.Lines, w.Stdout.Bytes - o.Stdout.Bytes},
		Stderr:   StreamOutput{w.Stderr.Lines - o.Stderr.Lines, w.Stderr.Bytes - o.Stderr.Bytes},
		Messages: w.Messages - o.Messages,
	}
}

// OutputAccount is the amount of output that a reader of a log has received since its beginning, and the amount that
// was dropped before the reader could receive it.
type OutputAccount struct {
	Delivered Output
	Missing   Output
	// Unreadable counts the entries that are output, or stand for missing output, and cannot be decoded.
	Unreadable int64
	// Uncertain: an entry was read that says that output may be missing, and not how much: LogOpen or LogCut.
	Uncertain bool
}

// Add counts the next entry of a log. For an entry of LogMissing it returns the output that is missing before the entry and was not
// counted yet; else none.
func (a *OutputAccount) Add(typ string, payload json.RawMessage) (gap Output) {
	typ, payload = FromMessage(typ, payload)
	if typ != LogMissing {
		amount := OutputOf(typ, payload)
		a.Delivered = a.Delivered.Plus(amount)
		a.Uncertain = a.Uncertain || typ == LogOpen || typ == LogCut
		if IsOutput(typ) && amount.Messages > 0 {
			a.Unreadable++
		}
		return Output{}
	}
	var missing MissingOutput
	if json.Unmarshal(payload, &missing) != nil {
		a.Unreadable++
		return Output{}
	}
	gap = missing.Written.Minus(a.Delivered).Minus(a.Missing)
	a.Missing = a.Missing.Plus(gap)
	return gap
}

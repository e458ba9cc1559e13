// Package noded implements the messages of the RPC of Ganeti's node daemon, as far as the distribution of the configuration,
// the start of a master and queries use it (noded.md, live.md 2 to 4). It encodes and decodes the requests and the answers
// of nine procedures, and knows the limits of each procedure. It decodes requests for fake node daemons. It owns no state.
// Pure.
package noded

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"lockstep/core/rawjson"
)

// Transport of the RPC (noded.md 1).
const (
	DefaultPort    = 1811
	Service        = "ganeti-noded" // in the services database, over TCP; its port overrides DefaultPort
	ConnectTimeout = 5 * time.Second
	// ParallelMax is the maximum number of calls in progress at the same time (noded.md 7).
	ParallelMax = 30
)

// Procedure is the name of a procedure of the node daemon.
type Procedure string

// The procedures that lockstep calls.
const (
	UploadFile     Procedure = "upload_file_single"
	WriteSsconf    Procedure = "write_ssconf_files"
	NodeVerify     Procedure = "node_verify"
	MasterNodeName Procedure = "master_node_name"
)

// Limits bound one call of a procedure.
type Limits struct {
	Time   time.Duration // from the end of the TLS handshake to the end of the answer
	Answer int64         // of the answer's body, in bytes
}

// Limits returns the limits of the procedure: the time for a call, and the size of its result in bytes (noded.md 5).
func (p Procedure) Limits() Limits {
	const short = 64 << 10 // a null, a name or an error text
	switch p {
	case UploadFile:
		return Limits{15 * time.Minute, short}
	case WriteSsconf:
		return Limits{5 * time.Minute, short}
	case ActivateMasterIP:
		return Limits{5 * time.Minute, short}
	case NodeVerify:
		return Limits{15 * time.Minute, 16 << 20}
	case MasterNodeName:
		return Limits{time.Hour, short}
	case NodeInfo:
		return Limits{time.Minute, 1 << 20}
	case AllInstancesInfo, ConsoleInfo:
		return Limits{time.Minute, 32 << 20}
	case ExportList:
		return Limits{5 * time.Minute, 4 << 20}
	}
	return Limits{time.Minute, short}
}

// Request is a call: the procedure, and its arguments as a JSON list.
type Request struct {
	Procedure Procedure
	Body      []byte
}

// RefusedError reports a call that the node daemon executed and answered with an error.
type RefusedError struct{ Text string }

func (e *RefusedError) Error() string { return "the node daemon answers: " + e.Text }

// refusedTextMax bounds RefusedError.Text, in bytes.
const refusedTextMax = 1000

// DecodeAnswer returns the result in an answer. The error is a *RefusedError if the node daemon answered with an error
// (noded.md 3).
func DecodeAnswer(raw []byte) (result json.RawMessage, err error) {
	parts, err := list(raw)
	if err != nil || len(parts) != 2 {
		return nil, fmt.Errorf("the answer is no pair: %s", rawjson.Clipped(raw))
	}
	switch string(parts[0]) {
	case "false", "null", "0", `""`, "[]", "{}":
		return nil, &RefusedError{refusal(parts[1])}
	}
	return parts[1], nil
}

// refusal returns the text of an error answer. A text that is no string or is empty is shown as JSON.
func refusal(raw json.RawMessage) string {
	text, err := rawjson.ReadText(raw)
	if err != nil || text == "" {
		text = string(raw)
	}
	if len(text) <= refusedTextMax {
		return text
	}
	end := refusedTextMax
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return strings.ToValidUTF8(text[:end], "\uFFFD") + "…"
}

// DecodeVoid checks the result of a procedure that returns nothing, such as upload_file_single or write_ssconf_files: it is null.
func DecodeVoid(result json.RawMessage) error {
	if !rawjson.IsNull(result) {
		return fmt.Errorf("the result is not null: %s", rawjson.Clipped(result))
	}
	return nil
}

// AskMasterName is the call that asks a node for the name of the master in its ssconf files.
func AskMasterName() Request { return Request{MasterNodeName, []byte("[]")} }

// DecodeMasterName decodes the result of master_node_name.
func DecodeMasterName(result json.RawMessage) (string, error) {
	name, err := rawjson.ReadText(result)
	if err == nil && name == "" {
		err = errors.New("it is empty")
	}
	if err != nil {
		return "", fmt.Errorf("the result is no name of a node: %w", err)
	}
	return name, nil
}

// list splits a JSON list. The parts lie in raw.
func list(raw []byte) (parts []json.RawMessage, err error) {
	err = rawjson.ReadList(raw, func(value []byte) { parts = append(parts, value) })
	return parts, err
}

// arguments splits the body of a request, which must have count arguments.
func arguments(body []byte, count int) ([]json.RawMessage, error) {
	parts, err := list(body)
	if err == nil && len(parts) != count {
		err = fmt.Errorf("the call has %d arguments in place of %d", len(parts), count)
	}
	return parts, err
}

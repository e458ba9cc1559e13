package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"lockstep/core/haskell"
	"lockstep/core/rawjson"
)

// Version is the "version" in requests of clients: 3.0 (queue.md 1.2). Servers ignore it.
const Version = 3000000

// Request is one call: `{"method": string, "args": array, "version": int}`.
type Request struct {
	Method  string
	Args    []json.RawMessage // positional; not nil
	Version int               // 0 if absent or no integer
	User    string            // the user of the request in words, as another node says; any client can write it
	From    json.RawMessage   // the same user as an access.Identity; nil: the request says none. Any client can write it
}

// EncodeRequest returns the payload of a request frame; args nil means none.
func EncodeRequest(method string, args []any) ([]byte, error) {
	if args == nil {
		args = []any{}
	}
	payload, err := marshal(struct {
		Method  string `json:"method"`
		Args    []any  `json:"args"`
		Version int    `json:"version"`
	}{method, args, Version})
	if err != nil {
		return nil, fmt.Errorf("encode request %s: %w", method, err)
	}
	return payload, nil
}

// DecodeRequest reads a request frame (queue.md 1.2): method and args, and our keys version, by and from, of which a wrong value counts as
// a missing one. Other keys do not matter; of a key given twice the first counts. The errors carry the real server's texts, without the
// leading "Failed to parse request: " that EncodeParseError's caller adds. The result shares no memory with frame.
func DecodeRequest(frame []byte) (Request, error) {
	object, err := decodeObject(frame)
	if err != nil {
		return Request{}, fmt.Errorf("parsing top-level JSON message: %w", err)
	}
	rawMethod, err := object.get("method")
	if err != nil {
		return Request{}, err
	}
	request := Request{}
	if err := json.Unmarshal(rawMethod, &request.Method); err != nil || rawMethod[0] != '"' {
		return Request{}, errors.New("key 'method': Unable to read String")
	}
	rawArgs, err := object.get("args")
	if err != nil {
		return Request{}, err
	}
	request.Args = []json.RawMessage{}
	if err := rawjson.ReadList(bytes.Clone(rawArgs), func(arg []byte) { request.Args = append(request.Args, arg) }); err != nil {
		return Request{}, fmt.Errorf("Cannot convert value '%s', error: Unable to read Pair", rawArgs)
	}
	if version, err := object.get("version"); err == nil {
		if json.Unmarshal(version, &request.Version) != nil {
			request.Version = 0
		}
	}
	if user, err := object.get("by"); err == nil && json.Unmarshal(user, &request.User) != nil {
		request.User = ""
	}
	if from, err := object.get("from"); err == nil {
		request.From = bytes.Clone(from)
	}
	return request, nil
}

// WithUser is the request frame with the user of the request, in words and as the JSON of an access.Identity. It replaces a user in the
// frame, because of a repeated key the first counts. A frame that is not a request is returned unchanged.
func WithUser(frame []byte, user string, from []byte) []byte {
	start := bytes.IndexByte(frame, '{')
	if start < 0 || !bytes.HasPrefix(bytes.TrimLeft(frame[start+1:], " \t\r\n"), []byte{'"'}) {
		return frame
	}
	return slices.Concat(frame[:start+1], []byte(`"by":`), rawjson.Quote(user), []byte(`,"from":`), from, []byte{','}, frame[start+1:])
}

// EncodeResult returns the payload of a successful answer.
func EncodeResult(result any) ([]byte, error) {
	payload, err := marshal(response{Success: true, Result: result})
	if err != nil {
		return nil, fmt.Errorf("encode result: %w", err)
	}
	return payload, nil
}

// EncodeRawResult is EncodeResult for a result in JSON. It copies the text and checks nothing.
func EncodeRawResult(result []byte) []byte {
	payload := make([]byte, 0, len(resultStart)+len(result)+1)
	return CloseResult(append(AppendResult(payload), result...))
}

// EncodeError returns the payload of a failed answer, `{"success":false,"result":["Class",[args]]}`. An argument
// without a JSON form is sent as text, because every failure must reach the client.
func EncodeError(class string, args ...any) []byte {
	encoded := make([]json.RawMessage, len(args))
	for i, arg := range args {
		raw, err := marshal(arg)
		if err != nil {
			raw = mustMarshal(fmt.Sprint(arg))
		}
		encoded[i] = raw
	}
	return mustMarshal(response{Result: []any{class, encoded}})
}

// EncodeParseError returns the payload of the answer to a request that could not be understood: the form of a plain
// string. text is complete, with its leading "Failed to parse request: ". The server closes the connection after it.
func EncodeParseError(text string) []byte {
	return mustMarshal(response{Result: text})
}

// DecodeResponse reads an answer frame and returns its result. Errors: *Error and *RequestError for the two forms of a
// failed answer, *MalformedResponse for a frame that is not an answer.
func DecodeResponse(frame []byte) (json.RawMessage, error) {
	result, err := decodeResponse(frame)
	return bytes.Clone(result), err
}

// decodeResponse is DecodeResponse for a frame that does not change: the result is a part of it.
func decodeResponse(frame []byte) (json.RawMessage, error) {
	var success, result json.RawMessage
	if err := rawjson.ReadObject(frame, func(key, value []byte) {
		switch string(key) {
		case "success":
			success = value
		case "result":
			result = value
		}
	}); err != nil {
		return nil, &MalformedResponse{Err: err}
	}
	if success == nil || result == nil {
		return nil, &MalformedResponse{Err: errors.New("the keys success and result must both be there")}
	}
	switch string(success) {
	case "true":
		return result, nil
	case "false":
		return nil, decodeFailure(result)
	default:
		return nil, &MalformedResponse{Err: fmt.Errorf("success is %.40s", success)}
	}
}

// decodeFailure distinguishes the two forms of a failed result. A result of another form becomes the text, as in
// Ganeti's client.
func decodeFailure(result json.RawMessage) error {
	var text string
	if json.Unmarshal(result, &text) == nil {
		return &RequestError{Text: text}
	}
	var pair []json.RawMessage
	failure := &Error{}
	if json.Unmarshal(result, &pair) == nil && len(pair) == 2 &&
		json.Unmarshal(pair[0], &failure.Class) == nil &&
		json.Unmarshal(pair[1], &failure.Args) == nil {
		return failure
	}
	return &RequestError{Text: string(result)}
}

// response is an answer to be sent. Result is never omitted, because clients require both keys.
type response struct {
	Success bool `json:"success"`
	Result  any  `json:"result"`
}

// object is a JSON object whose keys are in the order of the document, which the
// error texts show.
type object struct {
	keys   []string
	values []json.RawMessage
}

func (o object) get(key string) (json.RawMessage, error) {
	for i, present := range o.keys {
		if present == key {
			return o.values[i], nil
		}
	}
	shown := make([]string, len(o.keys))
	for i, present := range o.keys {
		shown[i] = haskell.Quote(present)
	}
	return nil, fmt.Errorf("key '%s' not found, object contains only [%s]", key, strings.Join(shown, ","))
}

// errNotObject is the error for text that does not begin like an object or array, in the words of the real server's
// JSON library.
var errNotObject = errors.New("Invalid JSON: a JSON text a serialized object or array at the top level.")

func decodeObject(frame []byte) (object, error) {
	document := bytes.TrimLeft(frame, " \t\r\n")
	switch {
	case len(document) == 0 || document[0] != '{' && document[0] != '[':
		return object{}, errNotObject
	case document[0] == '[':
		return object{}, errors.New("Unable to read JSObject")
	}
	result := object{}
	if rawjson.ReadObject(document, func(key, value []byte) {
		result.keys, result.values = append(result.keys, string(key)), append(result.values, value)
	}) == nil {
		return result, nil
	}
	return objectError(document)
}

// objectError decodes a document that rawjson has refused, with encoding/json: the text of its error says where the document is wrong.
func objectError(document []byte) (object, error) {
	decoder := json.NewDecoder(bytes.NewReader(document))
	if _, err := decoder.Token(); err != nil {
		return object{}, err
	}
	result := object{}
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return object{}, err
		}
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return object{}, err
		}
		// Inside an object the decoder returns only strings in key position.
		result.keys = append(result.keys, key.(string))
		result.values = append(result.values, value)
	}
	if _, err := decoder.Token(); err != nil {
		return object{}, err
	}
	if _, err := decoder.Token(); err != io.EOF {
		return object{}, errors.New("Invalid tokens at end of JSON string")
	}
	return result, nil
}

// marshal is json.Marshal without its escapes for HTML: job output is full of < and &, and frames are never part of a
// page.
func marshal(value any) ([]byte, error) {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buffer.Bytes(), []byte("\n")), nil
}

// mustMarshal encodes values of strings, booleans and JSON, which cannot fail.
func mustMarshal(value any) []byte {
	payload, err := marshal(value)
	if err != nil {
		panic(fmt.Sprintf("wire: encode %T: %v", value, err))
	}
	return payload
}

package wire

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestDecodeRequest(t *testing.T) {
	tests := []struct{ frame, method, args string }{
		{"{\"method\": \"QueryJobs\", \"args\": [[4946], [\"status\"]], \"version\": 3000000}\n", "QueryJobs", `[4946]|["status"]`},
		{`{"method": "QueryClusterInfo", "args": []}`, "QueryClusterInfo", ``},
		{`{"args":[1],"unknown":{"a":[1,2]},"method":"A","version":"x"}`, "A", `1`},
		{`{"method":"first","args":[],"method":"second"}`, "first", ``},
		{"  {\"method\":\"\u00e4\",\"args\":[null]}  ", "ä", `null`},
	}
	for _, test := range tests {
		request, err := DecodeRequest([]byte(test.frame))
		if err != nil {
			t.Errorf("%s: %v", test.frame, err)
			continue
		}
		if request.Method != test.method || request.Args == nil {
			t.Errorf("%s: %+v", test.frame, request)
		}
		var args []string
		for _, arg := range request.Args {
			args = append(args, string(arg))
		}
		if got := strings.Join(args, "|"); got != test.args {
			t.Errorf("%s: args %s", test.frame, got)
		}
	}
	request, err := DecodeRequest([]byte(`{"method":"A","args":[],"version":3000000}`))
	if err != nil || request.Version != 3000000 {
		t.Errorf("version: %+v, %v", request, err)
	}
}

// The texts were captured from a real server. Those marked with * follow its JSON library.
func TestDecodeRequestErrors(t *testing.T) {
	const invalid = "parsing top-level JSON message: Invalid JSON: a JSON text a serialized object or array at the top level."
	tests := []struct{ frame, want string }{
		{"hello", invalid},
		{"", invalid},
		{" \n", invalid},
		{"{}", "key 'method' not found, object contains only []"},
		{"{\"method\": \"\xff\"}", `key 'args' not found, object contains only ["method"]`},
		{`{"b":1,"a\"":2,"ä1":3}`, `key 'method' not found, object contains only ["b","a\"","\228\&1"]`},
		{`{"method":"QueryJobs","args":{}}`, "Cannot convert value '{}', error: Unable to read Pair"},
		{`{"method":"QueryJobs","args":null}`, "Cannot convert value 'null', error: Unable to read Pair"},
		{`{"method":1,"args":[]}`, "key 'method': Unable to read String"},                                                   // *
		{`{"method":null,"args":[]}`, "key 'method': Unable to read String"},                                                // *
		{`[1]`, "parsing top-level JSON message: Unable to read JSObject"},                                                  // *
		{`{"method":"A","args":[]} x`, "parsing top-level JSON message: Invalid tokens at end of JSON string"},              // *
		{`{"method":"A","args":[]}{}`, "parsing top-level JSON message: Invalid tokens at end of JSON string"},              // *
		{`{"method":"A","args":[}`, "parsing top-level JSON message: invalid character '}' looking for beginning of value"}, // *
		{`{"method":"A",`, "parsing top-level JSON message: EOF"},                                                           // *
	}
	for _, test := range tests {
		_, err := DecodeRequest([]byte(test.frame))
		if err == nil || err.Error() != test.want {
			t.Errorf("%s:\n got %v\nwant %s", test.frame, err, test.want)
		}
	}
}

func TestEncode(t *testing.T) {
	request, err := EncodeRequest("WaitForJobChange", []any{12, []string{"status"}, nil, nil, 60})
	if err != nil {
		t.Fatal(err)
	}
	none, err := EncodeRequest("QueryClusterInfo", nil)
	if err != nil {
		t.Fatal(err)
	}
	result, err := EncodeResult([]any{true, "<a & b>\x03"})
	if err != nil {
		t.Fatal(err)
	}
	null, err := EncodeResult(nil)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		got  []byte
		want string
	}{
		{request, `{"method":"WaitForJobChange","args":[12,["status"],null,null,60],"version":3000000}`},
		{none, `{"method":"QueryClusterInfo","args":[],"version":3000000}`},
		{result, `{"success":true,"result":[true,"<a & b>\u0003"]}`},
		{null, `{"success":true,"result":null}`},
		{EncodeError("JobLost", "Can't load job file"), `{"success":false,"result":["JobLost",["Can't load job file"]]}`},
		{EncodeError("JobQueueFull"), `{"success":false,"result":["JobQueueFull",[]]}`},
		{EncodeError("OpPrereqError", "no", "wrong_input"), `{"success":false,"result":["OpPrereqError",["no","wrong_input"]]}`},
		{EncodeError("ResolverError", "host", 4, errors.ErrUnsupported), `{"success":false,"result":["ResolverError",["host",4,{}]]}`},
		{EncodeError("GenericError", func() {})[:46], `{"success":false,"result":["GenericError",["0x`},
		{EncodeParseError("Failed to parse request: x"), `{"success":false,"result":"Failed to parse request: x"}`},
	}
	for _, test := range tests {
		if string(test.got) != test.want {
			t.Errorf("\n got %s\nwant %s", test.got, test.want)
		}
	}
	if _, err := EncodeResult(func() {}); err == nil {
		t.Error("a function was encoded as a result")
	}
	if _, err := EncodeRequest("A", []any{func() {}}); err == nil {
		t.Error("a function was encoded as an argument")
	}
}

func TestDecodeResponse(t *testing.T) {
	tests := []struct {
		frame  string
		result string
		err    error
	}{
		{`{"success":true,"result":4944}`, `4944`, nil},
		{`{"success":true,"result":null}`, `null`, nil},
		{`{"result":[[1]],"success":true,"version":1}`, `[[1]]`, nil},
		{`{"success":false,"result":["JobLost",["Can't load job file"]]}`, "",
			&Error{"JobLost", []json.RawMessage{json.RawMessage(`"Can't load job file"`)}}},
		{`{"success":false,"result":["JobQueueFull",[]]}`, "", &Error{"JobQueueFull", []json.RawMessage{}}},
		{`{"success":false,"result":"Failed to parse request: x"}`, "", &RequestError{"Failed to parse request: x"}},
		{`{"success":false,"result":{"a":1}}`, "", &RequestError{`{"a":1}`}},
		{`{"success":false,"result":["a","b"]}`, "", &RequestError{`["a","b"]`}},
	}
	for _, test := range tests {
		result, err := DecodeResponse([]byte(test.frame))
		if string(result) != test.result || !reflect.DeepEqual(err, test.err) {
			t.Errorf("%s: %s, %#v", test.frame, result, err)
		}
	}
	for _, frame := range []string{``, `{}`, `[]`, `{"success":true}`, `{"result":1}`, `{"success":1,"result":1}`, `{"success":true,"result":1`} {
		var malformed *MalformedResponse
		if _, err := DecodeResponse([]byte(frame)); !errors.As(err, &malformed) {
			t.Errorf("%s: %v", frame, err)
		}
	}
}

func TestErrorText(t *testing.T) {
	tests := []struct{ frame, want string }{
		{`{"success":false,"result":["OpPrereqError",["no such job","wrong_input"]]}`, "no such job"},
		{`{"success":false,"result":["JobQueueFull",[]]}`, "JobQueueFull"},
		{`{"success":false,"result":["HooksAbort",[[["node","script","out"]]]]}`, `[["node","script","out"]]`},
	}
	for _, test := range tests {
		if _, err := DecodeResponse([]byte(test.frame)); err == nil || err.Error() != test.want {
			t.Errorf("%s: %v", test.frame, err)
		}
	}
}

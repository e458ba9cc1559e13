package job

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lockstep/core/rawjson"
)

// captured are the job files in testdata, which a real Ganeti wrote, by name.
func captured(t testing.TB) map[string][]byte {
	t.Helper()
	names, err := filepath.Glob("testdata/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, names)
	files := map[string][]byte{}
	for _, name := range names {
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		files[filepath.Base(name)] = data
	}
	return files
}

// generic reads JSON with the standard library, and keeps the spelling of numbers.
func generic(t require.TestingT, data []byte) any {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	require.NoError(t, d.Decode(&v))
	require.False(t, d.More())
	return v
}

// Ganeti's job process, in Python, wrote the spaced files: the encoder must write the same bytes. Its daemon, in
// Haskell, wrote the compact files: the values must stay the same, and missing ones become null.
func TestCaptured(t *testing.T) {
	spaced := 0
	for name, data := range captured(t) {
		isSpaced := bytes.HasPrefix(data, []byte(`{"id": `))
		if isSpaced {
			spaced++
		}
		t.Run(name, func(t *testing.T) {
			j, err := Decode(data)
			require.NoError(t, err)
			encoded := Encode(j)
			if isSpaced {
				require.Equal(t, string(data), string(encoded))
				return
			}
			again, err := Decode(encoded)
			require.NoError(t, err)
			require.Equal(t, string(encoded), string(Encode(again)))
			want := generic(t, data).(map[string]any)
			for _, key := range []string{"livelock", "process_id"} {
				if _, ok := want[key]; !ok {
					want[key] = nil
				}
			}
			require.Equal(t, want, generic(t, encoded))
		})
	}
	require.Equal(t, 14, spaced)
}

func TestDecodeCaptured(t *testing.T) {
	files := captured(t)
	j, err := Decode(files["job-4945.success-log-reason-comment.json"])
	require.NoError(t, err)
	require.Equal(t, ID(4945), j.ID)
	require.Equal(t, Timestamp{1795175118, 595666}, j.Received)
	require.Equal(t, Timestamp{1795175118, 777263}, j.Start)
	require.True(t, j.End.IsZero())
	require.Equal(t, "/var/run/ganeti/livelocks/job_004945_1795175118", j.Livelock)
	require.Equal(t, 2042, j.ProcessID)
	require.Len(t, j.Ops, 2)
	require.Equal(t, Running, j.Ops[0].Status)
	require.Nil(t, j.Ops[0].Result)
	require.Equal(t, -10, j.Ops[0].Priority)
	require.Equal(t, Timestamp{1795175118, 784236}, j.Ops[0].Exec)
	require.Equal(t, LogEntry{
		Serial: 3, Time: Timestamp{1795175118, 788404}, Type: "jqueue-test",
		Payload: json.RawMessage(`["/tmp/tmp6ocdu480/sock", "startmsg", 3]`),
	}, j.Ops[0].Log[2])
	require.Equal(t, "OP_TEST_JQUEUE", OpID(j.Ops[1].Input))

	j, err = Decode(files["job-4962.error-bad-priority-death-detected.json"])
	require.NoError(t, err)
	require.Equal(t, `"detected death of job 4962"`, string(j.Ops[0].Result))
	require.Equal(t, -99, j.Ops[0].Priority)
	require.Contains(t, string(j.Ops[0].Input), `"duration":1.0e-2`)

	j, err = Decode(files["job-4958.success-empty-op-list.json"])
	require.NoError(t, err)
	require.Nil(t, j.Ops)
	require.Equal(t, Success, j.Status())
}

func TestDecodeLenient(t *testing.T) {
	want := &Job{ID: 7, Ops: []Op{{Input: json.RawMessage(`null`)}}}
	for name, data := range map[string]string{
		"absent":     `{"id":7,"ops":[{"input":null,"status":"queued"}]}`,
		"id in text": `{"id":"7","ops":[{"input":null,"status":"queued"}]}`,
		"escapes":    `{"\u0069d":7,"ops":[{"inp\u0075t":null,"status":"\u0071ueued"}]}`,
		"space":      " \t\r\n{ \"id\" : 7 , \"ops\" : [ { \"input\" : null , \"status\" : \"queued\" } ] } \n\n",
		"null": `{"id":7,"livelock":null,"process_id":null,"received_timestamp":null,"start_timestamp":null,"end_timestamp":null,
			"ops":[{"input":null,"status":"queued","result":null,"log":null,"priority":null,"start_timestamp":null,
			"exec_timestamp":null,"end_timestamp":null}]}`,
		"zero": `{"id":7,"livelock":"","process_id":0,"ops":[{"input":null,"status":"queued","priority":-0,"log":[]}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			j, err := Decode([]byte(data))
			require.NoError(t, err)
			require.Equal(t, want, j)
		})
	}
}

// Each error names the place and the reason.
func TestDecodeMalformed(t *testing.T) {
	op := func(members string) string {
		return `{"id":7,"ops":[{"input":{},"status":"queued"},{` + members + `}]}`
	}
	deep := strings.Repeat("[", rawjson.DepthMax+1) + strings.Repeat("]", rawjson.DepthMax+1)
	for _, c := range []struct{ data, want string }{
		{``, `job: want an object, found the end of the data (byte 0)`},
		{`[]`, `job: want an object, found a list (byte 0)`},
		{`"x"`, `job: want an object, found a string (byte 0)`},
		{`{`, `job: want a key, found the end of the data (byte 1)`},
		{`{"id":7}`, `job: key "ops" is missing (byte 0)`},
		{` {"ops":[]}`, `job: key "id" is missing (byte 1)`},
		{`{"id":7,"ops":[]} x`, `job: trailing data (byte 18)`},
		{`{"id":7,"ops":[]}{}`, `job: trailing data (byte 17)`},
		{`{"id":7,"ops":[],}`, `job: want a key, found "}" (byte 17)`},
		{`{"id":7 "ops":[]}`, `job: want ',' or '}', found a string (byte 8)`},
		{`{"id" 7}`, `job: want ':', found a number (byte 6)`},
		{`{"id":7,"ops":[],"owner":"me"}`, `job: unknown key "owner" (byte 17)`},
		{`{"id":7,"ops":[],"\u00e4":1}`, `job: unknown key "\u00e4" (byte 17)`},
		{`{"id":7,"ops":[],"id":7}`, `job: key "id" is repeated (byte 17)`},
		{`{"id":7,"ops":[],"i\u0064":7}`, `job: key "id" is repeated (byte 17)`},
		{`{"id":7,"ops":[]`, `job: want ',' or '}', found the end of the data (byte 16)`},
		{"\xef\xbb\xbf{}", `job: want an object, found "\xef" (byte 0)`},
		{`{"id":-1,"ops":[]}`, `id: want an integer from 0 to 9223372036854775807, found -1 (byte 6)`},
		{`{"id":7.0,"ops":[]}`, `id: want an integer from 0 to 9223372036854775807, found 7.0 (byte 6)`},
		{`{"id":07,"ops":[]}`, `job: want ',' or '}', found a number (byte 7)`},
		{`{"id":9223372036854775808,"ops":[]}`, `id: want an integer from 0 to 9223372036854775807, found 9223372036854775808 (byte 6)`},
		{`{"id":null,"ops":[]}`, `id: want an integer, found null (byte 6)`},
		{`{"id":"x7","ops":[]}`, `id: want a job id, found "x7" (byte 6)`},
		{`{"id":"-7","ops":[]}`, `id: want a job id, found "-7" (byte 6)`},
		{`{"id":"","ops":[]}`, `id: want a job id, found "" (byte 6)`},
		{`{"id":7,"ops":null}`, `ops: want a list, found null (byte 14)`},
		{`{"id":7,"ops":[7]}`, `ops[0]: want an object, found a number (byte 15)`},
		{`{"id":7,"ops":[],"livelock":7}`, `livelock: want a string, found a number (byte 28)`},
		{`{"id":7,"ops":[],"process_id":-1}`, `process_id: want an integer from 0 to 2147483647, found -1 (byte 30)`},
		{`{"id":7,"ops":[],"end_timestamp":7}`, `end_timestamp: want a list, found a number (byte 33)`},
		{`{"id":7,"ops":[],"end_timestamp":[7]}`, `end_timestamp: want [seconds, microseconds], found 1 elements (byte 33)`},
		{`{"id":7,"ops":[],"end_timestamp":[7,8,9]}`, `end_timestamp: want [seconds, microseconds], found more (byte 33)`},
		{`{"id":7,"ops":[],"end_timestamp":[7,1000000]}`, `end_timestamp[1]: want an integer from 0 to 999999, found 1000000 (byte 36)`},
		{`{"id":7,"ops":[],"end_timestamp":[-7,0]}`, `end_timestamp[0]: want an integer from 0 to 9223372035, found -7 (byte 34)`},
		{op(`"input":{}`), `ops[1]: key "status" is missing (byte 46)`},
		{op(`"status":"queued"`), `ops[1]: key "input" is missing (byte 46)`},
		{op(`"sttus":"queued"`), `ops[1]: unknown key "sttus" (byte 47)`},
		{op(`"input":1,"input":1`), `ops[1]: key "input" is repeated (byte 57)`},
		{op(`"status":"lost"`), `ops[1].status: unknown status "lost" (byte 56)`},
		{op(`"status":3`), `ops[1].status: want a status, found a number (byte 56)`},
		{op(`"priority":1.5`), `ops[1].priority: want an integer from -2147483648 to 2147483647, found 1.5 (byte 58)`},
		{op(`"log":{}`), `ops[1].log: want a list, found an object (byte 53)`},
		{op(`"log":[[1,null,"m"]]`), `ops[1].log[0]: want 4 elements, found 3 (byte 54)`},
		{op(`"log":[[1,null,"m",0,0]]`), `ops[1].log[0]: want 4 elements, found more (byte 54)`},
		{op(`"log":[[1,null,"m",0],["1",null,"m",0]]`), `ops[1].log[1][0]: want an integer, found a string (byte 70)`},
		{op(`"log":[[1,[1],"m",0]]`), `ops[1].log[0][1]: want [seconds, microseconds], found 1 elements (byte 57)`},
		{op(`"log":[[1,null,3,0]]`), `ops[1].log[0][2]: want a string, found a number (byte 62)`},
		{op(`"log":[[1,null,"m",nul]]`), `ops[1].log[0][3]: want a value, found "n" (byte 66)`},
		{op(`"input":{"a":}`), `ops[1].input: want a value, found "}" (byte 60)`},
		{op(`"input":{"a"}`), `ops[1].input: want ':', found "}" (byte 59)`},
		{op(`"input":{a:1}`), `ops[1].input: want a key, found "a" (byte 56)`},
		{op(`"input":[1,]`), `ops[1].input: want a value, found "]" (byte 58)`},
		{op(`"input":[1}`), `ops[1].input: want ',' or ']', found "}" (byte 57)`},
		{op(`"input":-`), `ops[1].input: want a digit, found "}" (byte 56)`},
		{op(`"input":1.`), `ops[1].input: want a digit, found "}" (byte 57)`},
		{op(`"input":1e+`), `ops[1].input: want a digit, found "}" (byte 58)`},
		{op(`"input":NaN`), `ops[1].input: want a value, found "N" (byte 55)`},
		{op(`"input":"\x"`), `ops[1].input: invalid escape in string (byte 56)`},
		{op(`"input":"\u12g4"`), `ops[1].input: invalid escape in string (byte 56)`},
		{op("\"input\":\"a\nb\""), `ops[1].input: control character in string (byte 57)`},
		{`{"id":7,"ops":[{"input":"abc`, `ops[0].input: string without end (byte 24)`},
		{op(`"result":` + deep), `ops[1].result: nested deeper than 512 levels (byte 568)`},
	} {
		j, err := Decode([]byte(c.data))
		require.Nil(t, j, c.data)
		require.EqualError(t, err, c.want, c.data)
		var decodeError *rawjson.Error
		require.ErrorAs(t, err, &decodeError)
	}
}

// Every prefix of a file is refused, except the file without its last newline, so an incomplete write is never read as
// a job.
func TestDecodeTorn(t *testing.T) {
	for name, data := range captured(t) {
		data = bytes.TrimSpace(data)
		for n := range data {
			_, err := Decode(data[:n:n])
			require.Error(t, err, "%s cut to %d bytes", name, n)
		}
	}
}

// A value in a file may nest as deep as rawjson.Check allows, so every accepted value can be read.
func TestDepth(t *testing.T) {
	deepest := strings.Repeat(`[`, rawjson.DepthMax) + strings.Repeat(`]`, rawjson.DepthMax)
	require.NoError(t, rawjson.Check([]byte(deepest)))
	require.EqualError(t, rawjson.Check([]byte("["+deepest+"]")), "value: nested deeper than 512 levels (byte 512)")
	entry := LogEntry{Serial: 1, Payload: json.RawMessage(deepest)}
	want := &Job{ID: 7, Ops: []Op{{Input: json.RawMessage(deepest), Log: []LogEntry{entry, entry}}}}
	j, err := Decode(Encode(want))
	require.NoError(t, err)
	require.Equal(t, want, j)
}

// An append to a raw value must not overwrite the next value in the file's buffer.
func TestDecodeAliases(t *testing.T) {
	data := []byte(`{"id":7,"ops":[{"input":{},"status":"queued"}]}`)
	j, err := Decode(data)
	require.NoError(t, err)
	_ = append(j.Ops[0].Input, "xxxx"...)
	require.Equal(t, `{"id":7,"ops":[{"input":{},"status":"queued"}]}`, string(data))
}

func TestEncodePanics(t *testing.T) {
	input := json.RawMessage(`{}`)
	withOp := func(op Op) *Job { return &Job{ID: 7, Ops: []Op{{Input: input}, op}} }
	for want, j := range map[string]*Job{
		"encode job -7: negative id":                                  {ID: -7},
		"encode job 7: negative process id -1":                        {ID: 7, ProcessID: -1},
		"encode job 7: start_timestamp out of range: [-1, 0]":         {ID: 7, Start: Timestamp{Sec: -1}},
		"encode job 7: end_timestamp out of range: [9223372036, 0]":   {ID: 7, End: Timestamp{Sec: secMax + 1}},
		"encode job 7: received_timestamp out of range: [1, 1000000]": {ID: 7, Received: Timestamp{1, 1_000_000}},
		"encode job 7: ops[1]: unknown status Status(7)":              withOp(Op{Input: input, Status: Error + 1}),
		"encode job 7: ops[1]: exec_timestamp out of range: [1, -1]":  withOp(Op{Input: input, Exec: Timestamp{1, -1}}),
		"encode job 7: ops[1]: no input":                              withOp(Op{}),
		"encode job 7: ops[1]: input: value: want a key, found the end of the data (byte 1)": withOp(
			Op{Input: json.RawMessage(`{`)}),
		"encode job 7: ops[1]: result: value: trailing data (byte 2)": withOp(
			Op{Input: input, Result: json.RawMessage(`1 2`)}),
		"encode job 7: ops[1]: log[0]: time out of range: [-1, 0]": withOp(
			Op{Input: input, Log: []LogEntry{{Time: Timestamp{Sec: -1}}}}),
		`encode job 7: ops[1]: log[1]: payload: value: want a value, found "x" (byte 0)`: withOp(
			Op{Input: input, Log: []LogEntry{{}, {Payload: json.RawMessage(`x`)}}}),
	} {
		require.PanicsWithValue(t, want, func() { Encode(j) })
	}
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := genJob().Draw(t, "job")
		encoded := Encode(want)
		require.Equal(t, encoded, AppendEncoded([]byte("before"), want)[len("before"):])
		require.True(t, json.Valid(encoded))
		for _, c := range encoded[:len(encoded)-1] {
			require.True(t, c >= ' ' && c <= '~', "byte %#x", c)
		}
		j, err := Decode(encoded)
		require.NoError(t, err)
		require.Equal(t, want, j)
	})
}

// Every spelling of a raw value is written in the same form, which other readers decode to the same value.
func TestRespelling(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := genTree(4).Draw(t, "value")
		sloppy := json.RawMessage(v.sloppy(t))
		require.NoError(t, rawjson.Check(sloppy), "%s", sloppy)
		require.Equal(t, v.python(), string(rawjson.AppendPython(nil, sloppy)))
		require.Equal(t, v.python(), string(rawjson.AppendPython(nil, json.RawMessage(v.python()))))
		require.Equal(t, generic(t, sloppy), generic(t, []byte(v.python())))
	})
}

// Every spelling of a file decodes to the same job.
func TestDecodeSloppy(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		encoded := Encode(genJob().Draw(t, "job"))
		j, err := Decode([]byte(treeOf(generic(t, encoded)).sloppy(t)))
		require.NoError(t, err)
		require.Equal(t, generic(t, encoded), generic(t, Encode(j)))
	})
}

func TestQuote(t *testing.T) {
	for text, want := range map[string]string{
		"":                     `""`,
		"plain ~":              `"plain ~"`,
		"a/b<&>'":              `"a/b<&>'"`,
		"\"\\\n\r\t\b\f":       `"\"\\\n\r\t\b\f"`,
		"\x00\x1f\x7f":         `"\u0000\u001f\u007f"`,
		"äöü \u2028":           `"\u00e4\u00f6\u00fc \u2028"`,
		"\U0001f600\U0010ffff": `"\ud83d\ude00\udbff\udfff"`,
		"a\xffb\xc3":           `"a\ufffdb\ufffd"`,
	} {
		require.Equal(t, want, string(rawjson.Quote(text)))
	}
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.String().Draw(t, "text")
		var text string
		require.NoError(t, json.Unmarshal(rawjson.Quote(want), &text))
		require.Equal(t, want, text)
	})
}

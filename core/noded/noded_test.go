package noded

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lockstep/core/config/model"
)

// captured is a request that one of Ganeti's daemons sent.
type captured struct{ Sender, Head, Body string }

// requests returns the captured requests of a procedure whose sender begins with a prefix.
func requests(t *testing.T, p Procedure, sender string) (found []captured) {
	t.Helper()
	data, err := os.ReadFile("testdata/requests.jsonl")
	require.NoError(t, err)
	for line := range bytes.Lines(data) {
		var c captured
		require.NoError(t, json.Unmarshal(line, &c))
		if strings.HasPrefix(c.Head, "POST /"+string(p)+" ") && strings.HasPrefix(c.Sender, sender) {
			found = append(found, c)
		}
	}
	require.NotEmpty(t, found)
	return found
}

// The values of ssconf, decoded from a request of Ganeti and encoded again, are the same bytes.
func TestSsconfIsGanetis(t *testing.T) {
	for _, c := range requests(t, WriteSsconf, "luxid or wconfd") {
		values, err := DecodeSsconf([]byte(c.Body))
		require.NoError(t, err)
		require.Len(t, values, 34)
		r, tooLong := Ssconf(values)
		require.Empty(t, tooLong)
		require.Equal(t, WriteSsconf, r.Procedure)
		require.Equal(t, c.Body, string(r.Body))
	}
}

func TestSsconfOmitsWhatIsTooLong(t *testing.T) {
	line := strings.Repeat("x", 1023)
	fits := make([]string, 128)
	for i := range fits {
		fits[i] = line
	}
	r, tooLong := Ssconf(map[string][]string{"a": fits, "b": append(fits, ""), "c": nil, "d": {"<&>", "ü"}})
	require.Equal(t, []string{"b"}, tooLong)
	values, err := DecodeSsconf(r.Body)
	require.NoError(t, err)
	require.Equal(t, map[string][]string{"a": fits, "c": {}, "d": {"<&>", "ü"}}, values)
	require.Contains(t, string(r.Body), `"c":[],"d":["<&>","ü"]}]`)
}

// The upload differs from Ganeti's only in the compressed bytes and in the times.
func TestConfigFileIsGanetis(t *testing.T) {
	for _, c := range requests(t, UploadFile, "luxid or wconfd") {
		sent, err := DecodeFile([]byte(c.Body))
		require.NoError(t, err)
		_, err = model.Decode(sent.Content)
		require.NoError(t, err)
		require.Equal(t, ConfigFile(sent.Content), sent)

		r := sent.Request()
		require.Equal(t, UploadFile, r.Procedure)
		const head = `["/var/lib/ganeti/config.data",[1,"`
		require.True(t, strings.HasPrefix(c.Body, head))
		require.True(t, strings.HasPrefix(string(r.Body), head))
		_, tail, _ := strings.Cut(c.Body[len(head):], `"]`)
		require.Regexp(t, `^,33184,"gnt-masterd","gnt-confd",\d+,\d+\]$`, tail)
		_, tail, _ = strings.Cut(string(r.Body)[len(head):], `"]`)
		require.Equal(t, `,33184,"gnt-masterd","gnt-confd",null,null]`, tail)
		again, err := DecodeFile(r.Body)
		require.NoError(t, err)
		require.Equal(t, sent, again)
	}
}

// The contents of requests that Python's zlib has compressed are readable, and lockstep's are readable again.
func TestContent(t *testing.T) {
	for _, c := range requests(t, "jobqueue_update", "") {
		args, err := arguments([]byte(c.Body), 2)
		require.NoError(t, err)
		content, err := decodeContent(args[1])
		require.NoError(t, err)
		require.NotEmpty(t, content)
		again, err := decodeContent(appendContent(nil, content))
		require.NoError(t, err)
		require.Equal(t, content, again)
	}
	require.Equal(t, `[0,"7003\n"]`, string(appendContent(nil, []byte("7003\n"))))
	require.Equal(t, `[0,"`+strings.Repeat("x", 512)+`"]`, string(appendContent(nil, bytes.Repeat([]byte("x"), 512))))
	require.True(t, bytes.HasPrefix(appendContent(nil, bytes.Repeat([]byte("x"), 513)), []byte(`[1,"`)))
	require.True(t, bytes.HasPrefix(appendContent(nil, []byte("\xff")), []byte(`[1,"`)), "no text")

	rapid.Check(t, func(t *rapid.T) {
		content := rapid.SliceOfN(rapid.Byte(), 0, 2000).Draw(t, "content")
		encoded := appendContent(nil, content)
		require.True(t, json.Valid(encoded))
		again, err := decodeContent(encoded)
		require.NoError(t, err)
		require.True(t, bytes.Equal(content, again))
	})
	for _, bad := range []string{`[2,"x"]`, `[1,"!!!notbase64"]`, `[1,"eJwF"]`, `[1]`, `"x"`, `[0,5]`} {
		_, err := decodeContent([]byte(bad))
		require.Error(t, err, bad)
	}
}

// Every answer of the real daemon decodes to its result or to its error text.
func TestAnswers(t *testing.T) {
	data, err := os.ReadFile("testdata/calls.json")
	require.NoError(t, err)
	var calls []struct{ Call, Answer string }
	require.NoError(t, json.Unmarshal(data, &calls))
	refused, done := 0, 0
	for _, c := range calls {
		if c.Answer == "" {
			continue // the daemon closed the connection
		}
		result, err := DecodeAnswer([]byte(c.Answer + "\n"))
		if strings.HasPrefix(c.Answer, "[false") {
			var refusal *RefusedError
			require.ErrorAs(t, err, &refusal)
			require.Contains(t, c.Answer, refusal.Text)
			refused++
			continue
		}
		require.NoError(t, err)
		require.Equal(t, c.Answer, "[true, "+string(result)+"]")
		done++
		switch Procedure(c.Call) {
		case UploadFile, WriteSsconf:
			require.NoError(t, DecodeVoid(result))
		case MasterNodeName:
			name, err := DecodeMasterName(result)
			require.NoError(t, err)
			require.Equal(t, "node1.gnt.example", name)
		}
	}
	require.Equal(t, [2]int{14, 36}, [2]int{refused, done})
}

func TestBadAnswers(t *testing.T) {
	for _, bad := range []string{"", "x", "[]", "[true]", "[true,null,null]", "{}", "null", `"[true,null]"`, "[true,null", "\xff"} {
		_, err := DecodeAnswer([]byte(bad))
		require.Error(t, err, bad)
		require.False(t, errors.As(err, new(*RefusedError)), bad)
	}
	_, err := DecodeAnswer([]byte(`[false, ["no", "text"]]`))
	require.EqualError(t, err, `the node daemon answers: ["no", "text"]`)
	_, err = DecodeAnswer([]byte(`[false, "` + strings.Repeat("ü", 1000) + `"]`))
	require.EqualError(t, err, "the node daemon answers: "+strings.Repeat("ü", 500)+"…")

	require.Error(t, DecodeVoid([]byte("true")))
	for _, bad := range []string{"null", "5", `""`, `["n"]`} {
		_, err := DecodeMasterName([]byte(bad))
		require.Error(t, err, bad)
	}
}

// Python's requests of node_verify have the form that lockstep's have.
func TestVerify(t *testing.T) {
	for _, c := range requests(t, NodeVerify, "job process") {
		v, err := DecodeVerify([]byte(c.Body))
		require.NoError(t, err)
		require.Contains(t, v.Files, "/var/lib/ganeti/ssconf_master_node")
		require.Equal(t, "cluster.gnt.example", v.Cluster)
		again, err := DecodeVerify(v.Request().Body)
		require.NoError(t, err)
		require.Equal(t, v, again)
	}
	require.Equal(t, `[{},"c",{}]`, string(Verify{Cluster: "c"}.Request().Body))
	all := Verify{Cluster: "c", Files: []string{"/a", "/b"}, Version: true, Time: true, ClientCert: true}
	require.Equal(t, `[{"client-cert":null,"filelist":["/a","/b"],"time":null,"version":null},"c",{}]`, string(all.Request().Body))

	found, err := all.DecodeVerification([]byte(`{"filelist": {"/a": "06e5"}, "version": [3000000, "3.0.2"], "time": [1795327759, 500000], "client-cert": [null, "D3:0B"]}`))
	require.NoError(t, err)
	require.Equal(t, Verification{Files: map[string]string{"/a": "06e5"}, Protocol: 3000000, Release: "3.0.2",
		Time: time.Unix(1795327759, 500_000_000), ClientCert: "D3:0B"}, found)
	found, err = Verify{ClientCert: true}.DecodeVerification([]byte(`{"client-cert": ["ENV", "it has expired"]}`))
	require.NoError(t, err)
	require.Equal(t, Verification{CertFault: "it has expired"}, found)

	for _, bad := range []string{"null", "[]", "{}", `{"time": 5}`, `{"time": [1]}`, `{"time": ["a", "b"]}`} {
		_, err := Verify{Time: true}.DecodeVerification([]byte(bad))
		require.Error(t, err, bad)
	}
}

// The limits are those of noded.md 5.
func TestLimits(t *testing.T) {
	require.Equal(t, 15*time.Minute, UploadFile.Limits().Time)
	require.Equal(t, 5*time.Minute, WriteSsconf.Limits().Time)
	require.Equal(t, 15*time.Minute, NodeVerify.Limits().Time)
	require.Equal(t, time.Hour, MasterNodeName.Limits().Time)
	require.Equal(t, time.Minute, Procedure("version").Limits().Time)
}

// Arguments of a wrong form are errors, not panics.
func TestBadRequests(t *testing.T) {
	for _, bad := range []string{"", "x", "[]", "null", `["/p"]`, `["/p",[0,"x"],null,0,0,null,null]`, `[{}, {}, {}, {}, {}, {}, {}]`, `[5]`, `[{"a":5}]`, `[5,5,5]`, `[{"filelist":5},"",{}]`} {
		_, err := DecodeFile([]byte(bad))
		require.Error(t, err, bad)
		_, err = DecodeSsconf([]byte(bad))
		require.Error(t, err, bad)
		_, err = DecodeVerify([]byte(bad))
		require.Error(t, err, bad)
	}
}

package calls

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/config/model"
	"lockstep/core/config/reserve"
	"lockstep/core/lock"
)

// record is a line of testdata/wconfd-objects.jsonl.gz. Its first line describes the format.
type record struct {
	Name    string            `json:"name"`
	Config  json.RawMessage   `json:"config"`
	Setup   []json.RawMessage `json:"setup"`
	Request *struct {
		Method string            `json:"method"`
		Args   []json.RawMessage `json:"args"`
	} `json:"request"`
	Save     string                    `json:"save"`
	Response any                       `json:"response"`
	Diff     map[string]map[string]any `json:"diff"`
	Bug      string                    `json:"upstream_bug"`
	File     string                    `json:"file"`
	Content  any                       `json:"content"`
	Die      string                    `json:"die"`
}

func records(t testing.TB) (base json.RawMessage, all []record) {
	t.Helper()
	file, err := os.Open("../testdata/wconfd-objects.jsonl.gz")
	require.NoError(t, err)
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	require.NoError(t, err)
	data, err := io.ReadAll(unzipped)
	require.NoError(t, err)
	for line := range bytes.Lines(data) {
		var r record
		require.NoError(t, json.Unmarshal(line, &r))
		if r.Name == "_base" {
			base = r.Config
		}
		all = append(all, r)
	}
	return base, all
}

// player replays the calls of one case.
type player struct {
	t     *testing.T
	base  json.RawMessage
	state State
	locks *lock.State
	saved map[string]json.RawMessage
	now   float64
	cids  [4]lock.Owner
}

// firstNow is the time of the first call.
const firstNow = 1795327798

func newPlayer(t *testing.T, base json.RawMessage, setup []json.RawMessage) *player {
	p := &player{t: t, base: base, locks: lock.New(lock.Settings{Hierarchy: lock.Implied}), saved: map[string]json.RawMessage{}, now: firstNow}
	for n, who := range []string{"1000", "1001", "1002", `"tool"`} {
		require.NoError(t, p.cids[n].UnmarshalJSON(fmt.Appendf(nil, `[%s,"/var/run/ganeti/livelocks/cid%d",%d]`, who, n, 70+n)))
	}
	start := append(setup[:len(setup):len(setup)], json.RawMessage(`["/serial_no",101]`), fmt.Appendf(nil, `["/mtime",%d]`, firstNow))
	c, err := model.Decode(edited(t, base, start))
	require.NoError(t, err)
	p.state = NewState(c, reserve.State{})
	return p
}

// edited applies operations [JSON pointer, value], or [JSON pointer] to remove.
func edited(t *testing.T, raw json.RawMessage, ops []json.RawMessage) json.RawMessage {
	t.Helper()
	doc := decodeExact(t, raw)
	for _, op := range ops {
		parts := decodeExact(t, op).([]any)
		path := strings.Split(parts[0].(string), "/")[1:]
		at := doc
		for _, step := range path[:len(path)-1] {
			at = enter(at, step)
		}
		last := path[len(path)-1]
		switch parent := at.(type) {
		case map[string]any:
			if len(parts) == 2 {
				parent[last] = parts[1]
			} else {
				delete(parent, last)
			}
		case []any:
			i, err := strconv.Atoi(last)
			require.NoError(t, err)
			parent[i] = parts[1]
		}
	}
	encoded, err := json.Marshal(doc)
	require.NoError(t, err)
	return encoded
}

func enter(at any, step string) any {
	if list, is := at.([]any); is {
		i, _ := strconv.Atoi(step)
		return list[i]
	}
	return at.(map[string]any)[step]
}

// decodeExact keeps numbers as they are.
func decodeExact(t *testing.T, raw []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	require.NoError(t, d.Decode(&v))
	return v
}

// argument replaces the placeholders in an argument.
func (p *player) argument(raw json.RawMessage) json.RawMessage {
	var marks struct {
		Config *[]json.RawMessage `json:"$config"`
		Stored string             `json:"$stored"`
		Saved  string             `json:"$saved"`
		Set    []json.RawMessage  `json:"set"`
	}
	if bytes.HasPrefix(raw, []byte(`{"$`)) {
		require.NoError(p.t, json.Unmarshal(raw, &marks))
		switch {
		case marks.Config != nil:
			return edited(p.t, p.base, *marks.Config)
		case marks.Saved != "":
			return p.saved[marks.Saved]
		}
		at := decodeExact(p.t, p.state.Config.JSON())
		for _, step := range strings.Split(marks.Stored, "/")[1:] {
			at = enter(at, step)
		}
		stored, err := json.Marshal(at)
		require.NoError(p.t, err)
		// Errors list the keys in their order.
		return inOrder(p.t, edited(p.t, stored, marks.Set), p.state.Config.JSON(), marks.Stored)
	}
	for n, cid := range p.cids {
		raw = bytes.ReplaceAll(raw, fmt.Appendf(nil, `"$cid%d"`, n), []byte(cid.String()))
	}
	return raw
}

// inOrder returns an object with its members in the order of the configuration.
func inOrder(t *testing.T, object, config json.RawMessage, pointer string) json.RawMessage {
	t.Helper()
	at := config
	for _, step := range strings.Split(pointer, "/")[1:] {
		var members map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(at, &members))
		at = members[step]
	}
	var members map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(object, &members))
	var out []byte
	d := json.NewDecoder(bytes.NewReader(at))
	for depth := 0; d.More() || depth > 1; {
		token, err := d.Token()
		require.NoError(t, err)
		switch v := token.(type) {
		case json.Delim:
			if depth++; v == '}' || v == ']' {
				depth -= 2
			}
		case string:
			if value, found := members[v]; depth == 1 && found {
				out = fmt.Appendf(out, ",%q:%s", v, value)
				delete(members, v)
			}
			if depth == 1 {
				var skipped json.RawMessage
				require.NoError(t, d.Decode(&skipped))
			}
		}
	}
	for key, value := range members {
		out = fmt.Appendf(out, ",%q:%s", key, value)
	}
	return append(append([]byte{'{'}, out[1:]...), '}')
}

// held returns the mode in which an owner holds a lock.
func (p *player) held(name string, o lock.Owner) lock.Mode {
	for _, item := range p.ofLocks("listLocks", o).([]any) {
		if of := item.([]any); of[0] == name {
			return map[any]lock.Mode{"shared": lock.Shared, "exclusive": lock.Exclusive}[of[1]]
		}
	}
	return lock.None
}

func (p *player) ofLocks(function string, args ...any) any {
	raw := []json.RawMessage{}
	for _, a := range args {
		encoded, err := json.Marshal(a)
		require.NoError(p.t, err)
		raw = append(raw, encoded)
	}
	call, err := lock.ParseCall(function, raw)
	require.NoError(p.t, err)
	answer, err := call.Do(p.locks, time.Unix(0, 0))
	require.NoError(p.t, err)
	return plain(p.t, answer.Result)
}

// play applies a call and returns the answer as sent to the client.
func (p *player) play(method string, args []json.RawMessage) any {
	call, err := Parse(method, args)
	if err == ErrNoCall {
		return p.playLocks(method, args)
	}
	var answer Outcome
	if err != nil {
		answer.Err = asError(err)
	} else {
		var next State
		if next, answer = call.Apply(p.state, p.env(call, args)); answer.Err == nil {
			p.state = next
		}
	}
	if answer.Unlock != nil {
		p.ofLocks("unlockConfig", *answer.Unlock)
	}
	switch {
	case answer.Err != nil:
		return map[string]any{"success": false, "result": plain(p.t, []any{answer.Err.Class, answer.Err.Args()})}
	case answer.IsConfig:
		return map[string]any{"success": true, "result": "<config>"}
	}
	var result any
	require.NoError(p.t, json.Unmarshal(answer.Result, &result))
	return map[string]any{"success": true, "result": result}
}

func (p *player) env(call Call, args []json.RawMessage) Env {
	env := Env{Now: model.Time(p.now), Random: func(n int) []byte { return bytes.Repeat([]byte{byte(p.now)}, n) }}
	for _, o := range p.cids {
		env.Locks.Held = env.Locks.Held || p.held("cluster/config", o) != lock.None
	}
	env.Locks.Mode = p.held("cluster/config", call.Owner)
	if p.held("cluster/BGL", call.Owner) == lock.Exclusive {
		env.Locks.BGL = BGLClient
	}
	if call.Method == "lockConfig" {
		mode := "exclusive"
		if string(args[1]) == "true" {
			mode = "shared"
		}
		env.Locks.Granted = len(p.ofLocks("tryUpdateLocks", call.Owner, []any{[]any{"cluster/config", mode}}).([]any)) == 0
	}
	return env
}

func (p *player) playLocks(method string, args []json.RawMessage) any {
	if method == "cleanupLocks" {
		return map[string]any{"success": true, "result": []any{}}
	}
	all := []any{}
	for _, a := range args {
		all = append(all, a)
	}
	return map[string]any{"success": true, "result": p.ofLocks(method, all...)}
}

// plain returns a value after encoding and decoding.
func plain(t *testing.T, v any) any {
	t.Helper()
	encoded, err := json.Marshal(v)
	require.NoError(t, err)
	var out any
	require.NoError(t, json.Unmarshal(encoded, &out))
	return out
}

// differ lists the differences of two values in the format of the records.
func differ(path string, a, b any, into map[string]map[string]any) {
	x, isX := a.(map[string]any)
	y, isY := b.(map[string]any)
	if !isX || !isY {
		if !reflect.DeepEqual(a, b) {
			into[path] = map[string]any{"before": a, "after": b}
		}
		return
	}
	for key := range x {
		if _, there := y[key]; there {
			differ(path+"/"+key, x[key], y[key], into)
		} else {
			into[path+"/"+key] = map[string]any{"before": x[key]}
		}
	}
	for key := range y {
		if _, there := x[key]; !there {
			into[path+"/"+key] = map[string]any{"after": y[key]}
		}
	}
}

// changes returns the changes of the configuration in the format of the records.
func (p *player) changes(before []byte) map[string]map[string]any {
	var a, b any
	require.NoError(p.t, json.Unmarshal(before, &a))
	require.NoError(p.t, json.Unmarshal(p.state.Config.JSON(), &b))
	diff := map[string]map[string]any{}
	differ("", a, b, diff)
	for _, path := range []string{"/mtime", "/serial_no"} {
		delete(diff[path], "before")
	}
	return diff
}

// like reports whether a value matches a record, which can contain placeholders.
func like(want, got any) bool {
	switch want := want.(type) {
	case string:
		if n, is := got.(float64); is && want == "<now>" {
			return n >= firstNow
		}
		s, is := got.(string)
		return is && pattern(want).MatchString(s)
	case map[string]any:
		g, is := got.(map[string]any)
		if !is || len(g) != len(want) {
			return false
		}
		for key := range want {
			if v, there := g[key]; !there || !like(want[key], v) {
				return false
			}
		}
		return true
	case []any:
		g, is := got.([]any)
		if !is || len(g) != len(want) {
			return false
		}
		for i := range want {
			if !like(want[i], g[i]) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(want, got)
}

func pattern(want string) *regexp.Regexp {
	p := regexp.QuoteMeta(want)
	for separator, form := range map[string]string{"<hex6>": "[0-9a-f:]{8}", "<hex40>": "[0-9a-f]{40}", "<show>": ".*"} {
		p = strings.ReplaceAll(p, regexp.QuoteMeta(separator), form)
	}
	return regexp.MustCompile("^" + p + "$")
}

func likeChanges(want, got map[string]map[string]any) bool {
	if len(want) != len(got) {
		return false
	}
	for path := range want {
		g, there := got[path]
		if !there || !like(any(want[path]), any(g)) {
			return false
		}
	}
	return true
}

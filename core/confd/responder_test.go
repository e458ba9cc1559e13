package confd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/config/model"
	"lockstep/core/config/redact"
)

// ask sends a query to a snapshot and returns the answer.
func ask(t testing.TB, s *Snapshot, kind Type, argument string) Reply {
	key := []byte("k\n")
	var r Responder
	got, outcome := r.Answer(nil, Query{kind, json.RawMessage(argument)}.Request(key, now, "salt"), now, NewKeys(key), s)
	require.NotEmpty(t, got, "%v", outcome)
	reply, salt, err := ParseReply(key, got)
	require.NoError(t, err)
	require.Equal(t, "salt", salt)
	require.Equal(t, outcome == Served, reply.Status == StatusOK)
	return reply
}

// edited returns the snapshot of the fixture after a change of its JSON text.
func edited(t testing.TB, declared []string, oldnew ...string) *Snapshot {
	text := string(read(t, "config.data"))
	for i := 0; i < len(oldnew); i += 2 {
		require.Contains(t, text, oldnew[i])
		text = strings.ReplaceAll(text, oldnew[i], oldnew[i+1])
	}
	config, err := model.Decode([]byte(text))
	require.NoError(t, err)
	return NewSnapshot(config, func() []string { return declared })
}

func TestAKeyIsTheWholeFile(t *testing.T) {
	key := GenerateKey(func(n int) []byte { return bytes.Repeat([]byte{0xab}, n) })
	require.Equal(t, strings.Repeat("ab", 20)+"\n", string(key))
	require.Len(t, key, KeySize)
	require.NoError(t, CheckKey(key))
	require.Error(t, CheckKey(nil))
	require.Error(t, CheckKey(make([]byte, 5000)))
}

func TestAnAnswerIsSignedWithTheKeyOfItsRequest(t *testing.T) {
	snapshot, _ := fixture(t)
	var r Responder
	for _, keys := range []*Keys{NewKeys([]byte("new\n"), []byte("old\n"), nil, []byte("new\n")), NewKeys([]byte("old\n"), []byte("new\n"))} {
		require.Equal(t, 2, keys.Len())
		for _, key := range []string{"old\n", "new\n"} {
			got, outcome := r.Answer(nil, Query{Type: Ping}.Request([]byte(key), now, "s"), now, keys, snapshot)
			require.Equal(t, Served, outcome)
			_, _, err := ParseReply([]byte(key), got)
			require.NoError(t, err)
		}
	}
	got, outcome := r.Answer(nil, Query{Type: Ping}.Request([]byte("old\n"), now, "s"), now, NewKeys([]byte("new\n")), snapshot)
	require.Empty(t, got)
	require.Equal(t, DroppedSignature, outcome, "after the rotation")
	got, outcome = r.Answer(nil, Query{Type: Ping}.Request([]byte("old\n"), now, "s"), now, nil, snapshot)
	require.Empty(t, got)
	require.Equal(t, DroppedNoKey, outcome)
	require.True(t, outcome.IsForged())
}

func TestWithoutAConfigurationEveryQueryIsRefused(t *testing.T) {
	for kind := range Type(types) {
		reply := ask(t, nil, kind, "")
		require.Equal(t, StatusError, reply.Status)
		require.Contains(t, string(reply.Answer), "no configuration")
	}
	require.Zero(t, (*Snapshot)(nil).Serial())
}

func TestTheMasterIsTheMasterByEveryName(t *testing.T) {
	s, _ := fixture(t)
	for _, name := range []string{"node1.gnt.example", "node1", "node1.gnt", "534adc64-95a0-4ac8-9390-fdaa0794ddb8"} {
		require.Equal(t, "0", string(ask(t, s, NodeRoleByName, `"`+name+`"`).Answer), name)
	}
	for _, name := range []string{"NODE1", "node", "node1.", "", "nod"} {
		require.Equal(t, StatusError, ask(t, s, NodeRoleByName, `"`+name+`"`).Status, name)
	}
}

func TestRolesHaveAPrecedence(t *testing.T) {
	role := func(flags string) string {
		s := edited(t, nil, `"name": "node2.gnt.example", "primary_ip": "192.0.2.12", "secondary_ip": "198.18.0.12", "master_candidate": true, "offline": false, "drained": false`,
			`"name": "node2.gnt.example", "primary_ip": "192.0.2.12", "secondary_ip": "198.18.0.12", `+flags)
		return string(ask(t, s, NodeRoleByName, `"node2"`).Answer)
	}
	flags := `"master_candidate": %t, "offline": %t, "drained": %t`
	require.Equal(t, "3", role(fmt.Sprintf(flags, true, true, true)))
	require.Equal(t, "2", role(fmt.Sprintf(flags, true, true, false)))
	require.Equal(t, "1", role(fmt.Sprintf(flags, true, false, false)))
	require.Equal(t, "4", role(fmt.Sprintf(flags, false, false, false)))
}

func TestNonASCIITextIsReadableByEveryClient(t *testing.T) {
	s := edited(t, nil, `"site:lab"`, `"site:läb 😀"`)
	key := []byte("k\n")
	var r Responder
	packet, _ := r.Answer(nil, Query{ConfigPath, json.RawMessage(`"/cluster/tags"`)}.Request(key, now, "ö"), now, NewKeys(key), s)
	for _, c := range packet {
		require.Less(t, c, byte(0x80))
	}
	reply, salt, err := ParseReply(key, packet)
	require.NoError(t, err)
	require.Equal(t, "ö", salt)
	require.Contains(t, string(reply.Answer), "läb 😀")
}

func TestSecretsAreNeverTold(t *testing.T) {
	s := edited(t, []string{"password"}, `"osparams": {}, "osparams_private": {}`, `"osparams": {"password": "secret-os", "x": "1"}, "osparams_private": {"token": "secret-private"}`)
	all := []struct {
		kind     Type
		argument string
	}{{ConfigPath, `"/cluster"`}, {NodeInstances, `"node1"`}, {NodeInstances, `"node2"`}, {InstanceDisks, `"web1"`}, {InstanceDisks, `"web2"`}, {ConfigPath, `"/instances"`}, {ConfigPath, `"/disks"`},
		{ConfigPath, `"/disks/10000101-0000-4000-8000-000000000101"`}, {ConfigPath, `"/disks/10000101-0000-4000-8000-000000000101/logical_id"`},
		{ConfigPath, `"/disks/10000101-0000-4000-8000-000000000101/logical_id/5"`},
		{ConfigPath, `"/instances/10000301-0000-4000-8000-000000000301/osparams_private"`},
		{ConfigPath, `"/instances/10000301-0000-4000-8000-000000000301/osparams_private/token"`},
		{ConfigPath, `"/instances/10000301-0000-4000-8000-000000000301/osparams/password"`}}
	for _, q := range all {
		reply := ask(t, s, q.kind, q.argument)
		require.Equal(t, StatusOK, reply.Status, q.argument)
		require.NotContains(t, string(reply.Answer), "secret-", q.argument)
		require.True(t, q.argument == `"/cluster"` || strings.Contains(string(reply.Answer), redact.Marker), q.argument)
	}
	require.Equal(t, `"1"`, string(ask(t, s, ConfigPath, `"/instances/10000301-0000-4000-8000-000000000301/osparams/x"`).Answer))
}

func TestPaths(t *testing.T) {
	s := edited(t, nil, `"osparams": {}, "osparams_private": {}`, `"osparams": {"a/b": "slash", "a~b": "tilde", "": "empty"}, "osparams_private": {}`)
	const instance = "/instances/10000301-0000-4000-8000-000000000301/"
	for path, want := range map[string]string{
		"/serial_no": "77", "/version": "3000000", "/cluster/tags/0": `"env:test"`, "/cluster/tags/01": `"site:lab"`,
		instance + "osparams/a~1b": `"slash"`, instance + "osparams/a~0b": `"tilde"`,
		"/nodes/10000004-0000-4000-8000-000000000004/offline": "true",
	} {
		reply := ask(t, s, ConfigPath, `"`+path+`"`)
		require.Equal(t, StatusOK, reply.Status, path)
		require.Equal(t, int64(42), reply.Serial)
		require.Equal(t, want, string(reply.Answer), path)
	}
	for _, path := range []string{"", "/", "cluster", "//cluster", "/cluster/", "/cluster//tags", "/cluster/tags/2", "/cluster/tags/-1", "/cluster/tags/1x", "/cluster/tags/+1",
		"/cluster/tags/99999999999999999999", "/cluster/tags/0/0", "/serial_no/0", "/nosuch", "/nodes/nosuch", "/nodes/nosuch/name", "/cluster/a~2b", "/cluster/a~", "/cluster/tags/"} {
		reply := ask(t, s, ConfigPath, `"`+path+`"`)
		require.Equal(t, Reply{1, StatusError, json.RawMessage("2"), 0}, reply, path)
	}
}

func TestAddressesOnLinks(t *testing.T) {
	s, _ := fixture(t)
	for query, want := range map[string]string{
		`{"1":"198.51.100.21"}`:           "0", // on br1, and the default is br0
		`{"1":"198.51.100.11","0":"br0"}`: `"192.0.2.11"`,
		`{"2":[]}`:                        "[]",
		`{}`:                              "[]",
		`{"2":["198.51.100.11","198.51.100.11"],"3":[0,1]}`: `[[0,"192.0.2.11",42],[0,"192.0.2.11",42]]`,
	} {
		require.Equal(t, want, string(ask(t, s, NodePrimaryIPByInstanceIP, query).Answer), query)
	}
	require.Equal(t, `"2"`, `"`+string(ask(t, s, NodePrimaryIPByInstanceIP, `"198.51.100.11"`).Answer)+`"`)
	require.Equal(t, `["198.51.100.11","198.51.100.12","198.51.100.13","2001:db8::12"]`, string(ask(t, s, InstanceIPs, "").Answer))
	require.Equal(t, `[]`, string(ask(t, s, InstanceIPs, `"br9"`).Answer))
}

func TestAnAddressMovesWithItsInstance(t *testing.T) {
	s, _ := fixture(t)
	e := s.config.Edit()
	i, _ := s.config.Instances.Get("10000301-0000-4000-8000-000000000301")
	moved := i.Value
	moved.PrimaryNode = model.Some("10000002-0000-4000-8000-000000000002")
	moved.NICs = append([]model.NIC(nil), moved.NICs...)
	moved.NICs[1].IP = model.Some("203.0.113.77")
	model.Instances.Put(e, moved.UUID, moved)
	after, _ := e.Commit(1)
	now := NewSnapshot(after, nil)
	require.Equal(t, `"192.0.2.12"`, string(ask(t, now, NodePrimaryIPByInstanceIP, `{"1":"198.51.100.11"}`).Answer))
	require.Equal(t, `"192.0.2.12"`, string(ask(t, now, NodePrimaryIPByInstanceIP, `{"1":"203.0.113.77","0":"br1"}`).Answer))
	require.Equal(t, StatusError, ask(t, now, NodePrimaryIPByInstanceIP, `{"1":"198.51.100.21","0":"br1"}`).Status)
	require.Equal(t, "78", string(ask(t, now, ConfigPath, `"/serial_no"`).Answer))
}

// large returns the fixture with this many more nodes and instances.
func large(t testing.TB, nodes, instances int) *Snapshot {
	s, _ := fixture(t)
	e := s.config.Edit()
	sample, _ := s.config.Nodes.Get("10000002-0000-4000-8000-000000000002")
	guest, _ := s.config.Instances.Get("10000301-0000-4000-8000-000000000301")
	for i := range nodes {
		n := sample.Value
		n.UUID, n.Name, n.PrimaryIP = fmt.Sprintf("20000000-0000-4000-8000-%012d", i), fmt.Sprintf("big%d.gnt.example", i), fmt.Sprintf("10.0.%d.%d", i/250, i%250+1)
		model.Nodes.Put(e, n.UUID, n)
	}
	for i := range instances {
		v := guest.Value
		v.UUID, v.Name = fmt.Sprintf("30000000-0000-4000-8000-%012d", i), model.Some(fmt.Sprintf("guest%d.example", i))
		v.PrimaryNode, v.Disks = model.Some(fmt.Sprintf("20000000-0000-4000-8000-%012d", i%max(nodes, 1))), nil
		v.NICs = []model.NIC{{MAC: "aa:00:01:00:00:00", IP: model.Some(fmt.Sprintf("10.1.%d.%d", i/250, i%250+1)), UUID: fmt.Sprintf("40000000-0000-4000-8000-%012d", i)}}
		model.Instances.Put(e, v.UUID, v)
	}
	config, _ := e.Commit(1)
	return NewSnapshot(config, nil)
}

func TestAnAnswerThatIsTooLargeIsSaidToBe(t *testing.T) {
	s := large(t, 200, 0)
	reply := ask(t, s, ConfigPath, `"/nodes"`)
	require.Equal(t, StatusError, reply.Status)
	var text string
	require.NoError(t, json.Unmarshal(reply.Answer, &text))
	var size, limit int
	_, err := fmt.Sscanf(text, "answer too large (%d bytes, limit %d)", &size, &limit)
	require.NoError(t, err, text)
	require.Equal(t, DatagramMax, limit)
	require.Greater(t, size, DatagramMax)
	require.Equal(t, StatusOK, ask(t, s, NodePrimaryIPs, "").Status)
	require.Equal(t, StatusOK, ask(t, large(t, 100, 0), ConfigPath, `"/nodes"`).Status)
}

func TestTheSizeOfALargeAnswerIsThatOfItsDatagram(t *testing.T) {
	for _, text := range []string{"", "abc", `a"b\c`, "ä", "€", "😀", `{"a":"ä\n😀"}`} {
		key := []byte("k")
		with, without := appendReply(nil, newSigner(key), []byte(text), ""), appendReply(nil, newSigner(key), nil, "")
		require.Equal(t, len(with)-len(without), quotedLen([]byte(text)), text)
	}
}

func TestForgedPacketsAllocateNothing(t *testing.T) {
	snapshot, keys := fixture(t)
	forged := Query{Type: ClusterMaster}.Request([]byte("another key\n"), now, "salt")
	garbage := []byte("plj0" + strings.Repeat("{", 500))
	var r Responder
	dst := make([]byte, 0, DatagramMax)
	r.Answer(dst, forged, now, keys, snapshot) // makes the buffers
	require.Zero(t, testing.AllocsPerRun(100, func() {
		for _, packet := range [][]byte{forged, garbage, nil} {
			if got, _ := r.Answer(dst, packet, now, keys, snapshot); len(got) > 0 {
				t.Error("answered")
			}
		}
	}))
}

func FuzzAnswer(f *testing.F) {
	snapshot, keys := fixture(f)
	for _, packet := range hostilePackets(keys.valid[0]) {
		f.Add([]byte(packet), true)
		f.Add([]byte(packet), false)
	}
	for _, msg := range []string{`{"protocol":1,"type":2,"query":{"2":["198.51.100.12"],"0":"br0"},"rsalt":""}`, `{"protocol":1,"type":10,"query":"/cluster/tags/0","rsalt":"ä"}`} {
		f.Add([]byte(msg), true)
	}
	stamp := strconv.FormatInt(now.Unix(), 10)
	f.Fuzz(func(t *testing.T, data []byte, signed bool) {
		packet := data
		if signed { // the data are a message of a holder of the key
			packet = sealed(keys.valid[0], string(data), stamp)
		}
		var r Responder
		got, outcome := r.Answer(nil, packet, now, keys, snapshot)
		if len(got) == 0 {
			require.NotContains(t, []Outcome{Served, Refused}, outcome)
			return
		}
		require.LessOrEqual(t, len(got), DatagramMax)
		if !signed { // only a packet that was signed with the key is answered
			e, valid := new(envelopeReader).open(packet)
			require.True(t, valid)
			require.True(t, newSigner(keys.valid[0]).matches(e.salt, e.msg, e.signature))
		}
		_, _, err := ParseReply(keys.valid[0], got)
		require.NoError(t, err)
	})
}

func FuzzEnvelope(f *testing.F) {
	for _, packet := range hostilePackets([]byte("k")) {
		f.Add([]byte(packet))
	}
	f.Fuzz(func(t *testing.T, packet []byte) {
		e, valid := new(envelopeReader).open(packet)
		if !valid {
			return
		}
		var by map[string]any // encoding/json reads the same
		require.NoError(t, json.Unmarshal(packet[len(magic):], &by))
		require.Len(t, by, 3)
		require.Equal(t, by["msg"], string(e.msg))
		require.Equal(t, by["salt"], string(e.salt))
	})
}

func BenchmarkAnswer(b *testing.B) {
	s := large(b, 40, 1000)
	key := []byte("0123456789012345678901234567890123456789\n")
	keys := NewKeys(key)
	for name, q := range map[string]Query{
		"ping": {Ping, nil}, "role": {NodeRoleByName, json.RawMessage(`"big7.gnt.example"`)},
		"address": {NodePrimaryIPByInstanceIP, json.RawMessage(`{"1":"10.1.2.17"}`)}, "master": {ClusterMaster, json.RawMessage(`{"3":[0,1,2]}`)},
		"forged": {Ping, nil},
	} {
		b.Run(name, func(b *testing.B) {
			by := key
			if name == "forged" {
				by = []byte("other\n")
			}
			packet := q.Request(by, now, "550e8400-e29b-41d4-a716-446655440000")
			var r Responder
			dst := make([]byte, 0, DatagramMax)
			b.ReportAllocs()
			begin := time.Now()
			for b.Loop() {
				r.Answer(dst, packet, now, keys, s)
			}
			b.ReportMetric(float64(b.N)/time.Since(begin).Seconds(), "answers/s")
		})
	}
}

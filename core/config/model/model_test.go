package model

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// recorded returns a member of a record.
func recorded(t testing.TB, name, member string) json.RawMessage {
	t.Helper()
	file, err := os.Open("../testdata/wconfd-objects.jsonl.gz")
	require.NoError(t, err)
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	require.NoError(t, err)
	data, err := io.ReadAll(unzipped)
	require.NoError(t, err)
	for line := range bytes.Lines(data) {
		var r map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(line, &r))
		if string(r["name"]) == `"`+name+`"` {
			return r[member]
		}
	}
	t.Fatal("no record " + name)
	return nil
}

// The encoding equals Ganeti's byte for byte.
func TestEncodingIsGanetis(t *testing.T) {
	var written string
	require.NoError(t, json.Unmarshal(recorded(t, "config.data-rewritten", "content"), &written))
	c, err := Decode([]byte(written))
	require.NoError(t, err)
	require.Equal(t, written, string(c.JSON()))

	spaced, err := os.ReadFile("../testdata/config.data.json")
	require.NoError(t, err)
	c, err = Decode(spaced)
	require.NoError(t, err)
	require.Equal(t, written, string(c.JSON()), "the same configuration with line breaks")
}

// shuffled returns a value with shuffled members, white space and nulls for absent fields.
func shuffled(t *rapid.T, raw []byte) []byte {
	gap := rapid.SampledFrom([]string{"", " ", "\n\t"}).Draw(t, "gap")
	switch raw[0] {
	case '{':
		var members map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(raw, &members))
		names := rapid.Permutation(slices.Sorted(maps.Keys(members))).Draw(t, "names")
		out := []byte{'{'}
		for i, name := range names {
			if i > 0 {
				out = append(out, ',')
			}
			quoted, _ := json.Marshal(name)
			value := []byte(members[name])
			if !slices.Contains([]string{"predicates", "reason_trail", "params"}, name) {
				value = shuffled(t, value)
			}
			out = append(append(append(append(out, gap...), quoted...), (": "+gap)...), value...)
		}
		if slices.Contains(names, "serial_no") && slices.Contains(names, "size") && !slices.Contains(names, "spindles") {
			out = append(out, `,"spindles":null`...)
		}
		return append(append(out, gap...), '}')
	case '[':
		var elements []json.RawMessage
		require.NoError(t, json.Unmarshal(raw, &elements))
		out := []byte{'['}
		for i, e := range elements {
			if i > 0 {
				out = append(out, ","+gap...)
			}
			out = append(out, shuffled(t, e)...)
		}
		return append(out, ']')
	}
	return raw
}

// The encoding does not depend on the order of members and white space of the input.
func TestCanonicalForm(t *testing.T) {
	c, err := Decode(recorded(t, "_base", "config"))
	require.NoError(t, err)
	want := c.JSON()
	rapid.Check(t, func(t *rapid.T) {
		raw := shuffled(t, want)
		again, err := Decode(raw)
		require.NoError(t, err)
		require.Equal(t, string(want), string(again.JSON()))
		require.Equal(t, maps.Collect(c.index.All()), maps.Collect(again.index.All()))
	})
}

// Encoding and decoding scalars is the identity.
func TestScalarRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "text")
		back, err := DecodeText(AppendText(nil, s))
		require.NoError(t, err)
		require.Equal(t, s, back)
		v := rapid.Float64().Draw(t, "number")
		number := AppendDouble(nil, v)
		x, err := decodeDouble(number)
		require.NoError(t, err)
		require.Equal(t, v, x)
		normal, err := appendNumber(nil, number)
		if len(number) < digitsMax {
			require.NoError(t, err)
			require.Equal(t, string(number), string(normal))
		}
		raw, err := json.Marshal(map[string]any{"a": []any{s, v, nil, true}})
		require.NoError(t, err)
		once, err := decodeJSON(raw)
		require.NoError(t, err)
		twice, err := decodeJSON(once)
		require.NoError(t, err)
		require.Equal(t, string(once), string(twice))
	})
}

func TestNumbers(t *testing.T) {
	for in, want := range map[string]string{
		"1.0": "1", "32.0": "32", "-0": "0", "-0.0": "0", "0.05": "5.0e-2", "1e-7": "1.0e-7", "123456789.25": "1.2345678925e8",
		"1795327798.376608": "1.795327798376608e9", "9999999.5": "9999999.5", "0.1": "0.1", "-2.50": "-2.5", "1e3": "1000",
		"123456789012345678901234567890": "123456789012345678901234567890", "10000000.5": "1.00000005e7", "100e-2": "1", "1.5E+1": "15",
	} {
		got, err := decodeJSON([]byte(in))
		require.NoError(t, err, in)
		require.Equal(t, want, string(got), in)
	}
	for _, in := range []string{"1e1001", "1e999999999999", "0.5e-999999999999"} {
		_, err := decodeJSON([]byte(in))
		require.Error(t, err, in)
	}
	for in, want := range map[string]int64{"7": 7, "-3": -3, "2.0": 2, "1e3": 1000, "9223372036854775807": 1<<63 - 1} {
		got, err := DecodeInt([]byte(in))
		require.NoError(t, err, in)
		require.Equal(t, want, got)
	}
	for _, in := range []string{"1.5", "9223372036854775808", "1e30", `"1"`, "null", "true", "[]"} {
		_, err := DecodeInt([]byte(in))
		require.ErrorIs(t, err, errInt, in)
	}
}

func TestTexts(t *testing.T) {
	require.Equal(t, "\"a\\\"\\\\\\n\\u001f/\u007fä\"", string(AppendText(nil, "a\"\\\n\x1f/\u007fä")))
	for _, in := range []string{`"\ud800"`, `"\ud800x"`, `"\udc00\ud800"`, "7", "null"} {
		_, err := DecodeText([]byte(in))
		require.ErrorIs(t, err, errString, in)
	}
	for in, want := range map[string]string{`"\ud83d\ude00"`: "😀", `"\ufffd"`: "\ufffd", `"\uFFFD\n"`: "\ufffd\n", `"\/"`: "/"} {
		got, err := DecodeText([]byte(in))
		require.NoError(t, err, in)
		require.Equal(t, want, got)
	}
}

// Invalid objects give Ganeti's error texts (config.md 1.1).
func TestInvalidObjects(t *testing.T) {
	nic := func(raw string) error { _, err := nicTable.decode([]byte(raw), false); return err }
	disk := func(raw string) error { _, err := Disks.Decode([]byte(raw)); return err }
	network := func(raw string) error { _, err := Networks.Decode([]byte(raw)); return err }
	group := func(policy string) error {
		_, err := Groups.Decode([]byte(`{"name":"g","ndparams":{},"alloc_policy":"preferred","ipolicy":` + policy + `,"diskparams":{},"networks":{},"uuid":"u","serial_no":1}`))
		return err
	}
	be := func(raw string) error { _, err := beParams.decode([]byte(raw), true); return err }
	for want, err := range map[string]error{
		"Unable to read JSObject":                                 nic(`[]`),
		`key 'mac' not found, object contains only ["ip","uuid"]`: nic(`{"ip":null,"uuid":"u"}`),
		`Superfluous dictionary keys: ["b","x"], but only ["ip","mac","name","network","nicparams","uuid"] allowed.`: nic(`{"x":1,"b":2}`),
		"Can't parse value for 'mac': Unable to read String":                                                         nic(`{"mac":null,"nicparams":{},"uuid":"u"}`),
		"Need an object to branch on key forthcoming":                                                                disk(`3`),
		"key 'logical_id' not found, object contains only []":                                                        disk(`{}`),
		`key 'dev_type' not found, object contains only ["logical_id"]`:                                              disk(`{"logical_id":["a","b"]}`),
		"Can't read logical_id for rdb type":                                                                         disk(`{"dev_type":"rbd","logical_id":["a"]}`),
		"Can't read logical_id for DRBD8 type":                                                                       disk(`{"dev_type":"drbd","logical_id":["a","b"]}`),
		`Invalid string value for type FileDriver: "x"`:                                                              disk(`{"dev_type":"file","logical_id":["x","b"]}`),
		"key 'uuid' not found, object contains only [\"forthcoming\"]":                                               disk(`{"forthcoming":true}`),
		"Can't parse value for 'network': Invalid netmask 33 from string 1.2.3.4/33":                                 network(`{"name":"n","network":"1.2.3.4/33"}`),
		"Can't parse value for 'network': Can't parse IPv4 network from string 1.2.3.256/30":                         network(`{"name":"n","network":"1.2.3.256/30"}`),
		"Can't parse value for 'network': Can't parse IPv4 network from string 1.2.3.4/030":                          network(`{"name":"n","network":"1.2.3.4/030"}`),
		"Can't parse value for 'reservations': Neither '0' nor '1': 'x'":                                             network(`{"name":"n","network":"1.2.3.4/30","reservations":"0x1"}`),
		"Can't parse value for 'ipolicy': Can't parse value for 'minmax': key 'max' not found, object contains only [\"min\"]": group(
			`{"minmax":[{"min":{"memory-size":1,"disk-size":1,"disk-count":1,"cpu-count":1,"nic-count":1,"spindle-use":1}}]}`),
		"Can't parse value for 'minmem': Unknown unit 'q'":  be(`{"minmem":"1q"}`),
		"Can't parse value for 'vcpus': Unable to read Int": be(`{"vcpus":1.5}`),
	} {
		require.EqualError(t, err, want)
	}
	require.NoError(t, group(`{"std":{"disk-size":5},"spindle-ratio":1}`))
}

// Forthcoming objects require few fields, and their mark is encoded first.
func TestForthcoming(t *testing.T) {
	i, err := Instances.Decode([]byte(`{"uuid":"u","forthcoming":true,"serial_no":1}`))
	require.NoError(t, err)
	require.Equal(t, `{"forthcoming":true,"hvparams":{},"beparams":{},"osparams":{},"osparams_private":{},"nics":[],"disks":[],"ctime":0,"mtime":0,"uuid":"u","serial_no":1,"tags":[]}`, string(i.JSON()))
	for _, separator := range []string{"false", "null", `"true"`} {
		_, err = Instances.Decode([]byte(`{"uuid":"u","forthcoming":` + separator + `,"serial_no":1}`))
		require.ErrorContains(t, err, "key 'name' not found")
	}
}

func TestUnits(t *testing.T) {
	for in, want := range map[string]string{`"1g"`: "1024", `"512"`: "512", `"2 T"`: "2097152", `7`: "7"} {
		p, err := beParams.decode([]byte(`{"maxmem":`+in+`}`), true)
		require.NoError(t, err)
		require.Equal(t, `{"maxmem":`+want+`}`, string(beParams.append(nil, &p)))
	}
}

// The first of duplicate keys counts in objects, the last in containers.
func TestDuplicateKeys(t *testing.T) {
	n, err := nicTable.decode([]byte(`{"mac":"a","mac":"b","nicparams":{},"uuid":"u"}`), false)
	require.NoError(t, err)
	require.Equal(t, "a", n.MAC)
	p, err := params.decode([]byte(`{"b":1,"a":2,"b":{"z":1,"a":2}}`))
	require.NoError(t, err)
	require.Equal(t, `{"a":2,"b":{"z":1,"a":2}}`, string(params.append(nil, p)))
}

func TestNoUTF8(t *testing.T) {
	_, err := Decode([]byte("{\"version\":\"\xe4\"}"))
	require.EqualError(t, err, "Invalid UTF-8")
}

// An edit shares unchanged objects and updates the index.
func TestEdit(t *testing.T) {
	c, err := Decode(recorded(t, "_base", "config"))
	require.NoError(t, err)
	before := string(c.JSON())
	const uuid = "c0000000-0000-4000-8000-000000000001"
	e := c.Edit()
	i, _ := c.Instances.Get(uuid)
	v := i.Value
	v.NICs = []NIC{{MAC: "new", UUID: "nic"}}
	Instances.Put(e, uuid, v)
	Disks.Delete(e, "d0000000-0000-4000-8000-000000000004")
	same, _ := c.Nodes.Get("a0000000-0000-4000-8000-000000000001")
	Nodes.Put(e, same.Value.UUID, same.Value)
	next, touched := e.Commit(7)
	require.Equal(t, []Touched{{"instances", uuid}, {"disks", "d0000000-0000-4000-8000-000000000004"}}, touched)
	require.Equal(t, before, string(c.JSON()))
	require.EqualValues(t, 101, next.Serial)
	again, err := Decode(next.JSON())
	require.NoError(t, err)
	require.Equal(t, maps.Collect(again.index.All()), maps.Collect(next.index.All()))
	require.True(t, c.isUsed(spaceMAC, "aa:00:00:11:11:11") && !next.isUsed(spaceMAC, "aa:00:00:11:11:11") && next.isUsed(spaceMAC, "new"))
	a, _ := c.Instances.Get("c0000000-0000-4000-8000-000000000002")
	b, _ := next.Instances.Get("c0000000-0000-4000-8000-000000000002")
	require.Same(t, a, b)

	whole := again.Edit()
	whole.ReplaceAll(again)
	unchanged, _ := whole.Commit(8)
	require.Same(t, again, unchanged)
	whole = c.Edit()
	whole.ReplaceAll(again)
	back, _ := whole.Commit(9)
	d, _ := back.Instances.Get("c0000000-0000-4000-8000-000000000002")
	require.Same(t, a, d)
	require.EqualValues(t, 102, back.Serial)
	require.True(t, strings.HasPrefix(string(back.JSON()), string(next.JSON())[:1000]))
}

func TestBadDeltas(t *testing.T) {
	c, err := Decode(recorded(t, "_base", "config"))
	require.NoError(t, err)
	for _, delta := range []string{"", "{}", "[]", "[1,2,3,4]", "[1,2,3,4.5,[]]", `[1,2,3,4,[["x","u",null]]]`, `[1,2,3,4,[["nodes","u",{}]]]`, `[1,2,3,4,[["nodes"]]]`, `[1,2,3,4,[]`} {
		_, _, err := c.ApplyDelta([]byte(delta))
		require.Error(t, err, delta)
	}
	same, touched, err := c.ApplyDelta([]byte("[3000000,1,2,7,[]]"))
	require.NoError(t, err)
	require.Empty(t, touched)
	require.EqualValues(t, 7, same.Serial)
}

// The index after random edits equals the index of the decoded result.
func TestIndexFollows(t *testing.T) {
	start, err := Decode(recorded(t, "_base", "config"))
	require.NoError(t, err)
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"a", "b", "", "c\x00", "ü"})
		names := rapid.SliceOfN(name, 0, 3)
		c := start
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			e, key := c.Edit(), name.Draw(t, "key")
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0:
				i := Instance{Forthcoming: true, Disks: names.Draw(t, "disks"), Stamp: Stamp{UUID: name.Draw(t, "uuid")}}
				for _, mac := range names.Draw(t, "macs") {
					i.NICs = append(i.NICs, NIC{MAC: mac, UUID: name.Draw(t, "nic")})
				}
				Instances.Put(e, key, i)
			case 1:
				drbd := LogicalID{Type: "drbd", A: name.Draw(t, "a"), B: "b", MinorA: rapid.Int64().Draw(t, "minor"), Secret: "s"}
				plain := Disk{Forthcoming: true, LogicalID: Some(LogicalID{Type: "plain", A: name.Draw(t, "vg"), B: "x"}), Mode: "rw"}
				Disks.Put(e, key, Disk{Forthcoming: true, LogicalID: Some(drbd), Children: []Disk{plain}, Mode: "rw"})
			case 2:
				Instances.Delete(e, key)
			case 3:
				Disks.Delete(e, key)
			case 4:
				Networks.Put(e, key, Network{Name: "n", Network: "10.0.0.0/24", Stamp: Stamp{UUID: name.Draw(t, "uuid")}})
			}
			c, _ = e.Commit(1)
		}
		again, err := Decode(c.JSON())
		require.NoError(t, err)
		require.Equal(t, maps.Collect(again.index.All()), maps.Collect(c.index.All()))
	})
}

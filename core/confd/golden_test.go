package confd

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/config/model"
	"lockstep/core/config/redact"
)

// now is the time of the requests in the tests: that of TestTheExampleOfAnExchange.
var now = time.Unix(1795327000, 0)

func read(t testing.TB, name string) []byte {
	content, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	return content
}

func fixture(t testing.TB) (*Snapshot, *Keys) {
	config, err := model.Decode(read(t, "config.data"))
	require.NoError(t, err)
	return NewSnapshot(config, nil), NewKeys(read(t, "hmac.key"))
}

// recorded is a query to Ganeti's daemon with its answer; Reply is null for silence.
type recorded struct {
	ID      string
	Request json.RawMessage
	Packet  string
	Reply   json.RawMessage
	Compare string
}

// Deviations from Ganeti's daemon, with their reasons.
var (
	// It finds the master by its full name only, and calls it a candidate otherwise.
	masterIsMaster = []string{"role-uuid-master"}
	// It reads 1x as the index 1.
	noIndex = []string{"cfg-tag1x"}
	// It tells secrets.
	redacted = []string{"disks-uuid", "disks-prefix"}
	// The texts of its errors are dumps of internal values; the answer here is another text.
	otherText = []string{"role-ambiguous", "role-unknown", "role-null", "drbd-null", "inst-null", "disks-null", "cfg-dict", "instips-dict"}
)

func TestRecordedQueriesOfGaneti(t *testing.T) {
	snapshot, keys := fixture(t)
	var all []recorded
	require.NoError(t, json.Unmarshal(read(t, "queries.json"), &all))
	var responder Responder
	for _, q := range all {
		t.Run(q.ID, func(t *testing.T) {
			packet := sealed(keys.valid[0], string(q.Request), strconv.FormatInt(now.Unix(), 10))
			got, outcome := responder.Answer(nil, packet, now, keys, snapshot)
			if string(q.Reply) == "null" || q.Reply == nil {
				require.Empty(t, got, "silence")
				require.NotContains(t, []Outcome{Served, Refused}, outcome)
				return
			}
			require.NotEmpty(t, got, "%v", outcome)
			reply, salt, err := ParseReply(keys.valid[0], got)
			require.NoError(t, err)
			var request struct{ RSalt string }
			require.NoError(t, json.Unmarshal(q.Request, &request))
			require.Equal(t, request.RSalt, salt)
			compare(t, q, reply, got)
		})
	}
}

// compare compares an answer with the recorded one.
func compare(t *testing.T, q recorded, got Reply, packet []byte) {
	var want Reply
	require.NoError(t, json.Unmarshal(q.Reply, &want))
	switch {
	case slices.Contains(masterIsMaster, q.ID):
		require.Equal(t, Reply{1, StatusOK, json.RawMessage("0"), 42}, got)
	case slices.Contains(noIndex, q.ID):
		require.Equal(t, Reply{1, StatusError, json.RawMessage("2"), 0}, got)
	case slices.Contains(redacted, q.ID):
		var text string
		require.NoError(t, json.Unmarshal(q.Reply, new(any)))
		text = string(want.Answer)
		for _, secret := range []string{"secret-a", "secret-b", "secret-c"} {
			require.NotContains(t, string(packet), secret)
			text = strings.ReplaceAll(text, secret, redact.Marker)
		}
		require.NotEqual(t, string(want.Answer), text)
		require.JSONEq(t, text, string(got.Answer))
	case slices.Contains(otherText, q.ID):
		var text string
		require.NoError(t, json.Unmarshal(got.Answer, &text))
		require.Greater(t, len(text), 10)
		require.Equal(t, []int64{StatusError, 0}, []int64{int64(got.Status), got.Serial})
	case q.Compare == "set":
		var mine, theirs []string
		require.NoError(t, json.Unmarshal(got.Answer, &mine))
		require.NoError(t, json.Unmarshal(want.Answer, &theirs))
		require.ElementsMatch(t, theirs, mine)
		require.Equal(t, want.Serial, got.Serial)
	case q.Packet != "" && !strings.HasPrefix(q.Packet, "NOT-UTF8"):
		recorded, _ := strings.CutSuffix(q.Packet, "…") // a long packet is recorded by its beginning, which has the signature of all
		require.Equal(t, recorded, string(packet[:min(len(recorded), len(packet))]), "byte for byte")
		require.True(t, len(recorded) == len(packet) || recorded != q.Packet)
	default:
		require.JSONEq(t, string(want.Answer), string(got.Answer))
		require.Equal(t, []int64{int64(want.Status), want.Serial}, []int64{int64(got.Status), got.Serial})
	}
}

func TestTheExampleOfAnExchange(t *testing.T) {
	snapshot, keys := fixture(t)
	const request = `plj0{"msg": "{\"protocol\": 1, \"type\": 3, \"query\": {\"3\": [0, 1, 2]}, \"rsalt\": \"r1\"}", "salt": "1795327000", "hmac": "e579decb36931279667371787004c99886123584"}`
	const reply = `plj0{"hmac":"19a3abc75a0a9aecf16e2c33b6c6a058be51cd08","msg":"{\"protocol\":1,\"status\":0,\"answer\":[\"node1.gnt.example\",\"192.0.2.10\",\"192.0.2.11\"],\"serial\":42}","salt":"r1"}`
	var responder Responder
	for range 2 { // a repeated packet is answered again
		got, outcome := responder.Answer(nil, []byte(request), now, keys, snapshot)
		require.Equal(t, Served, outcome)
		require.Equal(t, reply, string(got))
	}
}

// The packets of hostile.json by their descriptions. Two accidents of Ganeti's parser are refused here, and a key that is repeated
// within the request; the server reads more than 4,096 bytes.
func TestHostilePackets(t *testing.T) {
	snapshot, keys := fixture(t)
	packets := hostilePackets(keys.valid[0])
	deviations := map[string]bool{"salt with leading space": false, "salt parens": false, "duplicate key in msg": false, "long query, 4097 in all": true}
	var cases []struct {
		Case     string
		Bytes    int
		Answered bool
	}
	require.NoError(t, json.Unmarshal(read(t, "hostile.json"), &cases))
	var responder Responder
	for _, c := range cases {
		t.Run(c.Case, func(t *testing.T) {
			packet, known := packets[c.Case]
			require.True(t, known)
			want := c.Answered
			if deviation, is := deviations[c.Case]; is {
				require.NotEqual(t, want, deviation)
				want = deviation
			}
			got, outcome := responder.Answer(nil, []byte(packet), now, keys, snapshot)
			require.Equal(t, want, len(got) > 0, "%v: %s", outcome, got)
		})
	}
}

// hostilePackets returns the packets of hostile.json and others of confd.md 2, by description.
func hostilePackets(key []byte) map[string]string {
	const stamp = "1795327000"
	msg := `{"protocol": 1, "type": 0, "query": null, "rsalt": "x"}`
	wrap := func(msg, salt string) string { return string(sealed(key, msg, salt)) }
	good := wrap(msg, stamp)
	mac := func(salt, msg string) string {
		p := string(sealed(key, msg, salt))
		return p[len(`plj0{"hmac":"`) : len(`plj0{"hmac":"`)+40]
	}
	with := func(mac string) string { return strings.Replace(good, good[13:53], mac, 1) }
	long := `{"protocol": 1, "type": 1, "query": "` + strings.Repeat("n", 3800) + `", "rsalt": "x"}`
	return map[string]string{
		"ok": good, "one byte": "p", "magic plj1": "plj1" + good[4:], "no magic": good[4:], "space before magic": " " + good,
		"key without its newline": string(sealed(key[:len(key)-1], msg, stamp)),
		"hmac truncated":          with(good[13:33]), "hmac null": strings.Replace(good, `"`+good[13:53]+`"`, "null", 1),
		"hmac of msg+salt (wrong order)": with(mac(msg, stamp)),
		"salt changed after signing":     strings.Replace(good, stamp, "1795327001", 1),
		"salt -310":                      wrap(msg, "1795326690"), "salt +310": wrap(msg, "1795327310"), "salt abc": wrap(msg, "abc"),
		"salt with leading space": wrap(msg, " "+stamp), "salt trailing junk": wrap(msg, stamp+"x"), "salt decimal": wrap(msg, stamp+".5"),
		"salt parens": wrap(msg, "("+stamp+")"), "salt negative": wrap(msg, "-5"),
		"no salt": strings.Replace(good, `,"salt":"`+stamp+`"`, "", 1), "no msg": `plj0{"hmac":"` + mac(stamp, "") + `","salt":"` + stamp + `"}`,
		"extra envelope key": good[:len(good)-1] + `,"z":"1"}`, "truncated after 30": good[:30],
		"trailing newline": good + "\n", "trailing NUL": good + "\x00", "two documents": good + good[4:],
		"envelope string": `plj0"x"`, "deep nesting": "plj0" + strings.Repeat("[", 1000) + strings.Repeat("]", 1000),
		"msg not json": wrap("not json", stamp), "msg empty": wrap("", stamp), "msg trailing garbage": wrap(msg+"x", stamp),
		"duplicate key in msg": wrap(strings.Replace(msg, `"type": 0`, `"type": 0, "type": 3`, 1), stamp),
		"padded to 4096":       good + strings.Repeat(" ", 4096-len(good)), "padded to 9000": good + strings.Repeat("\n", 9000-len(good)),
		"long query, 4097 in all": wrap(long, stamp), "65507 bytes": "plj0" + strings.Repeat("x", 65503),
		"non-ASCII query escaped": wrap(strings.Replace(msg, "null", `"\u00e4"`, 1), stamp),
		"raw utf8 envelope":       rawUTF8(wrap(strings.Replace(msg, "null", `"ä"`, 1), stamp)), "type 1e0": wrap(strings.Replace(msg, "0", "1e0", 1), stamp),
	}
}

// rawUTF8 replaces the escape of a character in a packet by the character.
func rawUTF8(packet string) string { return strings.Replace(packet, `\u00e4`, "ä", 1) }

func TestTheRestOfTheRulesAboutSilence(t *testing.T) {
	snapshot, keys := fixture(t)
	key := keys.valid[0]
	msg := func(members string) string { return `{"protocol":1,"rsalt":"x"` + members + `}` }
	stamp := func(delta int64) string { return strconv.FormatInt(now.Unix()+delta, 10) }
	good := string(sealed(key, msg(`,"type":0`), stamp(0)))
	for name, c := range map[string]struct {
		packet string
		want   Outcome
	}{
		"empty":                         {"", DroppedPacket},
		"magic alone":                   {"plj0", DroppedPacket},
		"magic doubled":                 {"plj0" + good, DroppedPacket},
		"blank after the magic":         {"plj0 " + good[4:], DroppedPacket},
		"upper case hmac":               {good[:13] + strings.ToUpper(good[13:53]) + good[53:], Served},
		"300 s late":                    {string(sealed(key, msg(`,"type":0`), stamp(-300))), Served},
		"300 s early":                   {string(sealed(key, msg(`,"type":0`), stamp(300))), Served},
		"301 s late":                    {string(sealed(key, msg(`,"type":0`), stamp(-301))), DroppedClock},
		"301 s early":                   {string(sealed(key, msg(`,"type":0`), stamp(301))), DroppedClock},
		"salt empty":                    {string(sealed(key, msg(`,"type":0`), "")), DroppedPacket},
		"salt with a newline":           {string(sealed(key, msg(`,"type":0`), stamp(0)+"\n")), DroppedPacket},
		"salt hexadecimal":              {string(sealed(key, msg(`,"type":0`), "0x6b0291d8")), DroppedPacket},
		"salt with many digits":         {string(sealed(key, msg(`,"type":0`), strings.Repeat("9", 30))), DroppedPacket},
		"another key":                   {string(sealed([]byte("other\n"), msg(`,"type":0`), stamp(0))), DroppedSignature},
		"invalid UTF-8":                 {strings.Replace(good, "rsalt", "rs\xffalt", 1), DroppedPacket},
		"half a surrogate pair":         {strings.Replace(good, "rsalt", `\ud800`, 1), DroppedPacket},
		"repeated key in the envelope":  {good[:len(good)-1] + `,"salt":"` + stamp(0) + `"}`, DroppedPacket},
		"missing type":                  {string(sealed(key, msg(``), stamp(0))), DroppedRequest},
		"type 12":                       {string(sealed(key, msg(`,"type":12`), stamp(0))), DroppedRequest},
		"type beyond 64 bits":           {string(sealed(key, msg(`,"type":18446744073709551616`), stamp(0))), DroppedRequest},
		"type with a fraction":          {string(sealed(key, msg(`,"type":0.5`), stamp(0))), DroppedRequest},
		"type 0.0":                      {string(sealed(key, msg(`,"type":0.0`), stamp(0))), Served},
		"query a number":                {string(sealed(key, msg(`,"type":0,"query":1`), stamp(0))), DroppedRequest},
		"option of the wrong type":      {string(sealed(key, msg(`,"type":2,"query":{"1":5}`), stamp(0))), DroppedRequest},
		"list with a number":            {string(sealed(key, msg(`,"type":2,"query":{"2":["a",5]}`), stamp(0))), DroppedRequest},
		"field with a fraction":         {string(sealed(key, msg(`,"type":3,"query":{"3":[0.5]}`), stamp(0))), DroppedRequest},
		"option null":                   {string(sealed(key, msg(`,"type":2,"query":{"0":null,"1":"198.51.100.11"}`), stamp(0))), Served},
		"empty object":                  {string(sealed(key, msg(`,"type":2,"query":{}`), stamp(0))), Served},
		"nested 600 deep in a request":  {string(sealed(key, msg(`,"type":0,"query":{"1":`+strings.Repeat("[", 600)+strings.Repeat("]", 600)+`}`), stamp(0))), DroppedRequest},
		"longer than any client's":      {good + strings.Repeat(" ", DatagramMax), DroppedPacket},
		"a name that is very long":      {string(sealed(key, msg(`,"type":1,"query":"`+strings.Repeat("ä", 5000)+`"`), stamp(0))), Refused},
		"a path of another type":        {string(sealed(key, msg(`,"type":10`), stamp(0))), Refused},
		"a salt that fills a datagram":  {string(sealed(key, strings.Replace(msg(`,"type":0`), `"x"`, `"`+strings.Repeat("x", 61000)+`"`, 1), stamp(0))), Served},
		"a salt beyond a reply's limit": {rawUTF8All(string(sealed(key, strings.Replace(msg(`,"type":0`), `"x"`, `"`+strings.Repeat("ä", 20000)+`"`, 1), stamp(0)))), DroppedRequest},
	} {
		t.Run(name, func(t *testing.T) {
			var responder Responder
			got, outcome := responder.Answer(nil, []byte(c.packet), now, keys, snapshot)
			require.Equal(t, c.want, outcome, "%s", got)
			require.Equal(t, outcome == Served || outcome == Refused, len(got) > 0)
		})
	}
}

func rawUTF8All(packet string) string { return strings.ReplaceAll(packet, `\u00e4`, "ä") }

package confd

import (
	"encoding/binary"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestARequestIsAnsweredAFewTimesAndToItsSender(t *testing.T) {
	r, d := NewReplays(), Digest{1}
	client, other := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	require.True(t, r.Admit(d, client, now))
	require.False(t, r.Admit(d, other, now), "another source")
	for range answersMax - 2 {
		require.True(t, r.Admit(d, client, now.Add(time.Second)))
	}
	for range 3 {
		require.False(t, r.Admit(d, client, now.Add(2*ClockSkewMax*time.Second)), "as long as its salt may be valid")
	}
	require.True(t, r.Admit(Digest{2}, other, now), "another request")
	require.True(t, r.Admit(d, other, now.Add(replayLife)), "the salt is not valid any longer; the clock was set back")
}

func TestRememberedRequestsAreBounded(t *testing.T) {
	r, from := NewReplays(), netip.MustParseAddr("192.0.2.1")
	digest := func(n uint64) (d Digest) { binary.BigEndian.PutUint64(d[:], n); return d }
	for n := range uint64(replaysMax + 10) {
		require.True(t, r.Admit(digest(n), from, now))
	}
	require.Equal(t, replaysMax, r.Len())
	require.True(t, r.Admit(digest(0), from, now), "the oldest were displaced")
	for range answersMax {
		r.Admit(digest(replaysMax), from, now)
	}
	require.False(t, r.Admit(digest(replaysMax), from, now))
}

// The envelope of a captured request can be spelt in other ways; what is signed stays the same.
func TestTheSpellingOfAnEnvelopeMakesNoNewRequest(t *testing.T) {
	snapshot, _ := fixture(t)
	keys := NewKeys([]byte("k\n"))
	packet := string(Query{Type: Ping}.Request([]byte("k\n"), now, "s"))
	replays, answers := NewReplays(), 0
	for range answersMax {
		for _, spelling := range []string{packet, packet + " ", strings.Replace(packet, `{"`, `{ "`, 1), strings.Replace(packet, `"salt"`, `"s\u0061lt"`, 1)} {
			responder := Responder{Admit: func(d Digest) bool { return replays.Admit(d, netip.Addr{}, now) }}
			got, outcome := responder.Answer(nil, []byte(spelling), now, keys, snapshot)
			if len(got) > 0 {
				answers++
				continue
			}
			require.Equal(t, DroppedReplay, outcome, spelling)
		}
	}
	require.Equal(t, answersMax, answers)
	require.Equal(t, 1, replays.Len())
}

package reserve

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lockstep/core/lock"
)

func owner(n int) lock.Owner {
	var o lock.Owner
	who := fmt.Sprint(n)
	if n == 0 {
		who = `"tool"`
	}
	if err := o.UnmarshalJSON(fmt.Appendf(nil, `[%s,"/run/livelock_%d",%d]`, who, n, 100+n)); err != nil {
		panic(err)
	}
	return o
}

func noMinors(string) iter.Seq2[int64, string] { return func(func(int64, string) bool) {} }

// randomState draws a state with reservations of all kinds.
func randomState(t *rapid.T) State {
	var s State
	for i := range rapid.IntRange(0, 30).Draw(t, "count") {
		o := owner(rapid.IntRange(0, 3).Draw(t, "owner"))
		value := fmt.Sprintf("v\"%d", rapid.IntRange(0, 9).Draw(t, "value"))
		ip := IP{rapid.Bool().Draw(t, "release"), value, rapid.Uint32().Draw(t, "address")}
		next := s
		var err error
		switch rapid.IntRange(0, 5).Draw(t, "what") {
		case 0, 1:
			next, err = s.Reserve(Kind(rapid.IntRange(0, 2).Draw(t, "kind")), value, o)
		case 2:
			next, err = s.ReserveIP(ip, o)
			if err == nil && rapid.Bool().Draw(t, "commit") {
				next = next.Committed(ip)
			}
		case 3:
			caller := Caller{PID: i, UID: 7, Program: "tool"}
			if rapid.Bool().Draw(t, "known") {
				caller = Caller{Known: true, Owner: o}
			}
			next, _ = s.AllocateMinors(value, []string{"n1", "n2"}, caller, noMinors)
		case 4:
			next = s.Freed(value, "10.0.0.1", Caller{Known: true, Owner: o})
		case 5:
			next = s.Drop(o)
		}
		if err == nil {
			s = next
		}
	}
	return s
}

// Decoding restores the encoded state, including owners.
func TestCodec(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := randomState(t)
		back, err := Decode(s.Encode())
		require.NoError(t, err)
		require.Equal(t, string(s.Encode()), string(back.Encode()))
		back, err = back.WithExtra(s.EncodeExtra())
		require.NoError(t, err)
		require.True(t, s.Equal(back))
		for _, kind := range []Kind{MAC, Secret, LV} {
			for value, o := range s.values[kind].All() {
				require.True(t, back.IsReservedBy(kind, value, o))
			}
		}
	})
}

// The encoding equals Ganeti's byte for byte.
func TestFileIsGanetis(t *testing.T) {
	file, err := os.Open("../testdata/wconfd-objects.jsonl.gz")
	require.NoError(t, err)
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	require.NoError(t, err)
	data, err := io.ReadAll(unzipped)
	require.NoError(t, err)
	var r struct{ Name, Content string }
	for line := range bytes.Lines(data) {
		if bytes.HasPrefix(line, []byte(`{"name": "tempres-on-disk"`)) {
			require.NoError(t, json.Unmarshal(line, &r))
		}
	}
	require.NotEmpty(t, r.Content)
	s, err := Decode([]byte(r.Content))
	require.NoError(t, err)
	require.Equal(t, r.Content, string(s.Encode()))
	require.Equal(t, `{"dRBD":[],"mACs":[],"dRBDSecrets":[],"lVs":[],"iPv4s":[]}`, string(State{}.Encode()))
}

func TestBadFiles(t *testing.T) {
	for raw, want := range map[string]string{
		``: "parsing temporary reservations: ",
		`{"dRBD":[],"mACs":[],"dRBDSecrets":[],"lVs":[]}`:                                                "key 'iPv4s' not found",
		`{"dRBD":[["n",[[-1,"d"]]]],"mACs":[],"dRBDSecrets":[],"lVs":[],"iPv4s":[]}`:                     "a minor is negative",
		`{"dRBD":[["n"]],"mACs":[],"dRBDSecrets":[],"lVs":[],"iPv4s":[]}`:                                "Unable to read Pair",
		`{"dRBD":[],"mACs":[["me",["m"]]],"dRBDSecrets":[],"lVs":[],"iPv4s":[]}`:                         "malformed client id",
		`{"dRBD":[],"mACs":[[[1,"l",1],["m"]],[[2,"l",1],["m"]]],"dRBDSecrets":[],"lVs":[],"iPv4s":[]}`:  "Duplicate reservation",
		`{"dRBD":[],"mACs":[],"dRBDSecrets":[],"lVs":[],"iPv4s":[[[1,"l",1],[["take","1.2.3.4","n"]]]]}`: "Unable to read Triple",
	} {
		_, err := Decode([]byte(raw))
		require.ErrorContains(t, err, want)
	}
}

// A value has one owner, and dropping an owner drops exactly its reservations.
func TestOwners(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := randomState(t)
		gone := owner(rapid.IntRange(0, 3).Draw(t, "gone"))
		dropped := s.Drop(gone)
		for kind, values := range s.values {
			for value, o := range values.All() {
				require.Equal(t, o != gone, dropped.Has(Kind(kind), value))
				_, err := s.Reserve(Kind(kind), value, owner(9))
				require.Error(t, err)
				same, err := s.Reserve(Kind(kind), value, o)
				require.NoError(t, err)
				require.Equal(t, s, same)
			}
		}
		for range dropped.IPs(gone) {
			t.Fatal("an address is left")
		}
		for i := range 4 {
			if o := owner(i); o != gone {
				require.Equal(t, ipsOf(s, o), ipsOf(dropped, o))
			}
		}
		require.Equal(t, s.minors, dropped.minors)

		dead := s.DropDead(func(c Caller) bool { return c.Known && c.Owner == gone }, func(disk string) bool { return disk == "v\"1" })
		require.NotContains(t, withoutDisk(dead), Caller{Known: true, Owner: gone})
		require.Equal(t, dropped.values, dead.values)
	})
}

func ipsOf(s State, o lock.Owner) []IP {
	var all []IP
	for ip := range s.IPs(o) {
		all = append(all, ip)
	}
	return all
}

// withoutDisk returns the callers without those of minors of the disk in the configuration.
func withoutDisk(s State) []Caller {
	return s.ReleaseMinors("v\"1").Callers()
}

func TestMinors(t *testing.T) {
	var s State
	used := func(node string) iter.Seq2[int64, string] {
		return func(yield func(int64, string) bool) { _ = node == "a" && yield(0, "other") && yield(2, "other") }
	}
	s, minors := s.AllocateMinors("d1", []string{"a", "b"}, Caller{PID: 3}, used)
	require.Equal(t, []int64{1, 0}, minors)
	s, minors = s.AllocateMinors("d1", []string{"a", "b"}, Caller{PID: 3}, used)
	require.Equal(t, []int64{3, 1}, minors, "asking again gives further ones")
	require.Equal(t, []string{"a", "b"}, s.MinorNodes())
	require.Equal(t, State{}.Encode(), s.ReleaseMinors("d1").Encode())
	alive := s.DropDead(func(Caller) bool { return true }, func(string) bool { return true })
	require.True(t, s.Equal(alive), "a disk of the configuration keeps its minors")
	require.Empty(t, s.DropDead(func(c Caller) bool { return c.PID == 3 }, func(string) bool { return false }).MinorNodes())
}

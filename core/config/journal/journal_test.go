package journal

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/config/model"
	"lockstep/core/config/reserve"
	"lockstep/core/lock"
)

// start returns the state of a cluster with a configuration and without reservations.
func start(t testing.TB) State {
	raw, err := os.ReadFile("../testdata/config.data.json")
	require.NoError(t, err)
	c, err := model.Decode(raw)
	require.NoError(t, err)
	return State{Config: c}
}

// renamed returns a state with another name of the cluster.
func renamed(s State, name string) (State, []model.Touched) {
	e := s.Config.Edit()
	c := s.Config.Cluster.Value
	c.Name = name
	e.SetCluster(c)
	var touched []model.Touched
	s.Config, touched = e.Commit(s.Config.MTime + 1)
	return s, touched
}

// chain returns the content of a journal with so many changes, each an append, and the last state.
func chain(t testing.TB, s State, count int) (content []byte, last State) {
	for i := range count {
		next, touched := renamed(s, fmt.Sprintf("cluster-%d", i))
		line, err := Encode(NewRecord(uint64(i+1), s, next, touched, 5, Author{Method: "updateCluster"}), true)
		require.NoError(t, err)
		content, s = append(content, line.Bytes...), next
	}
	return content, s
}

// The format of a line does not change: journals of earlier releases are replayed.
func TestGoldenLine(t *testing.T) {
	s := start(t)
	owner := lock.Owner{Job: 7, Livelock: "/livelocks/job-7", PID: 70}
	next := s
	var err error
	next.Reserved, err = s.Reserved.Reserve(reserve.LV, "vg/<lv>", owner)
	require.NoError(t, err)
	next.Concurrent = []reserve.IP{{Release: true, Network: "net", Address: 167772161}}
	r := NewRecord(3, s, next, nil, 1795327798.376608, Author{Caller: reserve.Caller{Known: true, Owner: owner}, Method: "reserveLV", Job: 7})
	line, err := Encode(r, true)
	require.NoError(t, err)
	golden, err := os.ReadFile("testdata/line.golden")
	require.NoError(t, err)
	require.Equal(t, string(golden), string(line.Bytes))

	read := Read(golden)
	require.NoError(t, read.Damage)
	require.Len(t, read.Records, 1)
	r.After = nil
	require.Equal(t, r, read.Records[0])
	require.Nil(t, NewRecord(4, next, next, nil, 1, Author{}))
}

// A record of a newer version stops the start, also at the end of the journal.
func TestNewerVersion(t *testing.T) {
	s := start(t)
	content, last := chain(t, s, 2)
	line := bytes.Clone(Read(content).Lines[1].Bytes)
	line = bytes.Replace(line[:len(line)-1], []byte(`{"v":1,"number":2`), []byte(`{"v":2,"number":3`), 1)
	copy(line, fmt.Sprintf("%x", checksum(line)))
	_, err := Recover(Files{Config: s.Config, Journal: append(append(content, line...), '\n')}, false)
	require.EqualError(t, err, fmt.Sprintf("config.journal is damaged after serial number %d: line 3: the record has version 2, this program knows version 1", last.Config.Serial))
	r, err := Recover(Files{Config: s.Config, Journal: append(append(content, line...), '\n')}, true)
	require.NoError(t, err)
	require.Equal(t, last.Config.JSON(), r.Config.JSON())
}

// A journal without its config.data is not used.
func TestJournalWithoutConfiguration(t *testing.T) {
	content, _ := chain(t, start(t), 2)
	r, err := Recover(Files{Journal: content}, false)
	require.NoError(t, err)
	require.True(t, r.Unused)
	require.Nil(t, r.Config)
	require.EqualValues(t, 2, r.Number)
}

// A file that cannot be used is named.
func TestUnusableFiles(t *testing.T) {
	s := start(t)
	for want, files := range map[string]Files{
		"config.extra: the record has version 2, this program knows version 1": {Config: s.Config, Extra: []byte(`{"v":2}`)},
		"config.extra: unexpected end of JSON input":                           {Config: s.Config, Extra: []byte{}},
		"tempres.data: parsing temporary reservations: key 'dRBD' not found":   {Config: s.Config, TempRes: []byte(`{}`)},
	} {
		_, err := Recover(files, false)
		require.EqualError(t, err, want)
	}
}

// The result of a record is that of the recorded hash, or the record is refused.
func TestRecordWithAnotherResult(t *testing.T) {
	s := start(t)
	base, err := Recover(Files{Config: s.Config}, false)
	require.NoError(t, err)
	next, touched := renamed(s, "x")
	other, _ := renamed(s, "y")
	for _, change := range []func(r *Record){
		func(r *Record) { r.After = other.Config },
		func(r *Record) { r.After = nil; r.Delta = other.Config.Delta(touched) },
		func(r *Record) { r.After, r.Delta = nil, nil },
		func(r *Record) { r.After, r.Delta = nil, []byte("{}") },
		func(r *Record) { r.Reserved = &Reservations{File: []byte("{}")} },
	} {
		r := NewRecord(1, s, next, touched, 5, Author{})
		change(r)
		_, err := base.Apply(r, "digest")
		require.ErrorContains(t, err, "record 1: ")
		require.False(t, errors.As(err, new(*UnfitError)), "%v", err)
	}
}

func TestTooLongRecord(t *testing.T) {
	s := start(t)
	r := NewRecord(1, s, s, nil, 5, Author{})
	require.Nil(t, r)
	_, err := Encode(&Record{Number: 1, Delta: make([]byte, LineMax)}, true)
	require.ErrorContains(t, err, "more than the maximum of")
	_, err = Encode(&Record{Number: 1, Delta: []byte("[\n]")}, true)
	require.EqualError(t, err, "record 1 is not one line")
}

// A change costs the same with 10 and with 10,000 objects.
func BenchmarkRecord(b *testing.B) {
	for _, count := range []int{10, 10_000} {
		b.Run(fmt.Sprintf("instances=%d", count), func(b *testing.B) {
			s := start(b)
			e := s.Config.Edit()
			for i := range count {
				key := fmt.Sprintf("c1000000-0000-4000-8000-%012d", i)
				o, err := model.Instances.Decode(fmt.Appendf(nil, `{"forthcoming":true,"uuid":%q,"serial_no":1}`, key))
				require.NoError(b, err)
				model.Instances.Put(e, key, o.Value)
			}
			s.Config, _ = e.Commit(1)
			base, err := Recover(Files{Config: s.Config}, false)
			require.NoError(b, err)
			for b.Loop() {
				next, touched := renamed(base.State, fmt.Sprint(base.Number))
				r := NewRecord(base.Number+1, base.State, next, touched, 5, Author{})
				line, err := Encode(r, true)
				require.NoError(b, err)
				base.Position, err = base.Apply(r, line.Digest)
				require.NoError(b, err)
			}
		})
	}
}

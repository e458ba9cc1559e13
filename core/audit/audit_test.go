package audit_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lockstep/core/audit"
)

var noon = time.Date(2026, 11, 28, 12, 0, 0, 123456000, time.UTC)

func entry(user, what string) audit.Entry {
	return audit.Entry{Time: noon, User: user, Key: "uid=" + user, By: "uid=1(" + user + "), pid=7", Method: "CancelJob", What: what}
}

func TestWhatACallChanges(t *testing.T) {
	for call, want := range map[string]string{
		`CancelJob [12]`:             "cancel job 12",
		`CancelJob ["12", true]`:     "kill job 12",
		`CancelJob [12, false]`:      "cancel job 12",
		`CancelJob []`:               "cancel job ?",
		`ChangeJobPriority [3, -10]`: "set the priority of job 3 to -10",
		`LockstepOrderJobs ["reschedule", [3, 4], "2026-12-01T03:00:00Z"]`: "set the time 2026-12-01T03:00:00Z of 2 jobs: 3, 4",
		`LockstepOrderJobs ["reschedule", [3], "now"]`:                     "set the time now of 1 jobs: 3",
		`LockstepHoldJob [3, true]`:                                        "hold job 3",
		`LockstepHoldJob [3, false]`:                                       "release job 3",
		`ArchiveJob ["5"]`:                                                 "archive job 5",
		`AutoArchiveJobs [-1, 30]`:                                         "archive all ended jobs",
		`AutoArchiveJobs [3600, 30]`:                                       "archive jobs that ended more than 3600 s ago",
		`SetDrainFlag [true]`:                                              "drain the queue",
		`SetDrainFlag [false]`:                                             "undrain the queue",
		`SetWatcherPause [1795867200]`:                                     "pause the watcher until 2026-11-28T12:00:00Z",
		`SetWatcherPause [null]`:                                           "end the pause of the watcher",
		`DeleteFilter ["u-1"]`:                                             "delete filter rule u-1",
		`LockstepSetSettings [{"b":null,"a":"1h"}]`:                        "change settings: a = 1h, b = default",
		`LockstepSetSettings [7]`:                                          "change settings",
		`ReplaceFilter [null, 0, [["jobid", [">", "id", 7]]], "REJECT", []]`: `add a filter rule: priority 0, ` +
			`predicates [["jobid", [">", "id", 7]]], action REJECT`,
		`LockstepReplaceFilter ["u-1", 2, [], "ACCEPT", [], 60]`: "replace filter rule u-1: priority 2, predicates [], action ACCEPT",
		`LockstepGrant ["operate", "group:ops"]`:                 "grant the role operate to group:ops",
		`LockstepRevoke ["operate", "bob"]`:                      "revoke the role operate of bob",
		`LockstepNodeRemove ["b"]`:                               "remove node b from the cluster",
		`LockstepNodePromote ["b"]`:                              "make node b the master",
		`LockstepNodeCheck [true]`:                               "repair the files of the nodes",
		`LockstepNodeCheck [false]`:                              "",
		`LockstepStatus []`:                                      "",
		`SubmitJob [[{"OP_ID": "OP_TEST_DELAY"}]]`:               "",
	} {
		method, args, _ := strings.Cut(call, " ")
		var decoded []json.RawMessage
		require.NoError(t, json.Unmarshal([]byte(args), &decoded))
		what, changes := audit.Change(method, decoded)
		require.Equal(t, want, what, call)
		require.Equal(t, want != "", changes, call)
	}
}

// Whatever a client sends, an entry fits into a file with others, is one line of printable text, and is read as it was written.
func TestAnEntryIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.OneOf(rapid.String(), rapid.StringN(0, -1, 3000), rapid.SampledFrom([]string{"\n\x00\"\\\u202e<", strings.Repeat("\"", 2000)}))
		e := audit.Entry{Time: noon, User: texts.Draw(t, "user"), Key: texts.Draw(t, "key"), By: texts.Draw(t, "by"),
			Method: texts.Draw(t, "method"), What: texts.Draw(t, "what"), Refused: texts.Draw(t, "refused")}
		f, fits := audit.NewFile(5).Add(e)
		require.True(t, fits)
		require.Less(t, len(f.Content), audit.FileMax/10)
		entries, err := audit.Decode(5, f.Content)
		require.NoError(t, err)
		want := e.Bounded()
		want.Number = 5
		require.Equal(t, []audit.Entry{want}, entries)
		require.NotContains(t, want.What, "\n")
	})
}

// A full file is followed by one whose name is the number of its first entry.
func TestFilesAreBounded(t *testing.T) {
	f, count := audit.NewFile(1), 0
	for fits := true; fits; count++ {
		var next audit.File
		if next, fits = f.Add(entry("alice", "cancel job 12")); fits {
			require.LessOrEqual(t, len(next.Content), audit.FileMax)
			f = next
		}
	}
	require.Greater(t, count, 300)
	require.Equal(t, uint64(count), f.Next)
	opened, err := audit.Open(1, f.Content)
	require.NoError(t, err)
	require.Equal(t, f, opened)
	require.Empty(t, audit.Excess(make([]uint64, audit.FilesMax)))
	require.Len(t, audit.Excess(make([]uint64, audit.FilesMax+2)), 2)
}

func TestADamagedFile(t *testing.T) {
	f := audit.NewFile(1)
	for i := range 3 {
		f, _ = f.Add(entry("alice", fmt.Sprint("cancel job ", i)))
	}
	for name, content := range map[string]string{
		"a line that is cut off": string(f.Content[:len(f.Content)-5]),
		"a line of zeros":        strings.Replace(string(f.Content), `"alice"`, "\x00\x00", 1),
		"a missing line":         string(f.Content[strings.Index(string(f.Content), "\n")+1:]),
	} {
		damaged, err := audit.Open(1, []byte(content))
		require.Error(t, err, name)
		require.GreaterOrEqual(t, damaged.Next, uint64(3), name)
	}
}

// files are the files of a log, by their first numbers.
type files map[uint64][]byte

func (f files) search(q audit.Query, firsts []uint64, last uint64) audit.Page {
	s := audit.NewSearch(q, firsts, last)
	for {
		first, more := s.Next()
		if !more {
			return s.Page()
		}
		s.Take(first, f[first])
	}
}

func numbers(p audit.Page) (all []uint64) {
	for _, e := range p.Entries {
		all = append(all, e.Number)
	}
	return all
}

// A log of ten entries in files of three. Odd ones are alice's, and each is a minute later than the one before.
func someLog() (files, []uint64) {
	all, firsts, f := files{}, []uint64(nil), audit.NewFile(1)
	for n := range uint64(10) {
		if n%3 == 0 {
			f = audit.NewFile(n + 1)
			firsts = append(firsts, n+1)
		}
		e := entry([]string{"alice", "bob"}[n%2], "hold job 1")
		e.Time = noon.Add(time.Duration(n) * time.Minute)
		f, _ = f.Add(e)
		all[f.First] = f.Content
	}
	return all, firsts
}

func TestSearch(t *testing.T) {
	log, firsts := someLog()
	after := func(n uint64) *uint64 { return &n }
	for _, c := range []struct {
		query audit.Query
		want  []uint64
		last  uint64
		older uint64
	}{
		{audit.Query{}, []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 10, 0},
		{audit.Query{Limit: 10}, []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 10, 0},
		{audit.Query{Limit: 4}, []uint64{7, 8, 9, 10}, 10, 7},
		{audit.Query{Limit: 4, Before: 7}, []uint64{3, 4, 5, 6}, 10, 3},
		{audit.Query{Limit: 4, Before: 3}, []uint64{1, 2}, 10, 0},
		{audit.Query{User: "alice", Limit: 2}, []uint64{7, 9}, 10, 7},
		{audit.Query{User: "uid=bob", Limit: 9}, []uint64{2, 4, 6, 8, 10}, 10, 0},
		{audit.Query{Since: noon.Add(7 * time.Minute)}, []uint64{8, 9, 10}, 10, 0},
		{audit.Query{After: after(0), Limit: 2}, []uint64{1, 2}, 2, 0},
		{audit.Query{After: after(2), Limit: 3}, []uint64{3, 4, 5}, 5, 0},
		{audit.Query{After: after(8)}, []uint64{9, 10}, 10, 0},
		{audit.Query{After: after(10)}, nil, 10, 0},
		{audit.Query{After: after(4), User: "alice"}, []uint64{5, 7, 9}, 10, 0},
	} {
		page := log.search(c.query, firsts, 10)
		require.Equal(t, c.want, numbers(page), "%+v", c.query)
		require.Equal(t, c.last, page.Last, "%+v", c.query)
		require.Equal(t, c.older, page.Older, "%+v", c.query)
	}
	log[4] = []byte("damaged\n")
	delete(log, 1) // removed meanwhile
	page := log.search(audit.Query{}, firsts, 10)
	require.Equal(t, []uint64{7, 8, 9, 10}, numbers(page))
	require.Equal(t, 1, page.Damaged)
}

// Pages of any size, one way or the other, have each entry once and in order.
func TestPagesHaveEachEntryOnce(t *testing.T) {
	log, firsts := someLog()
	all := log.search(audit.Query{}, firsts, 10).Entries
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 12).Draw(t, "limit")
		var older, newer []audit.Entry
		for before, first := uint64(0), true; first || before != 0; first = false {
			page := log.search(audit.Query{Before: before, Limit: limit}, firsts, 10)
			older = append(page.Entries, older...)
			before = page.Older
		}
		for at := uint64(0); at < 10; {
			page := log.search(audit.Query{After: &at, Limit: limit}, firsts, 10)
			newer = append(newer, page.Entries...)
			at = page.Last
		}
		require.Equal(t, all, older)
		require.Equal(t, all, newer)
	})
}

func TestOneRefusalASecond(t *testing.T) {
	var r audit.Refusals
	refused := func(user string, job int) audit.Entry {
		e := entry(user, fmt.Sprint("kill job ", job))
		e.Refused = "no"
		return e
	}
	require.True(t, r.Take(refused("alice", 1), noon))
	require.False(t, r.Take(refused("alice", 2), noon.Add(time.Millisecond)))
	require.False(t, r.Take(refused("alice", 3), noon.Add(2*time.Millisecond)))
	require.True(t, r.Take(refused("bob", 1), noon), "another user")
	require.Empty(t, r.Due(noon.Add(999*time.Millisecond)))
	due := r.Due(noon.Add(time.Second))
	require.Len(t, due, 1)
	require.Equal(t, "kill job 3", due[0].What)
	require.Equal(t, 1, due[0].LeftOut)
	require.False(t, r.Take(refused("alice", 4), noon.Add(time.Second)), "within a second of that entry")
	require.Len(t, r.Due(noon.Add(2*time.Second)), 1)
	require.Empty(t, r.Due(noon.Add(3*time.Second)))
	require.False(t, r.Pending())
	for i := range 3000 {
		r.Take(refused(fmt.Sprint("user", i), 1), noon)
	}
	require.Len(t, r.Due(noon.Add(time.Hour)), 1, "the users of which there are too many count as one")
}

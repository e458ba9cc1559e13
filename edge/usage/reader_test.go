package usage

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lockstep/core/job"
	"lockstep/core/ownership"
	"lockstep/core/paths"
	"lockstep/core/usage"
	"lockstep/persistence"
)

// tree is a data directory in memory.
type tree struct {
	files  map[string]string
	before func(op, path string) // of a call
	broken string                // a directory that cannot be listed
}

func (f *tree) Read(_, name string) ([]byte, error) {
	if f.before != nil {
		f.before("read", name)
	}
	content, there := f.files[name]
	if !there {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return []byte(content), nil
}

func (f *tree) List(_, dir string) ([]string, error) {
	if f.before != nil {
		f.before("list", dir)
	}
	if dir == f.broken {
		return nil, errors.New("broken")
	}
	found := map[string]bool{}
	for name := range f.files {
		if rest, is := strings.CutPrefix(name, dir+"/"); is {
			first, _, _ := strings.Cut(rest, "/")
			found[first] = true
		}
	}
	names := []string{}
	for name := range found {
		names = append(names, name)
	}
	return names, nil
}

func jobFile(id int64) string {
	return string(job.Encode(&job.Job{ID: job.ID(id), Received: job.Timestamp{Sec: 1000 + id}, Ops: []job.Op{{Input: json.RawMessage(`{"OP_ID": "OP_X"}`)}}}))
}

// walk asks for all pages, and returns the ids of all jobs, and the number of pages.
func walk(t require.TestingT, files Files, q usage.Query) (ids []int64, pages int) {
	r := NewReader(files)
	for more := true; more; more = q.Cursor > 0 {
		pages++
		answered := make(chan struct{})
		r.Page(q, func(content []byte, err error) {
			defer close(answered)
			require.NoError(t, err)
			var page usage.Page
			require.NoError(t, json.Unmarshal(content, &page))
			for _, j := range page.Jobs {
				ids = append(ids, j.ID)
			}
			q.Cursor = page.Cursor
		})
		<-answered
	}
	return ids, pages
}

// The pages together have each job of the queue and of the archive once, the newest first.
func TestPagesHaveEachJobOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		files := &tree{files: map[string]string{"queue/serial": "1", "queue/archive/x/job-1": "", "queue/job-x": "", "queue/quarantine/job-5": ""}}
		want := map[int64]bool{}
		for _, id := range rapid.SliceOf(rapid.OneOf(rapid.Int64Range(0, 30), rapid.Int64Range(9_990, 10_010), rapid.Int64Range(0, 100_000))).Draw(t, "ids") {
			want[id] = true
			switch rapid.IntRange(0, 2).Draw(t, "where") {
			case 0:
				files.files[paths.JobPath(id)] = jobFile(id)
			case 1:
				files.files[paths.ArchivePath(id)] = jobFile(id)
			default: // between both
				files.files[paths.JobPath(id)], files.files[paths.ArchivePath(id)] = jobFile(id), jobFile(id)
			}
		}
		var sorted []int64
		for id := range want {
			sorted = append(sorted, id)
		}
		slices.SortFunc(sorted, descending)
		ids, _ := walk(t, files, usage.Query{})
		require.Equal(t, sorted, ids)
		if len(sorted) > 0 {
			cursor := rapid.SampledFrom(sorted).Draw(t, "cursor")
			if cursor > 0 {
				ids, _ = walk(t, files, usage.Query{Cursor: cursor})
				require.Equal(t, sorted[slices.Index(sorted, cursor)+1:], append([]int64{}, ids...))
			}
		}
	})
}

func TestSeveralPages(t *testing.T) {
	files := &tree{files: map[string]string{}}
	const jobs = 12_000
	for id := range int64(jobs) {
		if id%3 == 0 {
			files.files[paths.JobPath(id)] = jobFile(id)
		} else {
			files.files[paths.ArchivePath(id)] = jobFile(id)
		}
	}
	ids, pages := walk(t, files, usage.Query{})
	require.Len(t, ids, jobs)
	require.True(t, slices.IsSortedFunc(ids, descending))
	require.Equal(t, 3, pages)

	// Of a long archive only the newest jobs are read.
	reads := 0
	files.before = func(op, name string) {
		if op == "read" && strings.HasPrefix(path.Base(name), "job-") {
			reads++
		}
	}
	ids, _ = walk(t, files, usage.Query{SinceUS: (1000 + jobs - 10) * 1e6})
	require.Len(t, ids, 10)
	require.Less(t, reads, 400)
}

// A job that is archived while the page is made is in the page.
func TestAJobIsArchivedMeanwhile(t *testing.T) {
	for _, when := range []string{"list queue/archive", "read " + paths.ArchivePath(7), "read " + paths.JobPath(7), "read " + paths.RecordPath(7)} {
		files := &tree{files: map[string]string{paths.JobPath(7): jobFile(7), paths.RecordPath(7): `{"name": "nightly"}`}}
		moved := false
		files.before = func(op, name string) {
			if op+" "+name == when && !moved {
				moved = true
				for from, to := range map[string]string{paths.JobPath(7): paths.ArchivePath(7), paths.RecordPath(7): paths.ArchivedRecordPath(7)} {
					files.files[to] = files.files[from]
					delete(files.files, from)
				}
			}
		}
		page, err := NewReader(files).page(usage.Query{})
		require.NoError(t, err)
		require.True(t, moved, when)
		require.Len(t, page.Jobs, 1, when)
		require.Equal(t, "nightly", page.Jobs[0].Name, when)
	}
}

// A job that is removed from the archive meanwhile does not exist. A directory that cannot be listed fails the page.
func TestWhatCannotBeRead(t *testing.T) {
	files := &tree{files: map[string]string{paths.ArchivePath(7): jobFile(7), paths.ArchivePath(6): "no job"}}
	files.before = func(op, name string) {
		if op == "read" && name == paths.ArchivePath(7) {
			delete(files.files, name)
		}
	}
	page, err := NewReader(files).page(usage.Query{})
	require.NoError(t, err)
	require.Equal(t, usage.Page{Jobs: []usage.Job{}, Examined: 1, Unreadable: 1}, page)
	files.before = nil
	for _, dir := range []string{"queue", "queue/archive", "queue/archive/0"} {
		files.broken = dir
		failed := make(chan error)
		NewReader(files).Page(usage.Query{}, func(_ []byte, err error) { failed <- err })
		require.EqualError(t, <-failed, "broken")
	}
}

// BenchmarkArchive reads archived jobs with records, as commands leave them, 10,000 in each operation.
func BenchmarkArchive(b *testing.B) {
	root := b.TempDir()
	const jobs = 10_000
	require.NoError(b, os.MkdirAll(filepath.Join(root, paths.ArchiveDir, "0"), 0o700))
	for id := range int64(jobs) {
		at := func(s int64) job.Timestamp { return job.Timestamp{Sec: 1_790_000_000 + id*10 + s, Usec: 123456} }
		j := &job.Job{ID: job.ID(id), Received: at(0), Start: at(1), End: at(9), Ops: []job.Op{{Status: job.Success, Start: at(1), Exec: at(2), End: at(9),
			Input: json.RawMessage(`{"OP_ID": "OP_RUN_COMMAND", "command": ["/usr/local/bin/backup", "--all"], "cwd": "/var/backups", "reason": [` +
				`["lockstep:user", "uid=1000(alice), pid=4711", 1790000000123456000], ["lockstep", "submitted", 1790000000123456000]]}`),
			Result: json.RawMessage(`{"exit_status": 0, "usage": {"cpu_seconds": 1.25, "memory_peak_bytes": 12345678, "memory_of": "group"}}`)}}}
		for i := range 5 {
			j.AppendLog(0, at(3), "message", json.RawMessage(fmt.Sprintf(`"line %d of what the backup has printed"`, i)))
		}
		require.NoError(b, os.WriteFile(filepath.Join(root, paths.ArchivePath(id)), job.Encode(j), 0o600))
		rec := fmt.Sprintf(`{"name": "backup-%d", "submitter": {"uid": 1000, "name": "alice"}}`, id%50)
		require.NoError(b, os.WriteFile(filepath.Join(root, paths.ArchivedRecordPath(id)), []byte(rec), 0o600))
	}
	files, err := persistence.OpenFiles(root, ownership.Rules{})
	require.NoError(b, err)
	for b.Loop() {
		ids, _ := walk(b, files, usage.Query{})
		require.Len(b, ids, jobs)
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/jobs, "µs/job")
	require.NoError(b, files.Close())
}

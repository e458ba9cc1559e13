package persistence

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

// mapFiles is a read-only disk that counts the readers at work.
type mapFiles struct {
	dirs map[string][]string
	busy atomic.Int64
	most atomic.Int64

	mu    sync.Mutex
	reads []string
}

func (m *mapFiles) List(_, dir string) ([]string, error) {
	return m.dirs[dir], nil
}

func (m *mapFiles) Read(op, path string) ([]byte, error) {
	busy := m.busy.Add(1)
	defer m.busy.Add(-1)
	for most := m.most.Load(); busy > most && !m.most.CompareAndSwap(most, busy); most = m.most.Load() {
	}
	m.mu.Lock()
	m.reads = append(m.reads, path)
	m.mu.Unlock()
	if path == JobPath(13) {
		return nil, fmt.Errorf("%s: open %s: %w", op, path, fs.ErrNotExist)
	}
	return []byte(path), nil
}

func TestJobIDs(t *testing.T) {
	files := &mapFiles{dirs: map[string][]string{
		"queue": {"archive", "job-1", "job-10", "job-2", "job-3-7-0123456789abcdef.tmp", "job-x", "lock", "serial"},
	}}
	ids, err := JobIDs(files)
	noError(t, err)
	if want := []int64{1, 2, 10}; !slices.Equal(ids, want) {
		t.Errorf("got %v, want %v", ids, want)
	}
}

func TestReadJobs(t *testing.T) {
	for _, count := range []int{0, 1, scanChunk, 10*scanChunk + 1} {
		for _, readers := range []int{1, 2, 3, ScanReaders} {
			t.Run(fmt.Sprintf("%d files, %d readers", count, readers), func(t *testing.T) {
				var ids []int64
				for i := range count {
					ids = append(ids, int64(i+1))
				}
				files := &mapFiles{}
				next := 0
				for file := range ReadJobs(files, ids, readers) {
					if file.ID != ids[next] {
						t.Fatalf("file %d is that of job %d", next, file.ID)
					}
					next++
					if file.ID == 13 {
						if !errors.Is(file.Err, fs.ErrNotExist) || file.Data != nil {
							t.Errorf("job 13: %q, %v", file.Data, file.Err)
						}
					} else if file.Err != nil || string(file.Data) != JobPath(file.ID) {
						t.Errorf("job %d: %q, %v", file.ID, file.Data, file.Err)
					}
				}
				if next != count || len(files.reads) != count {
					t.Errorf("%d files yielded, %d read, want %d", next, len(files.reads), count)
				}
				if most := files.most.Load(); most > int64(readers) {
					t.Errorf("%d readers were at work, want at most %d", most, readers)
				}
			})
		}
	}
}

func TestReadJobsStopsWithItsConsumer(t *testing.T) {
	ids := make([]int64, 100*scanChunk)
	for i := range ids {
		ids[i] = int64(i)
	}
	for _, readers := range []int{1, 4} {
		files := &mapFiles{}
		for file := range ReadJobs(files, ids, readers) {
			if file.ID == scanChunk+1 {
				break
			}
		}
		if busy := files.busy.Load(); busy != 0 {
			t.Errorf("%d readers: %d reads are under way after the loop", readers, busy)
		}
		if most := (2 + readers) * scanChunk; len(files.reads) > most {
			t.Errorf("%d readers: %d files were read, want at most %d", readers, len(files.reads), most)
		}
	}
}

func TestOneReaderReadsInOrder(t *testing.T) {
	ids := []int64{5, 3, 8}
	files := &mapFiles{}
	for file := range ReadJobs(files, ids, 1) {
		if want := JobPath(file.ID); files.reads[len(files.reads)-1] != want {
			t.Errorf("%s was read ahead of its turn", files.reads[len(files.reads)-1])
		}
	}
	if want := []string{"queue/job-5", "queue/job-3", "queue/job-8"}; !slices.Equal(files.reads, want) {
		t.Errorf("read %q, want %q", files.reads, want)
	}
}

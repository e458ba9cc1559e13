package persistence

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/paths"
)

// content is the size of an ordinary job file.
var content = make([]byte, 1024)

func BenchmarkReplace(b *testing.B) {
	files, _ := newOSFiles(b)
	for b.Loop() {
		noError(b, files.Replace("save-job", "queue/job-1", content))
	}
}

func BenchmarkReplaceAndSyncDir(b *testing.B) {
	files, _ := newOSFiles(b)
	for b.Loop() {
		noError(b, files.Replace("save-job", "queue/job-1", content))
		noError(b, files.SyncDir("save-job", "queue"))
	}
}

// BenchmarkReplaceParallel measures the gain from overlapping syncs of different jobs.
func BenchmarkReplaceParallel(b *testing.B) {
	for _, writers := range []int{4, 16} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			files, _ := newOSFiles(b)
			var id atomic.Int64
			b.SetParallelism(writers)
			b.RunParallel(func(pb *testing.PB) {
				path := paths.JobPath(id.Add(1))
				for pb.Next() {
					if err := files.Replace("save-job", path, content); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}

// BenchmarkBatch is a group commit: the files of 100 jobs, one directory sync,
// the serial, and its directory sync.
func BenchmarkBatch(b *testing.B) {
	files, _ := newOSFiles(b)
	for b.Loop() {
		var group syncGroup
		for id := range int64(100) {
			group.run(func() error { return files.Replace("save-job", paths.JobPath(id), content) })
		}
		noError(b, group.wait())
		noError(b, files.SyncDir("save-job", paths.QueueDir))
		noError(b, files.Replace("serial", paths.SerialPath, paths.FormatSerial(100)))
		noError(b, files.SyncDir("serial", paths.QueueDir))
	}
}

// syncGroup bounds the writers of a batch.
type syncGroup struct {
	results []chan error
	slots   chan struct{}
}

func (g *syncGroup) run(write func() error) {
	if g.slots == nil {
		g.slots = make(chan struct{}, 16)
	}
	result := make(chan error, 1)
	g.results = append(g.results, result)
	g.slots <- struct{}{}
	go func() {
		result <- write()
		<-g.slots
	}()
}

func (g *syncGroup) wait() error {
	for _, result := range g.results {
		if err := <-result; err != nil {
			return err
		}
	}
	return nil
}

func BenchmarkRead(b *testing.B) {
	files, _ := newOSFiles(b)
	noError(b, files.Replace("save-job", "queue/job-1", content))
	for b.Loop() {
		_, err := files.Read("scan", "queue/job-1")
		noError(b, err)
	}
}

func BenchmarkLivelock(b *testing.B) {
	dir := b.TempDir()
	b.Run("create and release", func(b *testing.B) {
		for b.Loop() {
			lock, err := CreateLivelock(dir, paths.JobLivelockNameStart(1), own)
			noError(b, err)
			noError(b, lock.Release())
		}
	})
	b.Run("probe", func(b *testing.B) {
		lock, err := CreateLivelock(dir, paths.JobLivelockNameStart(1), own)
		noError(b, err)
		defer lock.Release()
		for b.Loop() {
			if alive, err := ProbeLivelock(lock.Path()); !alive || err != nil {
				b.Fatal(alive, err)
			}
		}
	})
}

// BenchmarkMakeDurable compares the two ways to make durable what entries have changed since the last note: 2,000 writes of 1.5 kB
// to 500 files, each by rename and without a sync.
func BenchmarkMakeDurable(b *testing.B) {
	for _, way := range []string{"syncfs", "each file"} {
		b.Run(way, func(b *testing.B) {
			dir := b.TempDir()
			dataDir := filepath.Join(dir, "lib")
			require.NoError(b, MakeDirs(dataDir, filepath.Join(dir, "run"), filepath.Join(dir, "log"), own))
			files, err := OpenFiles(dataDir, own)
			require.NoError(b, err)
			defer files.Close()
			_, err = files.HoldFileSystems()
			require.NoError(b, err)
			content := bytes.Repeat([]byte("x"), 1500)
			for b.Loop() {
				b.StopTimer()
				for i := range 2000 {
					require.NoError(b, files.ReplaceUnsynced("bench", paths.JobPath(int64(i%500)), content))
				}
				b.StartTimer()
				if way == "syncfs" {
					require.NoError(b, files.SyncAll("bench"))
					continue
				}
				for i := range 500 {
					file, err := os.Open(filepath.Join(dataDir, paths.JobPath(int64(i))))
					require.NoError(b, err)
					require.NoError(b, file.Sync())
					require.NoError(b, file.Close())
				}
				require.NoError(b, files.SyncDir("bench", paths.QueueDir))
			}
		})
	}
}

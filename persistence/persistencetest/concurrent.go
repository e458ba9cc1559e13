package persistencetest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
)

func testConcurrentFiles(t *testing.T, files Files) {
	inParallel(writers, func(i int) {
		path := fmt.Sprintf("queue/job-%d", i)
		for round := range 10 {
			content := fmt.Sprintf("%d round %d", i, round)
			if err := files.Replace(op, path, []byte(content)); err != nil {
				t.Error(err)
			}
			if err := files.SyncDir(op, "queue"); err != nil {
				t.Error(err)
			}
			if data, err := files.Read(op, path); err != nil || string(data) != content {
				t.Errorf("%s holds %q (%v), want %q", path, data, err, content)
			}
		}
	})
	names, err := files.List(op, "queue")
	noError(t, err)
	if len(names) != writers {
		t.Errorf("queue holds %q, want %d files", names, writers)
	}
}

func testConcurrentFile(t *testing.T, files Files) {
	content := func(i int) []byte { return bytes.Repeat([]byte{byte('a' + i)}, 1000+i) }
	noError(t, files.Replace(op, "queue/serial", content(0)))
	inParallel(writers, func(i int) {
		for range 10 {
			if err := files.Replace(op, "queue/serial", content(i)); err != nil {
				t.Error(err)
			}
			data, err := files.Read(op, "queue/serial")
			if err != nil || len(data) == 0 || !bytes.Equal(data, content(int(data[0]-'a'))) {
				t.Errorf("read %d bytes (%v) that nobody wrote", len(data), err)
			}
		}
	})
	wantList(t, files, "queue", "serial")
}

func testConcurrentAppends(t *testing.T, files Files) {
	const rounds = 10
	line := func(i int) string { return strings.Repeat(string(rune('a'+i)), 1000+i) }
	inParallel(writers, func(i int) {
		for range rounds {
			if err := files.Append(op, "locks.journal", []byte(line(i)+"\n")); err != nil {
				t.Error(err)
			}
		}
	})
	data, err := files.Read(op, "locks.journal")
	noError(t, err)
	found := map[string]int{}
	for read := range strings.Lines(string(data)) {
		found[strings.TrimSuffix(read, "\n")]++
	}
	for i := range writers {
		if found[line(i)] != rounds {
			t.Errorf("%d whole lines of writer %d, want %d", found[line(i)], i, rounds)
		}
	}
	if len(found) != writers {
		t.Errorf("%d different lines, want %d", len(found), writers)
	}
}

func testConcurrentRenames(t *testing.T, files Files) {
	var want []string
	for i := range writers {
		name := fmt.Sprintf("job-%d", i)
		want = append(want, name)
		replace(t, files, "queue/"+name, name)
	}
	inParallel(writers, func(i int) {
		if err := files.Rename(op, "queue/"+want[i], "queue/archive/0/"+want[i]); err != nil {
			t.Error(err)
		}
	})
	for _, name := range want {
		wantContent(t, files, "queue/archive/0/"+name, name)
	}
	slices.Sort(want)
	wantList(t, files, "queue/archive/0", want...)
	wantList(t, files, "queue", "archive")
}

func inParallel(n int, run func(i int)) {
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { run(i) })
	}
	group.Wait()
}

package persistence

import (
	"fmt"
	"iter"
	"slices"
	"strings"
)

// Lister and Reader are the file operations a scan needs; [OSFiles] has them,
// and so has a simulated disk.
type Lister interface {
	List(op, dir string) ([]string, error)
}

// Reader: see [Lister].
type Reader interface {
	Read(op, path string) ([]byte, error)
}

const opScan = "scan"

// JobIDs returns the ids of all live job files, ascending.
func JobIDs(files Lister) ([]int64, error) {
	names, err := files.List(opScan, QueueDir)
	if err != nil {
		return nil, err
	}
	ids := make([]int64, 0, len(names))
	for _, name := range names {
		if id, ok := ParseJobName(name); ok {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids, nil
}

// HighestJobID returns the highest id of any job file: live, archived or in
// quarantine. found is false if there is none.
func HighestJobID(files Lister) (id int64, found bool, err error) {
	archive, err := highestArchiveDir(files)
	if err != nil {
		return 0, false, err
	}
	for _, dir := range []string{QueueDir, QuarantineDir, archive} {
		names, err := files.List(opScan, dir)
		if err != nil {
			return 0, false, err
		}
		for _, name := range names {
			original, _, _ := strings.Cut(name, ".") // quarantine: job-12.1
			if jobID, ok := ParseJobName(original); ok {
				id, found = max(id, jobID), true
			}
		}
	}
	return id, found, nil
}

// highestArchiveDir returns the archive directory with the highest number that
// has a job file in it, or [ArchiveDir] itself if there is none.
func highestArchiveDir(files Lister) (string, error) {
	names, err := files.List(opScan, ArchiveDir)
	if err != nil {
		return "", err
	}
	var numbers []int64
	for _, name := range names {
		if number, ok := parseDecimal(name); ok {
			numbers = append(numbers, number)
		}
	}
	slices.Sort(numbers)
	for _, number := range slices.Backward(numbers) {
		dir := fmt.Sprintf("%s/%d", ArchiveDir, number)
		names, err := files.List(opScan, dir)
		if err != nil {
			return "", err
		}
		if slices.ContainsFunc(names, isJobName) {
			return dir, nil
		}
	}
	return ArchiveDir, nil
}

func isJobName(name string) bool {
	_, ok := ParseJobName(name)
	return ok
}

// JobFile is what [ReadJobs] yields: the bytes of a live job's file, or why they
// could not be read (fs.ErrNotExist: it was archived or removed meanwhile).
type JobFile struct {
	ID   int64
	Data []byte
	Err  error
}

// ScanReaders is a good number of readers for a real disk: more gain nothing on
// cached files, but keep the queue of a cold disk filled.
const ScanReaders = 16

// scanChunk is how many files a reader reads at a time: enough to make handing
// them over cheap, few enough to bound what waits for the consumer (ScanReaders
// chunks, some megabytes).
const scanChunk = 64

// ReadJobs yields the live job files with the given ids, in the order of ids,
// with that many readers (>= 1, else it panics) at work ahead of the consumer.
// One reader means: each file is read when its turn comes, on the caller's
// goroutine, which makes the order of the Read calls that of ids as well.
// No Read is under way after the loop has ended, however it ended.
func ReadJobs(files Reader, ids []int64, readers int) iter.Seq[JobFile] {
	if readers < 1 {
		panic(fmt.Sprintf("persistence: %d readers", readers))
	}
	return func(yield func(JobFile) bool) {
		if readers > 1 {
			readAhead(files, ids, readers, yield)
			return
		}
		for _, id := range ids {
			if !yield(readJob(files, id)) {
				return
			}
		}
	}
}

// readAhead keeps at most `readers` chunks in flight. Each has its own channel,
// with room for its result, so that results are taken in order and no reader
// ever blocks on a consumer that left.
func readAhead(files Reader, ids []int64, readers int, yield func(JobFile) bool) {
	chunks := slices.Collect(slices.Chunk(ids, scanChunk))
	flights := make([]chan []JobFile, len(chunks))
	launch := func(i int) {
		if i >= len(chunks) {
			return
		}
		flight := make(chan []JobFile, 1)
		flights[i] = flight
		go func() { flight <- readChunk(files, chunks[i]) }()
	}
	for i := range readers {
		launch(i)
	}
	taken := 0
	defer func() {
		for _, flight := range flights[taken:min(taken+readers, len(flights))] {
			if flight != nil {
				<-flight
			}
		}
	}()
	for i := range chunks {
		read := <-flights[i]
		taken = i + 1
		launch(i + readers)
		for _, file := range read {
			if !yield(file) {
				return
			}
		}
	}
}

func readChunk(files Reader, ids []int64) []JobFile {
	read := make([]JobFile, len(ids))
	for i, id := range ids {
		read[i] = readJob(files, id)
	}
	return read
}

func readJob(files Reader, id int64) JobFile {
	data, err := files.Read(opScan, JobPath(id))
	return JobFile{ID: id, Data: data, Err: err}
}

package jobprocess

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"
	"unsafe"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"lockstep/core/paths"
)

// rescanInterval is the pause between two comparisons of all watched files with what was seen of them. They find what
// inotify has missed, such as changes after the queue's directory was replaced.
const rescanInterval = 2 * time.Second

// fileWatch calls a function when the file of a watched job has been replaced. It learns of a rename from inotify at once,
// and of every change by a rescan. One goroutine belongs to it. Nothing survives the daemon: an adopted job is watched again.
type fileWatch struct {
	dir     string // of job files
	log     *logrus.Logger
	inotify *os.File // nil: the kernel has given none, and the rescan is alone
	stopped chan struct{}
	done    sync.WaitGroup

	mu   sync.Mutex
	jobs map[uint64]*watchedJob // by attempt
}

// watchedJob is one attempt's job. seen is what the file was when changed was called for the last time.
type watchedJob struct {
	id      int64
	changed func() // must not block
	seen    fileVersion
}

// fileVersion tells two contents of a file apart: each replacement has another inode or a later time.
type fileVersion struct {
	inode    uint64
	modified int64 // nanoseconds since 1970
}

func newFileWatch(dir string, log *logrus.Logger) *fileWatch {
	w := &fileWatch{dir: dir, log: log, stopped: make(chan struct{}), jobs: map[uint64]*watchedJob{}}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		log.WithField("err", err).Warn("changes of job files cannot be watched; they are found late, by comparing the files")
	} else {
		w.inotify = os.NewFile(uintptr(fd), "inotify")
		w.watchDir()
		w.done.Add(1)
		go w.read()
	}
	w.done.Add(1)
	go w.rescan()
	return w
}

// watchDir watches the directory that has the name at this moment. Its caller repeats it, because the directory may have been replaced.
func (w *fileWatch) watchDir() {
	if w.inotify == nil {
		return
	}
	connection, err := w.inotify.SyscallConn()
	if err != nil {
		return // closed
	}
	_ = connection.Control(func(fd uintptr) {
		_, err = unix.InotifyAddWatch(int(fd), w.dir, unix.IN_MOVED_TO|unix.IN_ONLYDIR)
	})
	if err != nil {
		w.log.WithFields(logrus.Fields{"path": w.dir, "err": err}).
			Warn("the queue's directory cannot be watched; changes of job files are found late")
	}
}

// add watches the file of a job. changed is called once at once: the file may have changed before.
func (w *fileWatch) add(attempt uint64, id int64, changed func()) {
	j := &watchedJob{id: id, changed: changed, seen: w.version(id)}
	w.mu.Lock()
	w.jobs[attempt] = j
	w.mu.Unlock()
	changed()
}

// remove ends the watch of an attempt. It does nothing for an attempt that is not watched, and on nil.
func (w *fileWatch) remove(attempt uint64) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.jobs, attempt)
}

// close ends the watch of all jobs. On nil it does nothing.
func (w *fileWatch) close() {
	if w == nil {
		return
	}
	close(w.stopped)
	if w.inotify != nil {
		_ = w.inotify.Close()
	}
	w.done.Wait()
}

// version is what the file of a job is now; the zero value: it is missing.
func (w *fileWatch) version(id int64) fileVersion {
	var stat unix.Stat_t
	if err := unix.Lstat(filepath.Join(w.dir, filepath.Base(paths.JobPath(id))), &stat); err != nil {
		return fileVersion{}
	}
	return fileVersion{inode: stat.Ino, modified: stat.Mtim.Nano()}
}

// compare calls changed for the watched jobs that only selects, if their files have changed.
func (w *fileWatch) compare(only func(id int64) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, j := range w.jobs {
		if !only(j.id) {
			continue
		}
		if now := w.version(j.id); now != (fileVersion{}) && now != j.seen {
			j.seen = now
			j.changed()
		}
	}
}

func (w *fileWatch) rescan() {
	defer w.done.Done()
	ticks := time.NewTicker(rescanInterval)
	defer ticks.Stop()
	for {
		select {
		case <-w.stopped:
			return
		case <-ticks.C:
		}
		w.watchDir()
		w.compare(func(int64) bool { return true })
	}
}

// read compares the files that inotify names, or all after the kernel has dropped events, until the watch is closed.
func (w *fileWatch) read() {
	defer w.done.Done()
	buffer := make([]byte, 64<<10)
	for {
		n, err := w.inotify.Read(buffer)
		if err != nil {
			if !errors.Is(err, os.ErrClosed) {
				w.log.WithField("err", err).Error("inotify failed; changes of job files are found late")
			}
			return
		}
		changed, overflow := eventNames(buffer[:n])
		w.compare(func(id int64) bool { return overflow || changed[filepath.Base(paths.JobPath(id))] })
	}
}

// eventNames are the names of files in events. overflow: the kernel has dropped events.
func eventNames(events []byte) (names map[string]bool, overflow bool) {
	names = map[string]bool{}
	const header = int(unsafe.Sizeof(unix.InotifyEvent{}))
	for len(events) >= header {
		mask, length := binary.NativeEndian.Uint32(events[4:]), int(binary.NativeEndian.Uint32(events[12:]))
		if mask&unix.IN_Q_OVERFLOW != 0 {
			overflow = true
		}
		end := min(header+length, len(events))
		names[unix.ByteSliceToString(events[header:end])] = true
		events = events[end:]
	}
	return names, overflow
}

//go:build linux

package realcluster

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// monitor looks at the master while daemons are swapped and killed. It records what must not be: two daemons of one kind, and
// serial numbers that fall.
type monitor struct {
	c       *cluster
	stop    chan struct{}
	done    sync.WaitGroup
	samples int

	faults  []string
	highest map[string]uint64 // of the serial numbers, by file
	config  string            // size and time of the configuration that was read last
}

// monitorPeriod is the time between two looks. A second daemon listens for seconds.
const monitorPeriod = 20 * time.Millisecond

// watch starts a monitor. Its faults are errors of the test.
func (c *cluster) watch(t *testing.T) (stop func()) {
	m := &monitor{c: c, stop: make(chan struct{}), highest: map[string]uint64{}}
	m.done.Go(func() {
		for ticker := time.NewTicker(monitorPeriod); ; {
			select {
			case <-m.stop:
				return
			case <-ticker.C:
				m.look()
			}
		}
	})
	return sync.OnceFunc(func() {
		close(m.stop)
		m.done.Wait()
		for _, fault := range m.faults {
			t.Error(fault)
		}
		t.Logf("the daemons were looked at %d times; highest serial numbers: %v", m.samples, m.highest)
	})
}

// once records a fault unless the same was recorded before.
func (m *monitor) once(fault string) {
	for _, f := range m.faults {
		if f == fault {
			return
		}
	}
	m.faults = append(m.faults, fault)
}

func (m *monitor) look() {
	m.samples++
	// The kernel lists a listening socket by the path at which it was made until its owner closes it, also
	// when another daemon has removed the path: two lines are two daemons.
	sockets, err := os.ReadFile(m.c.nodes[0].Path("proc/1/net/unix"))
	if err != nil {
		m.once(err.Error())
		return
	}
	for _, name := range []string{"ganeti-query", "ganeti-wconfd"} {
		if n := listening(sockets, "/socket/"+name); n > 1 {
			m.once(fmt.Sprintf("%d daemons listen at %s", n, name))
		}
	}
	if data, err := os.ReadFile(m.c.nodes[0].Path("var/lib/ganeti/queue/serial")); err == nil {
		serial, err := strconv.ParseUint(strings.TrimSpace(string(data)), 10, 64)
		m.rises("queue/serial", serial, err)
	}
	info, err := os.Stat(m.c.nodes[0].Path("var/lib/ganeti/config.data"))
	if err != nil {
		m.once(err.Error())
		return
	}
	if version := fmt.Sprint(info.Size(), info.ModTime()); version != m.config {
		m.config = version
		data, err := os.ReadFile(m.c.nodes[0].Path("var/lib/ganeti/config.data"))
		var document struct {
			Serial uint64 `json:"serial_no"`
		}
		if err == nil {
			err = json.Unmarshal(data, &document)
		}
		m.rises("config.data", document.Serial, err)
	}
}

// rises checks that the serial number of a file does not fall.
func (m *monitor) rises(file string, serial uint64, err error) {
	switch {
	case err != nil:
		m.once(fmt.Sprintf("%s: %v", file, err))
	case serial < m.highest[file]:
		m.once(fmt.Sprintf("%s: the serial number is %d after %d", file, serial, m.highest[file]))
	default:
		m.highest[file] = serial
	}
}

// listening returns the number of listening sockets with a path that has the suffix, in a table of /proc/net/unix.
func listening(table []byte, suffix string) (n int) {
	const accepts = 0x10000 // flag of a listening socket
	for line := range bytes.Lines(table) {
		fields := strings.Fields(string(line))
		if len(fields) < 8 || !strings.HasSuffix(fields[7], suffix) {
			continue
		}
		if flags, err := strconv.ParseUint(fields[3], 16, 32); err == nil && flags&accepts != 0 {
			n++
		}
	}
	return n
}

// watcherPeriod is the time between two starts of the watcher. Cron starts it every five minutes.
const watcherPeriod = time.Second

// watchersMax is the number of watchers that run at a time while daemons are killed. Those that wait for a killed daemon, for
// up to a minute, must not keep the next one from starting that daemon.
const watchersMax = 8

// watcher starts ganeti-watcher every second, when the former one has ended. What it prints and a status that is not 0 are errors
// of the test, except while it tolerates: a watcher that looks for a daemon in the moment of its death fails. Then several run at
// a time.
type watcher struct {
	stop func() // waits for the last one

	c     *cluster
	done  sync.WaitGroup
	slots chan struct{}

	mu        sync.Mutex
	tolerates bool
	tolerated sync.WaitGroup // the runs that began meanwhile
	runs      int
	failures  []string
}

func (c *cluster) runWatcher(t *testing.T) *watcher {
	w := &watcher{c: c, slots: make(chan struct{}, watchersMax)}
	end := make(chan struct{})
	w.done.Go(func() {
		for ticker := time.NewTicker(watcherPeriod); ; {
			select {
			case <-end:
				return
			case <-ticker.C:
				w.start()
			}
		}
	})
	w.stop = sync.OnceFunc(func() {
		close(end)
		w.done.Wait()
		for _, failure := range w.failures {
			t.Error("ganeti-watcher: " + failure)
		}
		t.Logf("ganeti-watcher ran %d times", w.runs)
	})
	return w
}

// tolerate begins a time in which watchers may fail. end waits for those that began in it.
func (w *watcher) tolerate() (end func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tolerates = true
	return func() {
		w.mu.Lock()
		w.tolerates = false
		w.mu.Unlock()
		w.tolerated.Wait()
	}
}

func (w *watcher) start() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.slots) == watchersMax || len(w.slots) > 0 && !w.tolerates {
		return
	}
	w.slots <- struct{}{}
	if w.tolerates {
		w.tolerated.Add(1)
	}
	tolerated := w.tolerates
	w.done.Go(func() { w.run(tolerated) })
}

func (w *watcher) run(tolerated bool) {
	started := time.Now()
	out, status := w.c.run(0, "ganeti-watcher")
	<-w.slots
	w.mu.Lock()
	defer w.mu.Unlock()
	w.runs++
	if tolerated {
		w.tolerated.Done()
	}
	if (status != 0 || strings.TrimSpace(out) != "") && !tolerated && !w.tolerates {
		w.failures = append(w.failures, fmt.Sprintf("%s to %s: status %d: %s", started.Format(time.TimeOnly), time.Now().Format(time.TimeOnly), status, out))
	}
}

package monitor

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Window is the time over which loads are averages (mond.md 4).
const Window = 600 * time.Second

// samplesMax bounds a history, whatever the interval is.
const samplesMax = 1024

// history are the readings within Window, oldest first.
type history[T any] struct{ samples []sample[T] }

type sample[T any] struct {
	at    time.Time
	value T
}

// add adds a reading and drops those that have left the window. After the clock was set back, it starts again.
func (h *history[T]) add(now time.Time, value T) {
	if n := len(h.samples); n > 0 && !now.After(h.samples[n-1].at) {
		h.samples = nil
	}
	h.samples = append(h.samples, sample[T]{now, value})
	first := slices.IndexFunc(h.samples, func(s sample[T]) bool { return now.Sub(s.at) <= Window })
	h.samples = slices.Delete(h.samples, 0, max(first, len(h.samples)-samplesMax))
}

// span returns the oldest and the newest reading, and the seconds between them; 0: there are fewer than two.
func (h *history[T]) span() (oldest, newest T, seconds float64) {
	if len(h.samples) < 2 {
		return oldest, newest, 0
	}
	a, b := h.samples[0], h.samples[len(h.samples)-1]
	return a.value, b.value, b.at.Sub(a.at).Seconds()
}

// clockTicks is the number of ticks of /proc/stat in a second. Linux shows it as 100 to programs on all its platforms.
const clockTicks = 100

// CPU computes average loads of the processors, from the history of /proc/stat.
type CPU struct{ history[map[string]uint64] }

// cpuReport is the data of cpu-avg-load. Ganeti's hbal ignores the report of all nodes if it has another key.
type cpuReport struct {
	Number int       `json:"cpu_number"`
	CPUs   []float64 `json:"cpus"`
	Total  float64   `json:"cpu_total"`
}

//nolint:staticcheck // Ganeti's text
var errTooFewSamples = fmt.Errorf("Time covered by data is not sufficient. The window considered is %d", int(Window.Seconds()))

// Add adds a reading of /proc/stat, taken now, to the history. The error says that the text has another form; then nothing is added.
func (c *CPU) Add(now time.Time, text []byte) error {
	times := map[string]uint64{}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) == 0 || !strings.HasPrefix(fields[0], "cpu") {
			continue
		}
		t, err := parseCPULine(fields[1:])
		if err != nil {
			return fmt.Errorf("/proc/stat, %s: %w", fields[0], err)
		}
		times[fields[0]] = t
	}
	if _, found := times["cpu"]; !found {
		return errors.New("/proc/stat has no line of all processors")
	}
	c.add(now, times)
	return nil
}

// parseCPULine adds user, nice, system, iowait, irq, softirq and steal. The time of guests is in user and nice already. Old
// kernels have fewer columns.
func parseCPULine(columns []string) (load uint64, err error) {
	const idle, steal = 3, 7
	if len(columns) <= idle {
		return 0, fmt.Errorf("%d columns instead of at least %d", len(columns), idle+1)
	}
	for i, column := range columns[:min(len(columns), steal+1)] {
		ticks, err := strconv.ParseUint(column, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%q is not a number", column)
		}
		if i != idle {
			load += ticks
		}
	}
	return load, nil
}

// Data returns the average load of each processor over the history. Processors that are not in both the first and the last reading are
// left out.
func (c *CPU) Data() (Data, error) {
	oldest, newest, seconds := c.span()
	if seconds <= 0 {
		return Data{}, errTooFewSamples
	}
	load := func(from, to uint64) float64 {
		if to < from {
			return 0 // some counters of the kernel fall
		}
		return float64(to-from) / (seconds * clockTicks)
	}
	r := cpuReport{CPUs: []float64{}, Total: load(oldest["cpu"], newest["cpu"])}
	for i := 0; i < len(newest)+len(oldest); i++ {
		name := "cpu" + strconv.Itoa(i)
		was, before := oldest[name]
		is, now := newest[name]
		if before && now {
			r.CPUs = append(r.CPUs, load(was, is))
		}
	}
	r.Number = len(r.CPUs)
	return Data{Full: r}, nil
}

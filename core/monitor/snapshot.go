package monitor

import (
	"time"
)

// Snapshot is what MonD serves until the next one: the reports, and the values of lockstep's own collectors for Prometheus. It never
// changes.
type Snapshot struct {
	Taken   time.Time
	Reports []*Report // of the active collectors, in the order of the listing
	Listing []byte    // the answer to /1/list/collectors
	// Values of own collectors; nil: inactive, or nothing is known yet. The reports in Reports have the same values.
	Queue       *QueueReport
	Locks       *LockReport
	Replication *ReplicationReport
	Processes   *ProcessReport
	Daemon      *DaemonReport
	Config      *ConfigReport
	// Ready: the configuration is loaded, and a leader is known.
	Ready bool
}

// Report returns the report of an active collector by its name; nil: there is none.
func (s *Snapshot) Report(name string) *Report {
	for _, r := range s.Reports {
		if r.Collector.Name == name {
			return r
		}
	}
	return nil
}

// EncodeListing returns the answer to /1/list/collectors.
func EncodeListing(reports []*Report) []byte {
	rows := [][3]any{}
	for _, r := range reports {
		rows = append(rows, [3]any{r.Collector.Name, r.Collector.PathCategory(), r.Collector.Kind})
	}
	return encode(rows)
}

// AppendAll appends the answer to /1/report/all for a client with or without a login.
func (s *Snapshot) AppendAll(b []byte, login bool) []byte {
	size := 2
	for _, r := range s.Reports {
		size += len(r.For(login)) + 1
	}
	if cap(b)-len(b) < size {
		b = append(make([]byte, 0, len(b)+size), b...)
	}
	b = append(b, '[')
	for i, r := range s.Reports {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, r.For(login)...)
	}
	return append(b, ']')
}

package monitor

import (
	"time"

	"lockstep/core/config/model"
)

// Process is a job process of this node.
type Process struct {
	Job   int64
	PID   int
	RSS   int64   // bytes
	CPU   float64 // seconds that it has used
	Since float64 // its start, in seconds since 1970
}

// ProcessReport is what the collector "processes" reports: the job processes of this node.
type ProcessReport struct {
	Status Status   `json:"status"`
	Count  int      `json:"count"`
	Jobs   [][5]any `json:"jobs"`    // job, pid, bytes of memory, seconds of processor time, start
	Orphan *int     `json:"orphans"` // processes whose job is not to run; null: another node knows
}

// NewProcessReport returns the report of the processes. isUnfinished reports whether the job of a process may have one; nil:
// that is not known here.
func NewProcessReport(all []Process, isUnfinished func(job int64) bool) ProcessReport {
	r := ProcessReport{Count: len(all), Jobs: [][5]any{}}
	orphans := 0
	for _, p := range all {
		r.Jobs = append(r.Jobs, [5]any{p.Job, p.PID, p.RSS, p.CPU, p.Since})
		if isUnfinished != nil && !isUnfinished(p.Job) {
			orphans++
		}
	}
	if isUnfinished != nil {
		r.Orphan = &orphans
	}
	if orphans > 0 {
		r.Status.worsen(NeedsYou, "%d job processes have no job that is to run", orphans)
	}
	return r
}

// Data encodes the report for clients. The part for clients without a login has neither jobs nor pids.
func (r ProcessReport) Data() Data {
	public := r
	public.Jobs = [][5]any{}
	return Data{Full: r, Public: public, Code: r.Status.Code}
}

// Usage is one reading of the resources that the daemon's process has used.
type Usage struct {
	Memory     int64         // bytes
	CPU        time.Duration // processor time since the start of the process
	Goroutines int
	Restarts   int64 // of actors since the start
}

// DaemonReport is what the collector "lockstepd" reports: the resources and the age of the daemon.
type DaemonReport struct {
	Status     Status   `json:"status"`
	Memory     int64    `json:"memory"`
	SizeUnit   string   `json:"size_unit"`
	Uptime     float64  `json:"uptime"`      // seconds
	CPUPercent *float64 `json:"cpu_percent"` // of one processor, since the reading before; null: there is none
	Version    string   `json:"version"`
	Goroutines int      `json:"goroutines"`
	Restarts   int64    `json:"restarts"` // of actors, since the start
}

// Daemon makes reports about the daemon's process from successive readings.
type Daemon struct {
	Version  string
	Started  time.Time
	Restarts int64 // of actors
	last     sample[time.Duration]
}

// Report takes a reading of the daemon's process and returns the report about it, with the use of a processor since the reading before.
func (d *Daemon) Report(now time.Time, u Usage) DaemonReport {
	r := DaemonReport{
		Memory:     u.Memory,
		SizeUnit:   "bytes",
		Uptime:     seconds(now, d.Started),
		Version:    d.Version,
		Goroutines: u.Goroutines,
		Restarts:   d.Restarts,
	}
	if passed := now.Sub(d.last.at); !d.last.at.IsZero() && passed > 0 {
		percent := max(0, 100*float64(u.CPU-d.last.value)/float64(passed))
		r.CPUPercent = &percent
	}
	d.last = sample[time.Duration]{now, u.CPU}
	return r
}

// Data encodes the report for clients, with or without a login.
func (r DaemonReport) Data() Data { return Data{Full: r, Code: r.Status.Code} }

// ConfigReport is what the collector "config" reports: the serial number of the configuration on this node, and which ssconf files are
// older. The numbers are null while the configuration is not readable.
type ConfigReport struct {
	Status        Status   `json:"status"`
	Serial        *int64   `json:"serial"`
	ClusterSerial *int64   `json:"cluster_serial"`
	MTime         *float64 `json:"mtime"` // seconds since 1970
	Readable      bool     `json:"readable"`
	SsconfBehind  []string `json:"ssconf_behind"` // names of files that are older than the configuration
	Behind        int      `json:"ssconf_behind_count"`
}

// NewConfigReport returns the report of the configuration. c is nil if it cannot be read, for the reason failure, or is not
// here. behind are the names of ssconf files that are older.
func NewConfigReport(c *model.Config, failure string, behind []string) ConfigReport {
	r := ConfigReport{SsconfBehind: append([]string{}, behind...), Behind: len(behind)}
	switch {
	case c != nil:
		cluster, mtime := c.Cluster.Value.Serial, float64(c.MTime)
		r.Serial, r.ClusterSerial, r.MTime, r.Readable = &c.Serial, &cluster, &mtime, true
	case failure != "":
		r.Status.worsen(NeedsYou, "the configuration cannot be read")
	default:
		r.Status.worsen(Unknown, "this node has not read its configuration yet")
	}
	return r
}

// Data encodes the report for clients. The part for clients without a login names no files.
func (r ConfigReport) Data() Data {
	public := r
	public.SsconfBehind = []string{}
	return Data{Full: r, Public: public, Code: r.Status.Code}
}

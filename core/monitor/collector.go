package monitor

import (
	"slices"
	"time"
)

// Collector describes one collector of MonD: its name, category and kind, and when it can report (mond.md 4 and 7).
type Collector struct {
	Name     string
	Category string // "": none; the listing and paths say "default"
	Kind     Kind
	// Own collectors are lockstep's: without a login they show counts and states only.
	Own bool
	// Sampled collectors compute their report from a history of readings.
	Sampled bool
	// NeedsXen: the collector is inactive unless the cluster has a Xen hypervisor.
	NeedsXen bool
}

// Names of collectors.
const (
	CPULoad     = "cpu-avg-load"
	XenCPULoad  = "xen-cpu-avg-load"
	DiskStats   = "diskstats"
	DRBD        = "drbd"
	InstStatus  = "inst-status-xen"
	LV          = "lv"
	QueueName   = "queue"
	LocksName   = "locks"
	Replication = "replication"
	Processes   = "processes"
	Lockstepd   = "lockstepd"
	ConfigName  = "config"
)

const daemonCategory = "daemon"

// collectors are all collectors in the order of the listing.
var collectors = []Collector{
	{Name: CPULoad, Sampled: true},
	{Name: XenCPULoad, Sampled: true, NeedsXen: true},
	{Name: DiskStats, Category: "storage"},
	{Name: DRBD, Category: "storage", Kind: State},
	{Name: InstStatus, Category: "instance", Kind: State, NeedsXen: true},
	{Name: LV, Category: "storage"},
	{Name: QueueName, Category: daemonCategory, Kind: State, Own: true},
	{Name: LocksName, Category: daemonCategory, Kind: State, Own: true},
	{Name: Replication, Category: daemonCategory, Kind: State, Own: true},
	{Name: Processes, Category: daemonCategory, Kind: State, Own: true},
	{Name: Lockstepd, Category: daemonCategory, Kind: State, Own: true},
	{Name: ConfigName, Category: daemonCategory, Kind: State, Own: true},
}

// Collectors returns all collectors in the order of the listing.
func Collectors() []Collector { return slices.Clone(collectors) }

// noCategory stands for no category in paths and in the listing.
const noCategory = "default"

// PathCategory is the category in paths and in the listing.
func (c Collector) PathCategory() string {
	if c.Category == "" {
		return noCategory
	}
	return c.Category
}

// Setting is what the cluster's configuration says of a collector: whether it is active, and how often it gathers.
type Setting struct {
	Active   bool
	Interval time.Duration // between two gatherings
}

// Bounds and default of intervals.
const (
	IntervalDefault = 5 * time.Second
	intervalMin     = time.Second
	intervalMax     = 24 * time.Hour
)

// interval returns the interval for a number of microseconds in the configuration.
func interval(us int64) time.Duration {
	us = min(max(us, intervalMin.Microseconds()), intervalMax.Microseconds())
	return time.Duration(us) * time.Microsecond
}

// GatherTimeout is how long a collector may gather before its report says that it does not answer. The gathering is not
// repeated before it has ended.
const GatherTimeout = 10 * time.Second

package monitor

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

func compareNames(a, b Instance) int { return cmp.Compare(a.Name, b.Name) }

// xenReport is the data of inst-status-xen.
type xenReport struct {
	Instances []xenInstance `json:"instances"`
	Status    Status        `json:"status"`
}

type xenInstance struct {
	Name       string            `json:"name"`
	UUID       string            `json:"uuid"`
	AdminState string            `json:"admin_state"`
	Actual     string            `json:"actual_state"`
	Uptime     *string           `json:"uptime"` // null: unknown
	MTime      float64           `json:"mtime"`
	Reasons    []json.RawMessage `json:"state_reason"`
	Status     Status            `json:"status"`
}

// XenReading is what was read about Xen's domains on this node: the outputs of "xl list" and "xl uptime", and by instance the contents of
// the files in which Ganeti leaves the reason of the instance's state.
type XenReading struct {
	List    []byte
	Uptimes []byte
	Reasons map[string][]byte
}

// States of domains.
const (
	domainRunning = "running"
	domainBlocked = "blocked"
	domainHung    = "hung"
	domainAbsent  = "shutdown" // there is no domain
)

// XenData compares the domains with what the configuration wants of the instances whose primary node this is. Without facts the report
// has no instances and the code Unknown.
func XenData(r XenReading, f *Facts) (Data, error) {
	domains, err := parseDomains(r.List)
	if err != nil {
		return Data{}, err
	}
	uptimes := parseUptimes(r.Uptimes)
	report := xenReport{Instances: []xenInstance{}}
	if f == nil {
		report.Status = Status{Unknown, "the configuration is not known yet"}
		return Data{Full: report, Code: Unknown}, nil
	}
	for _, i := range f.Instances {
		actual, found := domains[i.Name]
		if !found {
			actual = domainAbsent
		}
		x := xenInstance{Name: i.Name, UUID: i.UUID, AdminState: i.AdminState, Actual: actual, MTime: i.MTime, Reasons: []json.RawMessage{},
			Status: domainStatus(i.AdminState, actual)}
		if uptime, known := uptimes[i.Name]; known {
			x.Uptime = &uptime
		}
		var reasons []json.RawMessage
		if json.Unmarshal(r.Reasons[i.Name], &reasons) == nil && reasons != nil {
			x.Reasons = reasons
		}
		if x.Status.Code != Fine {
			report.Status.worsen(x.Status.Code, "%s: %s", i.Name, x.Status.Message)
		}
		report.Instances = append(report.Instances, x)
	}
	return Data{Full: report, Code: report.Status.Code}, nil
}

// domainStatus compares the state of a domain with the wanted one (mond.md 4).
func domainStatus(wanted, actual string) Status {
	lives := actual == domainRunning || actual == domainBlocked
	switch {
	case wanted == "offline":
		return Status{Unknown, "The instance is marked as offline"}
	case actual == domainHung:
		return Status{Unknown, "The instance is hung"}
	case wanted == "up" && !lives:
		return Status{NeedsYou, "The instance is not running: its state is " + actual}
	case wanted == "down" && lives:
		return Status{NeedsYou, "The instance is running, and should be stopped"}
	}
	return Status{}
}

// parseDomains reads "xl list": a head, then name, id, memory, processors, state and seconds. A state has letters at fixed
// places. A domain that is ready to run has none of them.
func parseDomains(text []byte) (map[string]string, error) {
	letters := map[rune]string{'r': domainRunning, 'b': domainBlocked, 'p': "paused", 's': "shutdown", 'c': "crashed", 'd': "dying"}
	states := map[string]string{}
	number := 0
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if number++; len(fields) == 0 || fields[0] == "Name" {
			continue
		}
		if len(fields) < 6 {
			return nil, fmt.Errorf("list of domains, line %d: %d columns", number, len(fields))
		}
		state := fields[len(fields)-2]
		states[fields[0]] = domainRunning
		for _, letter := range state {
			switch name, known := letters[letter]; {
			case known:
				states[fields[0]] = name
			case letter != '-':
				states[fields[0]] = domainHung
			}
		}
	}
	return states, nil
}

// parseUptimes reads "xl uptime": a head, then name, id, and the uptime as one or more words.
func parseUptimes(text []byte) map[string]string {
	uptimes := map[string]string{}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) >= 3 && fields[0] != "Name" {
			uptimes[fields[0]] = strings.Join(fields[2:], " ")
		}
	}
	return uptimes
}

// XenCPU computes how many processors each domain has used, from the history of xentop.
type XenCPU struct{ history[map[string]float64] }

// xenSpanMin is the least time that the readings must cover (mond.md 4).
const xenSpanMin = 100 * time.Second

// Add adds an output of "xentop -f -b -i 1", taken now, to the history. After an error nothing is added.
func (c *XenCPU) Add(now time.Time, text []byte) error {
	domains := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		// A line has name, state and seconds; "no limit" is two words, but later in the line.
		fields := strings.Fields(line)
		if len(fields) < 3 || fields[0] == "NAME" {
			continue
		}
		seconds, err := strconv.ParseFloat(fields[2], 64)
		if err != nil {
			return fmt.Errorf("xentop: %q is not a number of seconds", fields[2])
		}
		domains[fields[0]] = seconds
	}
	c.add(now, domains)
	return nil
}

// Data returns the processors that each domain has used on average, for domains in both readings.
func (c *XenCPU) Data() Data {
	loads := map[string]float64{}
	oldest, newest, seconds := c.span()
	if seconds >= xenSpanMin.Seconds() {
		for name, used := range newest {
			if before, known := oldest[name]; known {
				loads[name] = max(0, used-before) / seconds
			}
		}
	}
	return Data{Full: loads}
}

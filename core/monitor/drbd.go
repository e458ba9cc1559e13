package monitor

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// drbdVersion is the head of /proc/drbd; parts that the file does not have are left out.
type drbdVersion struct {
	Version    string `json:"version,omitempty"`
	API        string `json:"api,omitempty"`
	Proto      string `json:"proto,omitempty"`
	SrcVersion string `json:"srcversion,omitempty"`
	GitHash    string `json:"gitHash,omitempty"`
	BuildBy    string `json:"buildBy,omitempty"`
}

// drbdReport is the data of drbd.
type drbdReport struct {
	Status  Status       `json:"status"`
	Version drbdVersion  `json:"versionInfo"`
	Devices []drbdDevice `json:"deviceInfos"`
}

// drbdDevice is one device. drbdDetails are nil for an unconfigured one.
type drbdDevice struct {
	Minor      int64  `json:"minor"`
	Connection string `json:"connectionState"`
	*drbdDetails
}

type drbdDetails struct {
	LocalRole   string        `json:"localRole"`
	RemoteRole  string        `json:"remoteRole"`
	LocalState  string        `json:"localState"`
	RemoteState string        `json:"remoteState"`
	Protocol    string        `json:"replicationProtocol"` // " ": none
	Flags       string        `json:"ioFlags"`
	Indicators  drbdCounters  `json:"perfIndicators"`
	Sync        *drbdProgress `json:"syncStatus,omitempty"`
	Instance    *string       `json:"instance"` // null: no instance uses the device
}

// drbdCounters are the counters of a device. Old versions lack the last three.
type drbdCounters struct {
	NetworkSend        int64  `json:"networkSend"`
	NetworkReceive     int64  `json:"networkReceive"`
	DiskWrite          int64  `json:"diskWrite"`
	DiskRead           int64  `json:"diskRead"`
	ActivityLog        int64  `json:"activityLog"`
	BitMap             int64  `json:"bitMap"`
	LocalCount         int64  `json:"localCount"`
	Pending            int64  `json:"pending"`
	Unacknowledged     int64  `json:"unacknowledged"`
	ApplicationPending int64  `json:"applicationPending"`
	Epochs             *int64 `json:"epochs,omitempty"`
	WriteOrder         string `json:"writeOrder,omitempty"`
	OutOfSync          *int64 `json:"outOfSync,omitempty"`
}

// drbdProgress is the progress of a resynchronisation. Speeds are in SpeedUnit, TimeToFinish is hours:minutes:seconds.
type drbdProgress struct {
	Percentage   float64 `json:"percentage"`
	Progress     string  `json:"progress"`
	ProgressUnit string  `json:"progressUnit"`
	TimeToFinish string  `json:"timeToFinish"`
	Speed        int64   `json:"speed"`
	Want         *int64  `json:"want,omitempty"`
	SpeedUnit    string  `json:"speedUnit"`
}

// unconfigured is the connection state of a device without a configuration.
const unconfigured = "Unconfigured"

// errDRBD9 is why the versions from 9 have no report: they have no such /proc/drbd.
var errDRBD9 = errors.New("DRBD 9 is not supported")

// DRBDData converts the text of /proc/drbd into the data of the collector drbd (mond.md 5). f says which instances have the minors.
func DRBDData(text []byte, f *Facts) (Data, error) {
	report := drbdReport{Devices: []drbdDevice{}}
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		if err := report.addLine(line); err != nil {
			return Data{}, fmt.Errorf("/proc/drbd, line %d: %w", number, err)
		}
	}
	major, _, _ := strings.Cut(report.Version.Version, ".")
	switch n, err := strconv.Atoi(major); {
	case err != nil:
		return Data{}, errors.New("/proc/drbd names no version")
	case n >= 9:
		return Data{}, errDRBD9
	}
	for i := range report.Devices {
		d := &report.Devices[i]
		if d.drbdDetails != nil && f != nil {
			if instance, used := f.Minors[d.Minor]; used {
				d.Instance = &instance
			}
		}
	}
	report.Status = drbdStatus(report.Devices)
	return Data{Full: report, Code: report.Status.Code}, nil
}

// drbdStates are the connection states that are not fine.
var drbdStates = map[string]Status{
	"StandAlone":     {NeedsYou, "No network config available"},
	"Disconnecting":  {NeedsYou, "The connection to the peer is being closed"},
	"TearDown":       {NeedsYou, "The peer closes the connection"},
	"Unconnected":    {Repairs, "Trying to establish a network connection"},
	"Timeout":        {Repairs, "Communication with the peer has timed out"},
	"BrokenPipe":     {Repairs, "Communication with the peer is broken"},
	"NetworkFailure": {Repairs, "Communication with the peer is broken"},
	"ProtocolError":  {Repairs, "Communication with the peer is broken"},
	"WFConnection":   {Repairs, "Trying to establish a network connection"},
	"WFReportParams": {Repairs, "Waiting for the parameters of the peer"},
}

// drbdStatus puts the states of the devices together as Ganeti does: the last device first, after an empty line.
func drbdStatus(devices []drbdDevice) Status {
	var s Status
	for i := len(devices) - 1; i >= 0; i-- {
		if state, bad := drbdStates[devices[i].Connection]; bad {
			s.Code = max(s.Code, state.Code)
			s.Message += fmt.Sprintf("\n%d: %s", devices[i].Minor, state.Message)
		}
	}
	return s
}

// addLine adds a line of /proc/drbd. A line about a device belongs to the last one. Lines that say nothing for the report are ignored.
func (r *drbdReport) addLine(line string) error {
	fields := strings.Fields(line)
	if len(fields) == 0 {
		return nil
	}
	if minor, isDevice := strings.CutSuffix(fields[0], ":"); isDevice && minor != "" && strings.Trim(minor, "0123456789") == "" {
		return r.addDevice(minor, fields[1:])
	}
	switch fields[0] {
	case "version:":
		return r.Version.addVersion(fields[1:])
	case "srcversion:":
		if len(fields) > 1 {
			r.Version.SrcVersion = fields[1]
		}
		return nil
	case "GIT-hash:":
		rest := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "GIT-hash:"))
		r.Version.GitHash, r.Version.BuildBy, _ = strings.Cut(rest, " build by ")
		return nil
	}
	if len(r.Devices) == 0 || r.Devices[len(r.Devices)-1].drbdDetails == nil {
		return nil
	}
	device := r.Devices[len(r.Devices)-1].drbdDetails
	switch {
	case strings.HasPrefix(fields[0], "ns:"):
		return device.Indicators.add(fields)
	case strings.Contains(line, "sync'ed:"):
		return device.addProgress(fields)
	case fields[0] == "finish:":
		return device.addFinish(fields)
	}
	return nil
}

// addVersion reads the version of the module: "8.4.2 (api:1/proto:86-101)". Later versions may lack the second part.
func (v *drbdVersion) addVersion(fields []string) error {
	if len(fields) == 0 {
		return errors.New("the version is missing")
	}
	v.Version = fields[0]
	if len(fields) > 1 {
		for part := range strings.SplitSeq(strings.Trim(fields[1], "()"), "/") {
			if api, is := strings.CutPrefix(part, "api:"); is {
				v.API = api
			}
			if proto, is := strings.CutPrefix(part, "proto:"); is {
				v.Proto = proto
			}
		}
	}
	return nil
}

// addDevice reads "cs:Connected ro:Primary/Secondary ds:UpToDate/UpToDate C r---". Versions before 8.3 have st for ro.
func (r *drbdReport) addDevice(minor string, fields []string) error {
	number, err := strconv.ParseInt(minor, 10, 64)
	if err != nil {
		return fmt.Errorf("minor %q: %w", minor, err)
	}
	if len(fields) == 0 || !strings.HasPrefix(fields[0], "cs:") {
		return errors.New("the device has no connection state")
	}
	device := drbdDevice{Minor: number, Connection: strings.TrimPrefix(fields[0], "cs:")}
	if device.Connection == unconfigured {
		r.Devices = append(r.Devices, device)
		return nil
	}
	if len(fields) < 4 {
		return fmt.Errorf("a device with %d fields", len(fields)+1)
	}
	d := &drbdDetails{Protocol: " ", Flags: fields[len(fields)-1]}
	_, roles, _ := strings.Cut(fields[1], ":")
	d.LocalRole, d.RemoteRole, _ = strings.Cut(roles, "/")
	_, states, _ := strings.Cut(fields[2], ":")
	d.LocalState, d.RemoteState, _ = strings.Cut(states, "/")
	if len(fields) > 4 {
		d.Protocol = fields[3]
	}
	device.drbdDetails = d
	r.Devices = append(r.Devices, device)
	return nil
}

// add reads the counters of a device: "ns:0 nr:0 dw:33318 … wo:d oos:1048320". Unknown ones are ignored.
func (c *drbdCounters) add(fields []string) error {
	known := map[string]*int64{
		"ns": &c.NetworkSend,
		"nr": &c.NetworkReceive,
		"dw": &c.DiskWrite,
		"dr": &c.DiskRead,
		"al": &c.ActivityLog,
		"bm": &c.BitMap,
		"lo": &c.LocalCount,
		"pe": &c.Pending,
		"ua": &c.Unacknowledged,
		"ap": &c.ApplicationPending,
	}
	for _, field := range fields {
		key, text, _ := strings.Cut(field, ":")
		if key == "wo" {
			c.WriteOrder = text
			continue
		}
		to := known[key]
		switch key {
		case "ep":
			c.Epochs = new(int64)
			to = c.Epochs
		case "oos":
			c.OutOfSync = new(int64)
			to = c.OutOfSync
		}
		if to == nil {
			continue // of a later version
		}
		value, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return fmt.Errorf("counter %q is not a number", field)
		}
		*to = value
	}
	return nil
}

// units are the units of sizes by the letter of the kernel.
var units = map[string]string{"K": "KiloByte", "M": "MegaByte", "G": "GigaByte"}

// addProgress reads "[==>...] sync'ed: 68.5% (335744/1048576)K".
func (d *drbdDetails) addProgress(fields []string) error {
	p := &drbdProgress{ProgressUnit: units["K"], SpeedUnit: units["K"] + "/Second"}
	for i, field := range fields {
		switch {
		case strings.HasPrefix(field, "sync'ed:") && i+1 < len(fields):
			percentage, err := strconv.ParseFloat(strings.TrimSuffix(fields[i+1], "%"), 64)
			if err != nil {
				return fmt.Errorf("progress %q is not a number", fields[i+1])
			}
			p.Percentage = percentage
		case strings.HasPrefix(field, "("):
			progress, unit, closed := strings.Cut(field[1:], ")")
			if !closed {
				return fmt.Errorf("progress %q has no end", field)
			}
			p.Progress = progress
			if name := units[unit]; name != "" {
				p.ProgressUnit = name
			}
		}
	}
	d.Sync = p
	return nil
}

// addFinish reads "finish: 0:00:05 speed: 64,800 (64,800) want: 250 K/sec".
func (d *drbdDetails) addFinish(fields []string) error {
	if d.Sync == nil {
		return nil
	}
	number := func(text string) (int64, error) {
		n, err := strconv.ParseInt(strings.ReplaceAll(text, ",", ""), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("speed %q is not a number", text)
		}
		return n, nil
	}
	for i := 0; i+1 < len(fields); i++ {
		var err error
		switch fields[i] {
		case "finish:":
			d.Sync.TimeToFinish = fields[i+1]
			if hours, _, found := strings.Cut(fields[i+1], ":"); found && len(hours) == 1 {
				d.Sync.TimeToFinish = "0" + d.Sync.TimeToFinish
			}
		case "speed:":
			d.Sync.Speed, err = number(fields[i+1])
		case "want:":
			var want int64
			want, err = number(fields[i+1])
			d.Sync.Want = &want
		}
		if err != nil {
			return err
		}
	}
	if unit, is := strings.CutSuffix(fields[len(fields)-1], "/sec"); is && units[unit] != "" {
		d.Sync.SpeedUnit = units[unit] + "/Second"
	}
	return nil
}

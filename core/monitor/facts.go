package monitor

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"lockstep/core/config/model"
)

// Facts are the part of the configuration that the collectors of one node need. A node with a copy computes them (FactsOf), another one
// gets them from the ConfDs of the candidates (FactsFrom). They never change.
type Facts struct {
	Serial   int64              // of the configuration
	Settings map[string]Setting // by collector; a collector without one has the default
	Xen      bool               // a Xen hypervisor is enabled; from FactsFrom: an instance uses one
	// Minors are the instances of the DRBD minors of this node.
	Minors map[int64]string
	// Instances are those whose primary node this is, by name.
	Instances []Instance
	// Volumes are the instances of logical volumes on this node, by "group/volume".
	Volumes map[string]string
}

// Instance is an instance of this node.
type Instance struct {
	Name       string
	UUID       string
	AdminState string  // up, down or offline
	MTime      float64 // seconds since 1970
}

// SettingOf returns the setting of a collector; without facts or a setting it is active at the default interval.
func (f *Facts) SettingOf(c Collector) Setting {
	if f != nil {
		if s, known := f.Settings[c.Name]; known {
			return s
		}
	}
	return Setting{Active: true, Interval: IntervalDefault}
}

// HasXen reports whether the collectors of Xen have work: whether a Xen hypervisor is enabled in the cluster or, if the facts come from
// a ConfD, whether an instance of the node uses Xen. Without facts neither is known. HasXen is then true, and the collectors of Xen
// depend on their programs alone (mond.md 5).
func (f *Facts) HasXen() bool { return f == nil || f.Xen }

// FactsOf computes the facts of a node from the configuration. A node that the configuration does not know has only the settings and the
// facts of Xen. Its cost grows with the instances of the node only.
func FactsOf(c *model.Config, node string) *Facts {
	cluster := &c.Cluster.Value
	f := &Facts{Serial: c.Serial, Settings: map[string]Setting{}, Minors: map[int64]string{}, Volumes: map[string]string{}}
	for _, e := range cluster.DataCollectors {
		f.Settings[e.Key] = Setting{Active: e.Value.Active, Interval: interval(e.Value.Interval)}
	}
	f.Xen = slices.ContainsFunc(cluster.EnabledHypervisors, isXen)
	uuid, found := model.Nodes.ByName(c, node)
	if !found {
		return f
	}
	for id := range c.Primaries(uuid) {
		if i, found := c.Instances.Get(id); found {
			f.addInstance(c, &i.Value)
		}
	}
	for id := range c.DRBDDisks(uuid) {
		f.addMirrored(c, id, uuid)
	}
	slices.SortFunc(f.Instances, compareNames)
	return f
}

// SameFacts reports whether two configurations certainly have the same facts, except the serial number. It compares identities.
func SameFacts(a, b *model.Config) bool {
	return a != nil && b != nil && a.Cluster == b.Cluster && a.Nodes == b.Nodes && a.Instances == b.Instances && a.Disks == b.Disks
}

func isXen(hypervisor string) bool { return hypervisor == "xen-pvm" || hypervisor == "xen-hvm" }

// addInstance adds an instance whose primary node this is, and its volumes. Disks that the configuration lacks are left out.
func (f *Facts) addInstance(c *model.Config, i *model.Instance) {
	f.Instances = append(f.Instances, Instance{Name: i.Name.Value, UUID: i.UUID, AdminState: i.AdminState.Value, MTime: float64(i.MTime)})
	for _, id := range i.Disks {
		if disk, found := c.Disks.Get(id); found {
			f.addDisk(&disk.Value, i.Name.Value, "")
		}
	}
}

// addMirrored adds a disk that DRBD copies between this node and another one.
func (f *Facts) addMirrored(c *model.Config, disk, node string) {
	d, found := c.Disks.Get(disk)
	if !found {
		return
	}
	for user := range c.DiskUsers(disk) {
		if i, found := c.Instances.Get(user); found {
			f.addDisk(&d.Value, i.Value.Name.Value, node)
		}
	}
}

// addDisk adds the volumes of a disk and of its children, and the minors on a node; "": no minors.
func (f *Facts) addDisk(d *model.Disk, instance, node string) {
	id := d.LogicalID.Value
	switch {
	case !d.LogicalID.Set:
	case id.Type == "plain":
		f.Volumes[id.A+"/"+id.B] = instance
	case id.Type == "drbd" && id.A == node:
		f.Minors[id.MinorA] = instance
	case id.Type == "drbd" && id.B == node:
		f.Minors[id.MinorB] = instance
	}
	for i := range d.Children {
		f.addDisk(&d.Children[i], instance, node)
	}
}

// Answers are the answers of one ConfD about a node: the contents of types 7, 8 and 11, and of type 9 for each
// instance of type 8.
type Answers struct {
	Serial     int64
	Minors     json.RawMessage            // type 7: rows [node, minor, instance, disk, role, peer]
	Instances  json.RawMessage            // type 8: [primaries, secondaries], whole objects
	Disks      map[string]json.RawMessage // type 9 by instance: lists of whole disk objects
	Collectors json.RawMessage            // type 11: {name: {active, interval}}
}

// instanceObject are the fields of an instance in an answer.
type instanceObject struct {
	Name       string  `json:"name"`
	UUID       string  `json:"uuid"`
	AdminState string  `json:"admin_state"`
	Hypervisor string  `json:"hypervisor"`
	MTime      float64 `json:"mtime"`
}

// diskObject are the fields of a disk in an answer.
type diskObject struct {
	Type      string            `json:"dev_type"`
	LogicalID []json.RawMessage `json:"logical_id"`
	Children  []diskObject      `json:"children"`
}

// InstanceNames returns the names of the instances in an answer of type 8, for the questions of type 9.
func InstanceNames(answer json.RawMessage) ([]string, error) {
	both, err := decodeInstances(answer)
	var names []string
	for _, list := range both {
		for _, i := range list {
			names = append(names, i.Name)
		}
	}
	return names, err
}

func decodeInstances(answer json.RawMessage) (both [2][]instanceObject, err error) {
	if err := json.Unmarshal(answer, &both); err != nil {
		return both, fmt.Errorf("decode the answer about the instances of the node: %w", err)
	}
	return both, nil
}

// FactsFrom computes facts from the answers of one ConfD. No answer names the hypervisors of the cluster, so those of the
// instances decide about Xen.
func FactsFrom(a Answers) (*Facts, error) {
	f := &Facts{Serial: a.Serial, Settings: map[string]Setting{}, Minors: map[int64]string{}, Volumes: map[string]string{}}
	var stored map[string]struct {
		Active   bool  `json:"active"`
		Interval int64 `json:"interval"`
	}
	if err := json.Unmarshal(a.Collectors, &stored); err != nil {
		return nil, fmt.Errorf("decode the answer about the data collectors: %w", err)
	}
	for name, s := range stored {
		f.Settings[name] = Setting{s.Active, interval(s.Interval)}
	}
	if err := f.addMinors(a.Minors); err != nil {
		return nil, err
	}
	both, err := decodeInstances(a.Instances)
	if err != nil {
		return nil, err
	}
	for _, i := range both[0] {
		f.Instances = append(f.Instances, Instance{i.Name, i.UUID, i.AdminState, i.MTime})
		f.Xen = f.Xen || isXen(i.Hypervisor)
	}
	slices.SortFunc(f.Instances, compareNames)
	for instance, answer := range a.Disks {
		var disks []diskObject
		if err := json.Unmarshal(answer, &disks); err != nil {
			return nil, fmt.Errorf("decode the answer about the disks of an instance: %w", err)
		}
		for _, d := range disks {
			f.addVolumes(d, instance)
		}
	}
	return f, nil
}

func (f *Facts) addMinors(answer json.RawMessage) error {
	var rows [][]any
	if err := json.Unmarshal(answer, &rows); err != nil {
		return fmt.Errorf("decode the answer about the DRBD minors of the node: %w", err)
	}
	for _, row := range rows {
		if len(row) < 3 {
			continue
		}
		minor, isNumber := row[1].(float64)
		instance, isText := row[2].(string)
		if isNumber && isText {
			f.Minors[int64(minor)] = instance
		}
	}
	return nil
}

// volume returns the names of the volume group and the volume of a plain disk. is is false for any other disk.
func (d *diskObject) volume() (group, volume string, is bool) {
	if d.Type != "plain" || len(d.LogicalID) != 2 {
		return "", "", false
	}
	is = json.Unmarshal(d.LogicalID[0], &group) == nil && json.Unmarshal(d.LogicalID[1], &volume) == nil
	return group, volume, is
}

// addVolumes adds the volumes of a disk and its children. A volume of another node does no harm: the name does not occur here.
func (f *Facts) addVolumes(d diskObject, instance string) {
	if group, volume, is := d.volume(); is {
		f.Volumes[group+"/"+volume] = instance
	}
	for _, child := range d.Children {
		f.addVolumes(child, instance)
	}
}

// Reading is what was read on this node for one collector; only the fields of that collector are set.
type Reading struct {
	Taken     time.Time
	Text      []byte            // of a file of the kernel or a program
	Xen       XenReading        // inst-status-xen
	Disk      DiskState         // queue
	Processes []Process         // processes
	Usage     Usage             // lockstepd
	Files     map[string][]byte // config: the ssconf files, by name; empty: there are none
	Term      uint64            // replication: as the log knows it; 0: it does not
	Committed uint64            // replication: index of the last committed entry; 0: unknown
	Err       error             // why the reading has failed
}

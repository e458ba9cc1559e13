package model

import (
	"fmt"
)

// Disk is a disk (config.md 2.6).
type Disk struct {
	Forthcoming bool
	LogicalID   Opt[LogicalID]
	Children    []Disk
	Nodes       []string // uuids
	IVName      string
	Size        Opt[int64] // MiB
	Mode        string
	Name        Opt[string]
	Spindles    Opt[int64]
	Params      Opt[Params]
	Stamp
}

// LogicalID is the type-specific identity of a disk. A and B are: volume group and volume (plain); driver and path (file,
// sharedfile, gluster, blockdev); pool and name (rbd); provider and name (ext); the two nodes (drbd).
type LogicalID struct {
	Type                 string
	A, B                 string
	Port, MinorA, MinorB int64  // of drbd
	Secret               string // of drbd
}

var diskTable = forthcomingTable(func(d *Disk) *bool { return &d.Forthcoming }, []field[Disk]{
	{names: []string{"logical_id", "dev_type"}, decode: decodeLogicalID, append: appendLogicalID},
	{names: []string{"children"}, decode: decodeChildren, append: func(t *table[Disk], dst []byte, d *Disk) []byte {
		return appendField(dst, "children", list(t.codec(false)), d.Children)
	}},
	withDefault("nodes", list(text), nil, func(d *Disk) *[]string { return &d.Nodes }),
	withDefault("iv_name", text, "", func(d *Disk) *string { return &d.IVName }),
	strict("size", integer, func(d *Disk) *Opt[int64] { return &d.Size }),
	withDefault("mode", enum("DiskMode", "ro", "rw"), "rw", func(d *Disk) *string { return &d.Mode }),
	optional("name", text, func(d *Disk) *Opt[string] { return &d.Name }),
	optional("spindles", integer, func(d *Disk) *Opt[int64] { return &d.Spindles }),
	optional("params", params, func(d *Disk) *Opt[Params] { return &d.Params }),
	required("uuid", text, func(d *Disk) *string { return &d.UUID }),
	required("serial_no", integer, func(d *Disk) *int64 { return &d.Serial }),
	withDefault("ctime", moment, 0, func(d *Disk) *Time { return &d.CTime }),
	withDefault("mtime", moment, 0, func(d *Disk) *Time { return &d.MTime }),
})

func decodeChildren(t *table[Disk], d *Disk, raw [][]byte, _ bool) (err error) {
	if raw[0] != nil && !isNull(raw[0]) {
		d.Children, err = decodeField("children", list(t.codec(false)), raw[0])
	}
	return err
}

// forms maps the types with two-part ids to their name in errors and the codec of their first part.
var forms = map[string]struct {
	name   string
	driver codec[string]
}{
	"plain":      {"plain", text},
	"file":       {"file", fileDriver},
	"sharedfile": {"shared file", fileDriver},
	"gluster":    {"shared file", fileDriver},
	"blockdev":   {"blockdev", enum("BlockDriver", "manual")},
	"rbd":        {"rdb", text},
	"ext":        {"extstorage", text},
}

var fileDriver = enum("FileDriver", "loop", "blktap", "blktap2")

// decodeLogicalID decodes logical_id and dev_type. A forthcoming disk can lack both.
func decodeLogicalID(_ *table[Disk], d *Disk, raw [][]byte, lenient bool) error {
	id, kind := raw[0], raw[1]
	if lenient && (id == nil || isNull(id)) {
		return nil
	}
	if id == nil || kind == nil {
		return errAbsent
	}
	of, err := diskTemplate.decode(kind)
	if err != nil {
		return fmt.Errorf("key 'dev_type': %w", err)
	}
	var logical LogicalID
	switch of {
	case "diskless":
		return fmt.Errorf("Retrieved 'diskless' disk.")
	case "drbd":
		logical, err = decodeDRBD(id)
	default:
		form := forms[of]
		var parts [][]byte
		if parts, err = tuple(id, 2, fmt.Errorf("Can't read logical_id for %s type", form.name)); err != nil {
			return err
		}
		logical.A, err = form.driver.decode(parts[0])
		if err == nil {
			logical.B, err = DecodeText(parts[1])
		}
	}
	logical.Type = of
	d.LogicalID = Some(logical)
	return err
}

func decodeDRBD(raw []byte) (l LogicalID, err error) {
	parts, err := tuple(raw, 6, fmt.Errorf("Can't read logical_id for DRBD8 type"))
	if err != nil {
		return l, err
	}
	for i, at := range map[int]*string{0: &l.A, 1: &l.B, 5: &l.Secret} {
		s, bad := DecodeText(parts[i])
		if *at = s; bad != nil {
			err = bad
		}
	}
	for i, at := range map[int]*int64{2: &l.Port, 3: &l.MinorA, 4: &l.MinorB} {
		n, bad := DecodeInt(parts[i])
		if *at = n; bad != nil && err == nil {
			err = bad
		}
	}
	return l, err
}

func appendLogicalID(_ *table[Disk], dst []byte, d *Disk) []byte {
	if !d.LogicalID.Set {
		return dst
	}
	l := d.LogicalID.Value
	dst = AppendText(append(AppendText(append(dst, `"logical_id":[`...), l.A), ','), l.B)
	if l.Type == "drbd" {
		dst = fmt.Appendf(dst, ",%d,%d,%d,", l.Port, l.MinorA, l.MinorB)
		dst = AppendText(dst, l.Secret)
	}
	return append(AppendText(append(dst, `],"dev_type":`...), l.Type), ',')
}

// Each calls do for the disk and all its descendants.
func (d *Disk) Each(do func(*Disk)) {
	do(d)
	for i := range d.Children {
		d.Children[i].Each(do)
	}
}

// LV returns the logical volume of a plain disk as "group/volume"; false for a disk of another kind.
func (d *Disk) LV() (name string, is bool) {
	l := d.LogicalID
	return l.Value.A + "/" + l.Value.B, l.Set && l.Value.Type == "plain"
}

// DRBD returns the logical id of a drbd disk; false for a disk of another kind.
func (d *Disk) DRBD() (l LogicalID, is bool) {
	return d.LogicalID.Value, d.LogicalID.Set && d.LogicalID.Value.Type == "drbd"
}

package sim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"lockstep/core/paths"
	"lockstep/sim/simdisk"
)

// configDoc is a configuration as the checkers read it. They use encoding/json and none of the daemon's code.
type configDoc struct {
	Serial    int64                 `json:"serial_no"`
	Cluster   *docObject            `json:"cluster"`
	Nodes     map[string]*docObject `json:"nodes"`
	Groups    map[string]*docObject `json:"nodegroups"`
	Instances map[string]*docObject `json:"instances"`
	Networks  map[string]*docObject `json:"networks"`
	Disks     map[string]*docObject `json:"disks"`
	raw       []byte
}

// docObject is an object. mark is its tags, which changes set to a text that no other change writes.
type docObject struct {
	Serial       int64    `json:"serial_no"`
	Name         string   `json:"name"`
	Tags         []string `json:"tags"`
	Reservations string   `json:"reservations"` // of a network
	PrimaryNode  string   `json:"primary_node"` // of an instance
	Disks        []string `json:"disks"`        // of an instance
	Size         int64    `json:"size"`         // of a disk
	MasterNode   string   `json:"master_node"`  // of the cluster
	raw          json.RawMessage
}

func (o *docObject) mark() string { return strings.Join(o.Tags, " ") }

// UnmarshalJSON keeps the text too.
func (o *docObject) UnmarshalJSON(raw []byte) error {
	type plain docObject
	o.raw = bytes.Clone(raw)
	return json.Unmarshal(raw, (*plain)(o))
}

func readDoc(raw []byte) (*configDoc, error) {
	d := &configDoc{raw: raw}
	if err := json.Unmarshal(raw, d); err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	return d, nil
}

// docKey identifies an object of a document.
type docKey struct{ kind, uuid string }

// The kinds of objects that checkers follow.
const (
	kindCluster   = "cluster"
	kindNodes     = "nodes"
	kindGroups    = "nodegroups"
	kindInstances = "instances"
	kindDisks     = "disks"
	kindNetworks  = "networks"
)

// containers are the containers by kind.
func (d *configDoc) containers() map[string]map[string]*docObject {
	return map[string]map[string]*docObject{
		kindNodes:     d.Nodes,
		kindGroups:    d.Groups,
		kindInstances: d.Instances,
		kindDisks:     d.Disks,
		kindNetworks:  d.Networks,
	}
}

// objects are all objects that checkers follow.
func (d *configDoc) objects() map[docKey]*docObject {
	all := map[docKey]*docObject{{kindCluster, ""}: d.Cluster}
	for kind, of := range d.containers() {
		for uuid, o := range of {
			all[docKey{kind, uuid}] = o
		}
	}
	return all
}

// edited is a JSON object with other values of some members.
func edited(raw json.RawMessage, values map[string]any) json.RawMessage {
	var members map[string]json.RawMessage
	mustDecode(raw, &members)
	for name, v := range values {
		text, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		members[name] = text
	}
	text, err := json.Marshal(members)
	if err != nil {
		panic(err)
	}
	return text
}

// keptConfig is what the files of the configuration say together.
type keptConfig struct {
	*configDoc
	reserved []byte // tempres.data and its supplement
	owners   map[string]map[string]string
}

// journalLine is a record of config.journal.
type journalLine struct {
	Number   uint64
	From, To struct{ Serial int64 }
	Delta    []json.RawMessage
	Reserved *struct{ File, Extra json.RawMessage }
}

// keptIn reads what the files of the configuration say together, through a function that returns nil for an absent file. The result is
// nil without a configuration.
func keptIn(content func(path string) []byte) (*keptConfig, error) {
	raw := content(paths.ConfigPath)
	if raw == nil {
		return nil, nil
	}
	doc, err := readDoc(raw)
	if err != nil {
		return nil, err
	}
	k := &keptConfig{configDoc: doc, reserved: append(bytes.Clone(content(paths.TempResPath)), content(paths.ConfigExtraPath)...)}
	file := content(paths.TempResPath)
	lines, err := journalLines(content(paths.ConfigJournalPath))
	if err != nil {
		return nil, err
	}
	rest := remaining(lines, doc.Serial)
	for _, l := range rest {
		if err := k.apply(l.Delta); err != nil {
			return nil, fmt.Errorf("record %d: %w", l.Number, err)
		}
	}
	if len(rest) > 0 {
		for _, l := range lines {
			if l.Reserved != nil {
				file, k.reserved = l.Reserved.File, append(bytes.Clone(l.Reserved.File), l.Reserved.Extra...)
			}
		}
	}
	k.owners, err = reservationsIn(file)
	return k, err
}

// journalLines reads the complete lines of a journal, each record once.
func journalLines(content []byte) ([]journalLine, error) {
	const prefix = 11 // checksum and mark
	var lines []journalLine
	for line := range bytes.Lines(content) {
		if len(line) < prefix || !bytes.HasSuffix(line, []byte("\n")) {
			break
		}
		var l journalLine
		if err := json.Unmarshal(line[prefix:], &l); err != nil {
			return nil, fmt.Errorf("a line of the journal: %w", err)
		}
		if n := len(lines); n == 0 || l.Number > lines[n-1].Number {
			lines = append(lines, l)
		}
	}
	return lines, nil
}

// remaining are the records that a configuration with a serial number does not have. A record that it has already does no harm: it
// and the later ones have whole objects.
func remaining(lines []journalLine, serial int64) []journalLine {
	for i, l := range lines {
		if l.From.Serial == serial {
			return lines[i:]
		}
	}
	for i, l := range lines {
		if l.To.Serial == serial {
			return lines[i+1:]
		}
	}
	return nil
}

// apply applies a delta: version, two times, serial number, and the objects that have changed.
func (k *keptConfig) apply(delta []json.RawMessage) error {
	if len(delta) == 0 {
		return nil
	}
	var objects [][3]json.RawMessage
	if err := json.Unmarshal(delta[3], &k.Serial); err != nil {
		return err
	}
	if err := json.Unmarshal(delta[4], &objects); err != nil {
		return err
	}
	of := k.containers()
	for _, change := range objects {
		var kind, uuid string
		var o *docObject
		mustDecode(change[0], &kind)
		mustDecode(change[1], &uuid)
		if err := json.Unmarshal(change[2], &o); err != nil {
			return err
		}
		switch {
		case kind == kindCluster:
			k.Cluster = o
		case of[kind] == nil: // filter rules
		case o == nil:
			delete(of[kind], uuid)
		default:
			of[kind][uuid] = o
		}
	}
	return nil
}

// reservationsIn maps the kinds of reservations to values and their owners, or for DRBD minors to their disks.
func reservationsIn(file []byte) (map[string]map[string]string, error) {
	all := map[string]map[string]string{}
	if len(file) == 0 {
		return all, nil
	}
	var kinds map[string][][2]json.RawMessage
	if err := json.Unmarshal(file, &kinds); err != nil {
		return nil, fmt.Errorf("reservations: %w", err)
	}
	for kind, owned := range kinds {
		all[kind] = map[string]string{}
		for _, pair := range owned {
			if kind == reservedMinor {
				var minors [][2]any
				mustDecode(pair[1], &minors)
				for _, m := range minors {
					all[kind][fmt.Sprintf("%s %v", pair[0], m[0])] = m[1].(string)
				}
				continue
			}
			var owner [3]any
			var values []json.RawMessage
			mustDecode(pair[0], &owner)
			mustDecode(pair[1], &values)
			for _, v := range values {
				all[kind][string(v)] = owner[1].(string)
			}
		}
	}
	return all, nil
}

// The kinds of reservations, as tempres.data names them.
const (
	reservedMinor  = "dRBD"
	reservedMAC    = "mACs"
	reservedSecret = "dRBDSecrets"
	reservedLV     = "lVs"
	reservedIP     = "iPv4s"
)

// keptNow is what the files say as processes see them.
func (w *World) keptNow() (*keptConfig, error) {
	return keptIn(func(path string) []byte { return dataOf(w.disk, path) })
}

// keptSurely is what the files would say after a power loss that takes all that it can. In a cluster it is what is committed.
func (w *World) keptSurely() (*keptConfig, error) {
	if w.oracle != nil {
		return w.keptNow()
	}
	return keptIn(func(path string) []byte { return survivingOf(w.disk, path) })
}

func survivingOf(d *simdisk.Disk, path string) []byte {
	content, _ := d.Surviving(path)
	return content
}

// journalChangesConfig reports whether the last append to the journal changes the configuration, and not only reservations.
func (w *World) journalChangesConfig() bool {
	content := dataOf(w.disk, paths.ConfigJournalPath)
	last := content
	for at := 0; at < len(content); {
		line, _, _ := bytes.Cut(content[at:], []byte("\n"))
		if len(line) > 9 && line[9] == '=' {
			last = content[at:]
		}
		at += len(line) + 1
	}
	return bytes.Contains(last, []byte(`,"delta":`))
}

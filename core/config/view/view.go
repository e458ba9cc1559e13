// Package view answers questions of people about the configuration: parts of it by path, its findings, and the entries of its
// history. The daemon and the offline commands share it. Secrets are redacted in all answers. Pure.
package view

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"lockstep/core/answer"
	"lockstep/core/config/history"
	"lockstep/core/config/model"
	"lockstep/core/config/redact"
	"lockstep/core/config/verify"
	"lockstep/core/rawjson"
)

// Form is the form of containers in answers.
type Form int

// The forms.
const (
	AsJSON  Form = iota // complete
	AsTable             // a row for each object
)

// NotFoundError reports a path without a value.
type NotFoundError struct {
	Path   string // up to the element that does not exist
	Reason string
}

func (e *NotFoundError) Error() string { return e.Path + ": " + e.Reason }

// Show returns the part of a configuration at a path. A path is the name of a top-level field, then for containers the name or
// uuid of an object, then keys and indexes, separated by slashes. "" is the whole configuration.
func Show(c *model.Config, path string, form Form, rules redact.Rules) (answer.ConfigPart, error) {
	part := answer.ConfigPart{Serial: c.Serial, Time: float64(c.MTime)}
	var elements []string
	if path = strings.Trim(path, "/"); path != "" {
		elements = strings.Split(path, "/")
		elements[0] = kindName(elements[0])
	}
	var err error
	switch k, isContainer := containerOf(elements); {
	case len(elements) == 0 && form == AsTable:
		part.Table = overview(c)
	case len(elements) == 0:
		part.Value = rules.Config(c).JSON()
	case isContainer && len(elements) == 1 && form == AsTable:
		part.Table = k.table(c)
	case isContainer && len(elements) == 1:
		part.Value = k.json(c, rules)
	case isContainer:
		var uuid, name string
		if uuid, name, err = k.find(c, elements[1]); err == nil {
			elements[1] = name
			part.Value, err = value(k.object(c, uuid), elements[0], elements[2:], rules)
		}
	case elements[0] == model.Clusters.Name:
		part.Value, err = value(c.Cluster.JSON(), elements[0], elements[1:], rules)
	default:
		part.Value, err = topLevel(c, elements)
	}
	if err != nil {
		return answer.ConfigPart{}, err
	}
	part.Path = strings.Join(elements, "/")
	return part, nil
}

// kindNames are the other names of containers.
var kindNames = map[string]string{
	"node": model.Nodes.Name, "group": model.Groups.Name, "groups": model.Groups.Name, "nodegroup": model.Groups.Name,
	"instance": model.Instances.Name, "network": model.Networks.Name, "disk": model.Disks.Name, "filter": model.Filters.Name,
}

func kindName(name string) string {
	if container, is := kindNames[name]; is {
		return container
	}
	return name
}

func containerOf(path []string) (anyContainer, bool) {
	if len(path) == 0 {
		return anyContainer{}, false
	}
	i := slices.IndexFunc(containers, func(k anyContainer) bool { return k.name == path[0] })
	if i < 0 {
		return anyContainer{}, false
	}
	return containers[i], true
}

// value returns the redacted value at a path of an object of a kind.
func value(object []byte, kind string, path []string, rules redact.Rules) ([]byte, error) {
	raw := object
	for i, element := range path {
		if raw = member(raw, element); raw == nil {
			return nil, &NotFoundError{strings.Join(path[:i+1], "/"), "the object has no such value"}
		}
	}
	return rules.Value(kind, path, raw), nil
}

// member returns the value for a key of an object or for an index of a list; nil if there is none.
func member(raw []byte, element string) []byte {
	if raw[0] != '[' {
		return rawjson.Member(raw, element)
	}
	all := slices.Collect(rawjson.Elements(raw))
	i, err := strconv.Atoi(element)
	if err != nil || i < 0 || i >= len(all) {
		return nil
	}
	return all[i]
}

// topLevel returns a scalar of the configuration.
func topLevel(c *model.Config, path []string) ([]byte, error) {
	switch path[0] {
	case "version":
		return strconv.AppendInt(nil, c.Version, 10), nil
	case "serial_no":
		return strconv.AppendInt(nil, c.Serial, 10), nil
	case "ctime":
		return model.AppendTime(nil, c.CTime), nil
	case "mtime":
		return model.AppendTime(nil, c.MTime), nil
	}
	names := []string{model.Clusters.Name}
	for _, k := range containers {
		names = append(names, k.name)
	}
	return nil, &NotFoundError{path[0], "the configuration has no such part; it has " + strings.Join(names, ", ")}
}

// overview is the table of the parts of a configuration: the name of the cluster, and the number of objects of each kind.
func overview(c *model.Config) *answer.ConfigTable {
	t := &answer.ConfigTable{Columns: []string{"Part", "Content"}, Rows: [][]string{{model.Clusters.Name, c.Cluster.Value.Name}}}
	for _, k := range containers {
		t.Rows = append(t.Rows, []string{k.name, fmt.Sprint(k.count(c))})
	}
	return t
}

// Check returns what is wrong with a configuration.
func Check(c *model.Config) answer.ConfigCheck {
	return answer.ConfigCheck{Serial: c.Serial, Errors: verify.Of(c).Texts(), Warnings: verify.Warnings(c)}
}

// History returns the entries that a query selects in the files of the history.
func History(older, current []byte, q history.Query) answer.ConfigHistory {
	entries, damaged := history.Read(older, current)
	h := answer.ConfigHistory{Entries: history.Select(entries, q), Damaged: damaged}
	if len(entries) > 0 {
		h.Oldest = entries[0].Serial
	}
	if h.Entries == nil {
		h.Entries = []history.Entry{}
	}
	return h
}

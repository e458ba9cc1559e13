package confd

import (
	"strconv"
	"strings"

	"lockstep/core/config/model"
	"lockstep/core/rawjson"
)

// path answers ConfigPath: the value at a JSON pointer (RFC 6901), with secrets replaced. It refuses a query that is no path, and a path
// without a value.
func (s *Snapshot) path(to *builder, q *query) *refusal {
	if q.form != formText {
		return &refusal{text: "the query must be a path, such as /cluster/cluster_name"}
	}
	elements, valid := pathElements(q.text)
	if !valid || !s.addValue(to, elements) {
		return &refusal{code: CodeArgument}
	}
	return nil
}

// pathElements splits a JSON pointer. Empty elements, also the whole document, are invalid.
func pathElements(path string) (elements []string, valid bool) {
	if !strings.HasPrefix(path, "/") {
		return nil, false
	}
	elements = strings.Split(path[1:], "/")
	for i, e := range elements {
		if e == "" {
			return nil, false
		}
		if !strings.Contains(e, "~") {
			continue
		}
		if strings.Count(e, "~") != strings.Count(e, "~0")+strings.Count(e, "~1") {
			return nil, false
		}
		elements[i] = strings.ReplaceAll(strings.ReplaceAll(e, "~1", "/"), "~0", "~")
	}
	return elements, true
}

// addValue appends the value at a path. It reports false if there is none.
func (s *Snapshot) addValue(to *builder, path []string) (found bool) {
	c := s.config
	switch path[0] {
	case model.Clusters.Name:
		return addFrom(to, s, model.Clusters, c.Cluster, path[1:])
	case model.Nodes.Name:
		return addContained(to, s, model.Nodes, path[1:])
	case model.Groups.Name:
		return addContained(to, s, model.Groups, path[1:])
	case model.Instances.Name:
		return addContained(to, s, model.Instances, path[1:])
	case model.Networks.Name:
		return addContained(to, s, model.Networks, path[1:])
	case model.Disks.Name:
		return addContained(to, s, model.Disks, path[1:])
	case model.Filters.Name:
		return addContained(to, s, model.Filters, path[1:])
	}
	if len(path) > 1 {
		return false // steps into a number
	}
	switch path[0] {
	case "version":
		to.addInt(c.Version)
	case "serial_no":
		to.addInt(c.Serial)
	case "ctime":
		to.add(model.AppendTime(nil, c.CTime))
	case "mtime":
		to.add(model.AppendTime(nil, c.MTime))
	default:
		return false
	}
	return true
}

// addContained appends a value below a container, or the whole container for an empty path. found is false, and nothing is appended, if
// there is no such value.
func addContained[T any](to *builder, s *Snapshot, k *model.Kind[T], path []string) (found bool) {
	if len(path) > 0 {
		o, found := k.Get(s.config, path[0])
		return found && addFrom(to, s, k, o, path[1:])
	}
	rules, separator := s.rules(), "{"
	for uuid, o := range k.All(s.config).All() {
		to.addString(separator)
		to.addText(uuid)
		to.addString(":")
		to.add(rules.Object(k.Name, o.JSON()))
		separator = ","
	}
	if separator == "{" {
		to.addString(separator)
	}
	to.addString("}")
	return true
}

// addFrom appends the value at a path below an object. found is false, and nothing is appended, if there is none.
func addFrom[T any](to *builder, s *Snapshot, k *model.Kind[T], o *model.Object[T], path []string) (found bool) {
	raw := o.JSON()
	for _, element := range path {
		if raw = step(raw, element); raw == nil {
			return false
		}
	}
	to.add(s.rules().Value(k.Name, path, raw))
	return true
}

// step returns the member or the element of a value, nil if it has none.
func step(raw []byte, element string) []byte {
	switch {
	case rawjson.IsObject(raw):
		return rawjson.Member(raw, element)
	case isList(raw):
		index, valid := listIndex(element)
		if !valid {
			return nil
		}
		for value := range rawjson.Elements(raw) {
			if index == 0 {
				return value
			}
			index--
		}
	}
	return nil
}

// listIndex reads the index of a list: decimal digits. valid is false for anything else.
func listIndex(element string) (index int, valid bool) {
	for _, c := range element {
		if c < '0' || c > '9' {
			return 0, false
		}
	}
	index, err := strconv.Atoi(element)
	return index, err == nil
}

// Package model implements the cluster configuration, config.data of Ganeti 3.0, as typed values (config.md 1 and 2).
//
// Objects are closed: an unknown key is an error. Each object caches its encoding, which equals Ganeti's byte for byte. A
// Config is immutable. An Edit derives a new Config that shares all unchanged objects with the old one, so the cost of a
// change does not depend on the number of objects. Pure.
package model

import (
	"bytes"
	"fmt"
	"slices"

	"lockstep/core/config/tree"
)

// Config is the content of config.data with typed values: the cluster object, all other objects by kind, and the serial number. It is
// immutable (config.md 2).
type Config struct {
	head
	Cluster   *Object[Cluster]
	Nodes     Container[Node]
	Groups    Container[NodeGroup]
	Instances Container[Instance]
	Networks  Container[Network]
	Disks     Container[Disk]
	Filters   Container[FilterRule]
	index     index
	objects   hashSum // of the cluster and all objects, see Hash
}

// head has the top-level scalar fields.
type head struct {
	Version      int64 // not checked, as by Ganeti
	CTime, MTime Time
	Serial       int64
}

// file is config.data with undecoded objects.
type file struct {
	head
	cluster JSONText
	objects [6]JSONText
}

// JSONText is undecoded JSON. It refers to the input.
type JSONText []byte

var asIs = codec[JSONText]{decode: func(raw []byte) (JSONText, error) { return raw, nil }}

// containers are the names of the containers in the order of the file.
var containers = [6]string{"nodes", "nodegroups", "instances", "networks", "disks", "filters"}

var fileTable = func() *table[file] {
	fields := []field[file]{
		required("version", integer, func(f *file) *int64 { return &f.Version }),
		required("cluster", asIs, func(f *file) *JSONText { return &f.cluster }),
	}
	for i, name := range containers {
		fields = append(fields, required(name, asIs, func(f *file) *JSONText { return &f.objects[i] }))
	}
	return newTable(append(fields,
		withDefault("ctime", moment, 0, func(f *file) *Time { return &f.CTime }),
		withDefault("mtime", moment, 0, func(f *file) *Time { return &f.MTime }),
		required("serial_no", integer, func(f *file) *int64 { return &f.Serial })))
}()

// Decode decodes a configuration strictly: an unknown key, a missing required field and invalid UTF-8 are errors. It builds the index of
// names, too.
func Decode(raw []byte) (*Config, error) {
	if err := CheckUTF8(raw); err != nil {
		return nil, err
	}
	f, err := fileTable.decode(bytes.TrimSpace(raw), false)
	if err != nil {
		return nil, err
	}
	c := &Config{head: f.head}
	if c.Cluster, err = Clusters.Decode(f.cluster); err != nil {
		return nil, fmt.Errorf("Can't parse value for 'cluster': %w", err)
	}
	Clusters.replace(&c.objects, "", nil, c.Cluster)
	readers := [6]func(*Config, []byte) ([]string, error){
		Nodes.read, Groups.read, Instances.read, Networks.read, Disks.read, Filters.read}
	var entries []string
	for i, read := range readers {
		of, err := read(c, f.objects[i])
		if err != nil {
			return nil, fmt.Errorf("Can't parse value for '%s': %w", containers[i], err)
		}
		entries = append(entries, of...)
	}
	slices.Sort(entries)
	indexed := make([]tree.Entry[struct{}], len(entries))
	for i, e := range entries {
		indexed[i].Key = e
	}
	c.index = tree.Of(indexed)
	return c, nil
}

// read decodes a container into c, adds its objects to the hash of c, and returns their entries for the index.
func (k *Kind[T]) read(c *Config, raw []byte) (entries []string, err error) {
	objects := codec[*Object[T]]{decode: k.Decode}
	d, err := dict(objects).decode(raw)
	if err != nil {
		return nil, err
	}
	sorted := make([]tree.Entry[*Object[T]], len(d))
	for i, e := range d {
		sorted[i] = tree.Entry[*Object[T]]{Key: e.Key, Value: e.Value}
		k.replace(&c.objects, e.Key, nil, e.Value)
		for _, r := range k.refsOf(e.Key, e.Value) {
			entries = append(entries, indexKey(r.space, r.name, e.Key))
		}
	}
	*k.at(c) = tree.Of(sorted)
	for range k.at(c).Chunks(shareChunk[T]) {
	}
	return entries, nil
}

// JSON returns the configuration in Ganeti's form.
func (c *Config) JSON() []byte { return bytes.Join(c.Parts(), nil) }

// Parts returns the configuration in Ganeti's form, in parts. Parts without a change are the same in all configurations, so the
// cost is that of the changes since the last call. The caller must not modify a part.
func (c *Config) Parts() [][]byte {
	parts := [][]byte{fmt.Appendf(nil, `{"version":%d,"cluster":`, c.Version), c.Cluster.encoding}
	parts = Nodes.parts(parts, c)
	parts = Groups.parts(parts, c)
	parts = Instances.parts(parts, c)
	parts = Networks.parts(parts, c)
	parts = Disks.parts(parts, c)
	parts = Filters.parts(parts, c)
	end := AppendTime([]byte(`,"ctime":`), c.CTime)
	end = AppendTime(append(end, `,"mtime":`...), c.MTime)
	return append(parts, fmt.Appendf(end, `,"serial_no":%d}`, c.Serial))
}

func (k *Kind[T]) parts(parts [][]byte, c *Config) [][]byte {
	parts = append(parts, []byte(`,"`+k.Name+`":{`))
	first := len(parts)
	for chunk := range k.at(c).Chunks(chunkOf[T]) {
		parts = append(parts, chunk)
	}
	if len(parts) > first {
		parts[first] = parts[first][1:] // the comma before the first object
	}
	return append(parts, []byte{'}'})
}

// chunkOf encodes objects with a comma before each.
func chunkOf[T any](keys []string, objects []*Object[T]) []byte {
	size := 0
	for i, o := range objects {
		size += len(keys[i]) + len(o.encoding) + 4
	}
	chunk := make([]byte, 0, size)
	for i, o := range objects {
		chunk = append(append(AppendText(append(chunk, ','), keys[i]), ':'), o.encoding...)
	}
	return chunk
}

// shareChunk is chunkOf for objects that only the caller has: their encodings become parts of the chunk, so that memory has them once.
func shareChunk[T any](keys []string, objects []*Object[T]) []byte {
	chunk := chunkOf(keys, objects)
	end := 0
	for i, o := range objects {
		start := end + len(AppendText(nil, keys[i])) + 2
		end = start + len(o.encoding)
		o.encoding = chunk[start:end:end]
	}
	return chunk
}

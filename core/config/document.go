package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// Object is one object of a configuration: its stored values, by name.
type Object map[string]json.RawMessage

// Has reports whether there is a value that is not null.
func (o Object) Has(key string) bool {
	raw, there := o[key]
	return there && !bytes.Equal(bytes.TrimSpace(raw), []byte("null"))
}

// Text is a string value; "" if the value is not a string.
func (o Object) Text(key string) string {
	var text string
	if json.Unmarshal(o[key], &text) != nil {
		return ""
	}
	return text
}

// Flag is a boolean value; false if the value is not a boolean.
func (o Object) Flag(key string) bool {
	var flag bool
	return json.Unmarshal(o[key], &flag) == nil && flag
}

// Object is a value that is an object; empty if the value is not an object.
func (o Object) Object(key string) Object {
	inner, err := decodeObject(o[key])
	if err != nil {
		return Object{}
	}
	return inner
}

// List is a list value; nil if the value is not a list.
func (o Object) List(key string) []json.RawMessage {
	var list []json.RawMessage
	if json.Unmarshal(o[key], &list) != nil {
		return nil
	}
	return list
}

// JSON is the stored form of the object.
func (o Object) JSON() json.RawMessage {
	encoded, err := json.Marshal(o)
	if err != nil {
		panic(fmt.Errorf("an object that was decoded cannot be encoded: %w", err))
	}
	return encoded
}

// Merged is the values of all objects. If several have a value of the same name, the last one counts.
func Merged(objects ...Object) Object {
	all := Object{}
	for _, o := range objects {
		for key, value := range o {
			all[key] = value
		}
	}
	return all
}

// Document is a complete configuration for reading: the objects by UUID, and their relations.
type Document struct {
	Cluster   Object
	Nodes     map[string]Object
	Groups    map[string]Object
	Instances map[string]Object
	Networks  map[string]Object
	Disks     map[string]Object
	Resources *Resources
}

// DecodeDocument reads a configuration. Errors name what is wrong with it.
func DecodeDocument(data []byte) (*Document, error) {
	doc, err := decodeObject(data)
	if err != nil {
		return nil, fmt.Errorf("not a cluster configuration: %w", err)
	}
	d := &Document{Cluster: Object(doc).Object("cluster")}
	for _, part := range []struct {
		name string
		into *map[string]Object
	}{{"nodes", &d.Nodes}, {"nodegroups", &d.Groups}, {"instances", &d.Instances}, {"networks", &d.Networks}, {"disks", &d.Disks}} {
		if raw := doc[part.name]; raw != nil {
			if err := json.Unmarshal(raw, part.into); err != nil {
				return nil, fmt.Errorf("%s: %w", part.name, err)
			}
		}
	}
	d.Resources, err = DecodeResources(data)
	return d, err
}

// DisksOf are the disks of an instance, in order. A missing disk has no values.
func (d *Document) DisksOf(instance Object) []Object {
	disks := []Object{}
	for _, raw := range instance.List("disks") {
		var uuid string
		if json.Unmarshal(raw, &uuid) == nil {
			disks = append(disks, d.Disks[uuid])
			continue
		}
		disk, err := decodeObject(raw) // old configurations contain the disk itself
		if err != nil {
			disk = nil
		}
		disks = append(disks, disk)
	}
	return disks
}

// ConnectedGroups are the UUIDs of the groups that a network is connected to, sorted.
func (d *Document) ConnectedGroups(network string) []string {
	var groups []string
	for uuid, group := range d.Groups {
		if group.Object("networks").Has(network) {
			groups = append(groups, uuid)
		}
	}
	slices.Sort(groups)
	return groups
}

// InstancesIn are the names of the instances with an interface in a network, sorted.
func (d *Document) InstancesIn(network string) []string {
	names := []string{}
	for uuid := range d.Instances {
		if i, known := d.Resources.Instance(uuid); known && i.Name != "" && slices.Contains(i.Networks, network) {
			names = append(names, i.Name)
		}
	}
	slices.Sort(names)
	return names
}

// Kinds of objects that clients name in requests.
const (
	KindNode     = "node"
	KindGroup    = "group"
	KindInstance = "instance"
	KindNetwork  = "network"
)

// All are the objects of a kind, by UUID.
func (d *Document) All(kind string) map[string]Object {
	switch kind {
	case KindNode:
		return d.Nodes
	case KindGroup:
		return d.Groups
	case KindInstance:
		return d.Instances
	case KindNetwork:
		return d.Networks
	}
	return nil
}

// NoSuchObject is the error for an object that does not exist. Kind is the word for its kind.
type NoSuchObject struct{ Kind, Name string }

func (e *NoSuchObject) Error() string { return fmt.Sprintf("There is no %s %q", e.Kind, e.Name) }

// Find is the UUID of the object of a kind with a name or UUID. The error is a *NoSuchObject.
func (d *Document) Find(kind, name string) (uuid string, err error) {
	switch kind {
	case KindNode:
		if n, known := d.Resources.Node(name); known {
			return n.UUID, nil
		}
	case KindGroup:
		if g, known := d.Resources.Group(name); known {
			return g.UUID, nil
		}
	case KindInstance:
		if i, known := d.Resources.Instance(name); known {
			return i.UUID, nil
		}
	case KindNetwork:
		if n, known := d.Resources.Network(name); known {
			return n.UUID, nil
		}
	}
	return "", &NoSuchObject{kind, name}
}

// taggedKinds are the kinds that have tags, by the clients' words. The cluster is not a kind of objects.
var taggedKinds = map[string]string{
	"cluster": "", "instance": KindInstance, "network": KindNetwork, "node": KindNode, "nodegroup": KindGroup,
}

// IsTagKind reports whether objects of a kind, or the cluster, have tags.
func IsTagKind(kind string) bool {
	_, known := taggedKinds[kind]
	return known
}

// Tags are the tags of an object, by its name or UUID; the cluster needs none. The error is a *NoSuchObject.
func (d *Document) Tags(kind, name string) (json.RawMessage, error) {
	object := d.Cluster
	if of := taggedKinds[kind]; of != "" {
		uuid, err := d.Find(of, name)
		if err != nil {
			return nil, err
		}
		object = d.All(of)[uuid]
	}
	if !object.Has("tags") {
		return json.RawMessage("[]"), nil
	}
	return object["tags"], nil
}

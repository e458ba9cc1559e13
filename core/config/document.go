package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"lockstep/core/config/model"
	"lockstep/core/rawjson"
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

// Document is a configuration for queries of stored values by name. It decodes an object at its first use. It belongs to one
// goroutine.
type Document struct {
	Cluster   Object
	Resources *Resources
	config    *model.Config
	decoded   map[string]Object // by kind and uuid
}

// DocumentOf returns a Document of a configuration. It decodes nothing yet.
func DocumentOf(c *model.Config) *Document {
	return &Document{Cluster: decoded(c.Cluster.JSON()), Resources: ResourcesOf(c), config: c, decoded: map[string]Object{}}
}

// decoded splits the stored form of an object into its members. It panics if the encoding is no object.
func decoded(encoding []byte) Object {
	object, err := decodeObject(encoding)
	if err != nil {
		panic(fmt.Errorf("an object of the configuration is no object: %w", err)) // the model has encoded it
	}
	return object
}

// object is the object of a kind with a uuid, decoded at the first use; nil if there is none.
func object[T any](d *Document, k *model.Kind[T], uuid string) Object {
	o, found := k.Get(d.config, uuid)
	if !found {
		return nil
	}
	place := k.Name + "/" + uuid
	if _, known := d.decoded[place]; !known {
		d.decoded[place] = decoded(o.JSON())
	}
	return d.decoded[place]
}

// Node is a node by its UUID; without values if there is none. The same applies to Group, Network and Disk.
func (d *Document) Node(uuid string) Object { return object(d, model.Nodes, uuid) }

// Group is the node group with a UUID; nil if there is none.
func (d *Document) Group(uuid string) Object { return object(d, model.Groups, uuid) }

// Network is the network with a UUID; nil if there is none.
func (d *Document) Network(uuid string) Object { return object(d, model.Networks, uuid) }

// Disk is the disk with a UUID; nil if there is none.
func (d *Document) Disk(uuid string) Object { return object(d, model.Disks, uuid) }

// DisksOf are the disks of an instance, in order. A missing disk has no values.
func (d *Document) DisksOf(instance Object) []Object {
	disks := []Object{}
	for _, raw := range instance.List("disks") {
		disks = append(disks, d.Disk(string(rawjson.Unquote(raw))))
	}
	return disks
}

// ConnectedGroups are the UUIDs of the groups that a network is connected to, sorted.
func (d *Document) ConnectedGroups(network string) []string {
	var groups []string
	for uuid, group := range d.config.Groups.All() {
		if _, connected := group.Value.Networks.Get(network); connected {
			groups = append(groups, uuid)
		}
	}
	return groups
}

// InstancesIn are the names of the instances with an interface in a network, sorted.
func (d *Document) InstancesIn(network string) []string {
	names := []string{}
	for _, i := range d.config.Instances.All() {
		uses := func(nic model.NIC) bool { return nic.Network.Set && nic.Network.Value == network }
		if i.Value.Name.Set && slices.ContainsFunc(i.Value.NICs, uses) {
			names = append(names, i.Value.Name.Value)
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

// All are the objects of a kind, by UUID; nil for a kind that the document does not offer.
func (d *Document) All(kind string) map[string]Object {
	switch kind {
	case KindNode:
		return objects(d, model.Nodes)
	case KindGroup:
		return objects(d, model.Groups)
	case KindInstance:
		return objects(d, model.Instances)
	case KindNetwork:
		return objects(d, model.Networks)
	}
	return nil
}

func objects[T any](d *Document, k *model.Kind[T]) map[string]Object {
	all := make(map[string]Object, k.All(d.config).Len())
	for uuid := range k.All(d.config).All() {
		all[uuid] = object(d, k, uuid)
	}
	return all
}

// Get is the object of a kind with a UUID; without values if there is none.
func (d *Document) Get(kind, uuid string) Object {
	switch kind {
	case KindNode:
		return d.Node(uuid)
	case KindGroup:
		return d.Group(uuid)
	case KindInstance:
		return object(d, model.Instances, uuid)
	case KindNetwork:
		return d.Network(uuid)
	}
	return nil
}

// NoSuchObject is the error for an object that does not exist. Kind is the word for its kind.
type NoSuchObject struct{ Kind, Name string }

// Error is the text that Ganeti's programs print.
func (e *NoSuchObject) Error() string {
	kind := map[string]string{KindNode: "Node", KindGroup: "NodeGroup", KindInstance: "Instance", KindNetwork: "Network"}[e.Kind]
	return fmt.Sprintf("%s name %s not found", kind, e.Name)
}

// Find is the UUID of the object of a kind with a name or UUID. The error is a *NoSuchObject, also for an unknown kind.
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
		object = d.Get(of, uuid)
	}
	return object["tags"], nil
}

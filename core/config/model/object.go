package model

import "lockstep/core/config/tree"

// Object is one object of a configuration, immutable, with its encoding, which is made once.
type Object[T any] struct {
	Value    T // including its slices
	encoding []byte
}

// JSON returns the object in Ganeti's form. The caller must not modify it.
func (o *Object[T]) JSON() []byte { return o.encoding }

// Container maps uuids to the objects of a kind.
type Container[T any] = tree.Map[*Object[T]]

// Kind describes a kind of objects: its codec, its container in a Config, and the names that its objects use.
type Kind[T any] struct {
	Name  string // of the container
	table *table[T]
	at    func(*Config) *Container[T]
	refs  func(key string, v *T, add func(space byte, name string))
	names byte // the name space of their names; 0: they have none
}

// The kinds of objects. The cluster is not in a container.
var (
	Clusters = &Kind[Cluster]{Name: "cluster", table: clusterTable}
	Nodes    = &Kind[Node]{
		"nodes", nodeTable,
		func(c *Config) *Container[Node] { return &c.Nodes },
		nodeRefs, spaceNodeName,
	}
	Groups = &Kind[NodeGroup]{
		"nodegroups", groupTable,
		func(c *Config) *Container[NodeGroup] { return &c.Groups },
		groupRefs, spaceGroupName,
	}
	Instances = &Kind[Instance]{
		"instances", instanceTable,
		func(c *Config) *Container[Instance] { return &c.Instances },
		instanceRefs, spaceInstanceName,
	}
	Networks = &Kind[Network]{
		"networks", networkTable,
		func(c *Config) *Container[Network] { return &c.Networks },
		networkRefs, spaceNetworkName,
	}
	Disks = &Kind[Disk]{
		"disks", diskTable,
		func(c *Config) *Container[Disk] { return &c.Disks },
		diskRefs, 0,
	}
	Filters = &Kind[FilterRule]{
		"filters", filterTable,
		func(c *Config) *Container[FilterRule] { return &c.Filters },
		func(string, *FilterRule, func(byte, string)) {}, 0,
	}
)

// Decode decodes an object strictly (config.md 1.1).
func (k *Kind[T]) Decode(raw []byte) (*Object[T], error) {
	v, err := k.table.decode(raw, false)
	if err != nil {
		return nil, err
	}
	return k.newObject(v, len(raw)+64), nil
}

// NewObject returns the object of a value. The caller must not modify the value afterwards.
func (k *Kind[T]) NewObject(v T) *Object[T] { return k.newObject(v, 1024) }

// newObject is NewObject with an estimate of the length of the encoding, in bytes.
func (k *Kind[T]) newObject(v T, size int) *Object[T] {
	o := &Object[T]{Value: v}
	o.encoding = k.table.append(make([]byte, 0, size), &o.Value)
	if cap(o.encoding) > len(o.encoding)*9/8 {
		o.encoding = append(make([]byte, 0, len(o.encoding)), o.encoding...)
	}
	return o
}

// Get returns the object with a uuid; nil and false: there is none.
func (k *Kind[T]) Get(c *Config, uuid string) (*Object[T], bool) { return k.at(c).Get(uuid) }

// All returns the container of the kind.
func (k *Kind[T]) All(c *Config) Container[T] { return *k.at(c) }

package model

import "bytes"

// Touched identifies an object that a change added, modified or deleted. UUID is its key, "" for the cluster.
type Touched struct {
	Kind string // Kind.Name
	UUID string
}

// Edit collects changes of a configuration until Commit makes a new configuration of them. Its base configuration does not change.
type Edit struct {
	base, now *Config
	order     []Touched
	differs   []func() bool // per element of order: whether the object differs from base
	seen      map[Touched]bool
	extra     int64 // additional increments of the serial number
}

// Edit starts a change of c, which itself stays as it is.
func (c *Config) Edit() *Edit {
	now := *c
	return &Edit{base: c, now: &now, seen: map[Touched]bool{}}
}

// Config returns the configuration with the changes so far.
func (e *Edit) Config() *Config { return e.now }

// Base returns the configuration before the change.
func (e *Edit) Base() *Config { return e.base }

// BumpSerial adds one to the serial number, in addition to the increment of Commit (config.md 4.4).
func (e *Edit) BumpSerial() { e.extra++ }

// Replace makes version, creation time and serial number those of another configuration.
func (e *Edit) setHead(of head) { e.now.head = of }

func (e *Edit) touch(t Touched, differs func() bool) {
	if !e.seen[t] {
		e.seen[t] = true
		e.order, e.differs = append(e.order, t), append(e.differs, differs)
	}
}

// SetCluster replaces the cluster object.
func (e *Edit) SetCluster(v Cluster) { e.putCluster(Clusters.NewObject(v)) }

func (e *Edit) putCluster(o *Object[Cluster]) {
	Clusters.replace(&e.now.objects, "", e.now.Cluster, o)
	e.now.Cluster = o
	e.touch(Touched{Kind: Clusters.Name}, func() bool { return !bytes.Equal(e.base.Cluster.encoding, e.now.Cluster.encoding) })
}

// Put adds or replaces an object.
func (k *Kind[T]) Put(e *Edit, key string, v T) { k.putObject(e, key, k.NewObject(v)) }

func (k *Kind[T]) putObject(e *Edit, key string, o *Object[T]) {
	at := k.at(e.now)
	old, _ := at.Get(key)
	*at = at.Put(key, o)
	k.replace(&e.now.objects, key, old, o)
	e.now.index = reindex(e.now.index, key, k.refsOf(key, old), k.refsOf(key, o))
	k.touch(e, key)
}

// Delete removes the object with a key. It does nothing if there is none.
func (k *Kind[T]) Delete(e *Edit, key string) {
	at := k.at(e.now)
	old, found := at.Get(key)
	if !found {
		return
	}
	*at = at.Delete(key)
	k.replace(&e.now.objects, key, old, nil)
	e.now.index = reindex(e.now.index, key, k.refsOf(key, old), nil)
	k.touch(e, key)
}

func (k *Kind[T]) touch(e *Edit, key string) {
	e.touch(Touched{k.Name, key}, func() bool {
		old, was := k.at(e.base).Get(key)
		now, is := k.at(e.now).Get(key)
		return was != is || is && old != now && !bytes.Equal(old.encoding, now.encoding)
	})
}

// ReplaceAll replaces the content by another configuration. Objects with equal encodings are kept.
func (e *Edit) ReplaceAll(by *Config) {
	e.setHead(by.head)
	if !bytes.Equal(e.now.Cluster.encoding, by.Cluster.encoding) {
		e.putCluster(by.Cluster)
	}
	Nodes.replaceAll(e, by)
	Groups.replaceAll(e, by)
	Instances.replaceAll(e, by)
	Networks.replaceAll(e, by)
	Disks.replaceAll(e, by)
	Filters.replaceAll(e, by)
}

func (k *Kind[T]) replaceAll(e *Edit, by *Config) {
	for key := range k.at(e.now).All() {
		if !k.at(by).Has(key) {
			k.Delete(e, key)
		}
	}
	for key, o := range k.at(by).All() {
		if old, found := k.at(e.now).Get(key); !found || !bytes.Equal(old.encoding, o.encoding) {
			k.putObject(e, key, &Object[T]{o.Value, bytes.Clone(o.encoding)}) // not part of a chunk of by, which would stay in memory
		}
	}
}

// Commit finishes the change: it increments the serial number, sets mtime, and returns the touched objects. Without a
// difference it returns the base configuration (config.md 3).
func (e *Edit) Commit(now Time) (*Config, []Touched) {
	var touched []Touched
	for i, t := range e.order {
		if e.differs[i]() {
			touched = append(touched, t)
		}
	}
	if len(touched) == 0 && e.now.head == e.base.head {
		return e.base, nil
	}
	e.now.Serial += 1 + e.extra
	e.now.MTime = now
	return e.now, touched
}

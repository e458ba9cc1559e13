package query

import (
	"encoding/json"
	"slices"
	"strconv"

	"lockstep/core/config"
)

// Thing is one object of the configuration with all that surrounds it. It belongs to one conversation.
type Thing struct {
	In     *config.Document
	UUID   string
	Object config.Object

	// Made when a field asks for them: many fields of an instance are parts of them.
	parameters map[string]config.Object
	nics       []config.Object
	disks      []config.Object
}

// Collection is a kind of objects of the configuration.
type Collection struct {
	*Table[Thing]
	kind string // config's word
}

// The kinds of objects. There is an export for each node, for none is known to be on it, nor that there is none.
var (
	Nodes     = &Collection{newTable("name", nodeFields, ndpFields(nodeParameters)), config.KindNode}
	Groups    = &Collection{newTable("name", groupFields, ndpFields(groupNodeParameters)), config.KindGroup}
	Instances = &Collection{newTable("name", instanceFields, diskFields(), nicFields(), backendFields(), hypervisorFields()), config.KindInstance}
	Networks  = &Collection{newTable("name", networkFields), config.KindNetwork}
	Exports   = &Collection{newTable("node", exportFields), config.KindNode}
)

var collections = map[string]*Collection{"node": Nodes, "group": Groups, "instance": Instances, "network": Networks, "export": Exports}

// CollectionOf is the collection of a kind; false if it is none of the configuration's.
func CollectionOf(kind string) (*Collection, bool) {
	c, known := collections[kind]
	return c, known
}

// Named are the objects of these names, in the order asked. The error is a *config.NoObject.
func (c *Collection) Named(in *config.Document, names []string) ([]*Thing, error) {
	things := make([]*Thing, len(names))
	for i, name := range names {
		uuid, err := in.Find(c.kind, name)
		if err != nil {
			return nil, err
		}
		things[i] = &Thing{In: in, UUID: uuid, Object: in.All(c.kind)[uuid]}
	}
	return things, nil
}

// All are all objects, in natural order of name.
func (c *Collection) All(in *config.Document) []*Thing {
	type named struct {
		name  string
		thing *Thing
	}
	var all []named
	for uuid, object := range in.All(c.kind) {
		all = append(all, named{object.Text("name"), &Thing{In: in, UUID: uuid, Object: object}})
	}
	slices.SortFunc(all, func(a, b named) int {
		if order := CompareNatural(a.name, b.name); order != 0 {
			return order
		}
		return CompareNatural(a.thing.UUID, b.thing.UUID) // planned instances have no name yet
	})
	things := make([]*Thing, len(all))
	for i := range all {
		things[i] = all[i].thing
	}
	return things
}

// Select are the objects that a Query looks at: those whose names it asks for, or all.
func (c *Collection) Select(in *config.Document, q *Question[Thing]) ([]*Thing, error) {
	literals, only := q.Names()
	if !only || slices.ContainsFunc(literals, func(l Literal) bool { return !l.IsText }) {
		return c.All(in), nil
	}
	names := make([]string, len(literals))
	for i, l := range literals {
		names[i] = l.Text
	}
	return c.Named(in, names)
}

// as is a field whose value is stored under a name.
func as(key string) func(*Thing) Value {
	return func(t *Thing) Value { return part(t.Object, key) }
}

// asOr is the same where the configuration may leave out what is usual.
func asOr(key, usual string) func(*Thing) Value {
	return func(t *Thing) Value {
		if !t.Object.Has(key) {
			return normal(json.RawMessage(usual))
		}
		return normal(t.Object[key])
	}
}

// part is a value of an object.
func part(o config.Object, key string) Value {
	if !o.Has(key) {
		return unavailable()
	}
	return normal(o[key])
}

// textOr is a text, unavailable if there is none.
func textOr(text string) Value {
	if text == "" {
		return unavailable()
	}
	return normal(text)
}

// inObject is a value within an object that is stored under a name.
func inObject(object func(*Thing) config.Object, key string) func(*Thing) Value {
	return func(t *Thing) Value { return part(object(t), key) }
}

func whole(object func(*Thing) config.Object) func(*Thing) Value {
	return func(t *Thing) Value { return normal(object(t)) }
}

// once makes parameters that are put together of several objects.
func (t *Thing) once(name string, make func() config.Object) config.Object {
	if made, there := t.parameters[name]; there {
		return made
	}
	if t.parameters == nil {
		t.parameters = map[string]config.Object{}
	}
	t.parameters[name] = make()
	return t.parameters[name]
}

// list and count are a field of names.
func list(names func(*Thing) []string) func(*Thing) Value {
	return func(t *Thing) Value { return normal(append([]string{}, names(t)...)) } // never null
}

func count(names func(*Thing) []string) func(*Thing) Value {
	return func(t *Thing) Value { return normal(len(names(t))) }
}

// stamped are the fields that every object has. word is what it is.
func stamped(word, title string, mode Mode) []Field[Thing] {
	name := field("name", title, Text, "Name of the "+word, as("name"))
	name.Mode = mode
	return []Field[Thing]{
		name,
		field("uuid", "UUID", Text, "UUID of the "+word, func(t *Thing) Value { return normal(t.UUID) }),
		field("ctime", "CTime", Moment, "When the "+word+" was made", as("ctime")),
		field("mtime", "MTime", Moment, "When the "+word+" was last changed", as("mtime")),
		field("serial_no", "SerialNo", Number, "How often the "+word+" was changed", as("serial_no")),
		field("tags", "Tags", Other, "Tags of the "+word, asOr("tags", "[]")),
	}
}

// hosted makes a field one of host names: the beginning of one means it, too (queue.md 2.2).
func hosted(f Field[Thing]) Field[Thing] {
	f.Mode = HostName
	return f
}

// numbered is "name/3".
func numbered(name string, i int) string { return name + "/" + strconv.Itoa(i) }

package query

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"lockstep/core/config"
	"lockstep/core/natural"
)

// ObjectItem is one object of the configuration and its document. One query uses it.
type ObjectItem struct {
	Document *config.Document
	UUID     string
	Object   config.Object

	live   *Live  // what node daemons have said; nil: they were not asked
	export string // name of the export of this row; "": none

	// Computed on first use: many fields of an instance are parts of these values.
	parameters map[string]config.Object
	nics       []config.Object
	disks      []config.Object
}

// Collection is a kind of objects of the configuration.
type Collection struct {
	*Table[ObjectItem]
	kind string // config's word
}

// The kinds of objects. The items of exports are the nodes, until their node daemons have answered.
var (
	Nodes     = &Collection{newTable("name", nodeFields, ndpFields(nodeParameters)), config.KindNode}
	Groups    = &Collection{newTable("name", groupFields, ndpFields(groupNodeParameters)), config.KindGroup}
	Instances = &Collection{
		newTable("name", instanceFields, diskFields(), nicFields(), backendFields(), hypervisorFields()),
		config.KindInstance,
	}
	Networks = &Collection{newTable("name", networkFields), config.KindNetwork}
	Exports  = &Collection{exportTable(), config.KindNode}
)

func exportTable() *Table[ObjectItem] {
	t := newTable("node", exportFields)
	t.live = LiveExports
	return t
}

// ByName are the objects of these names, in the order of the names. The error is a *config.NoSuchObject.
func (c *Collection) ByName(in *config.Document, names []string) ([]*ObjectItem, error) {
	items := make([]*ObjectItem, len(names))
	for i, name := range names {
		uuid, err := in.Find(c.kind, name)
		if err != nil {
			return nil, err
		}
		items[i] = &ObjectItem{Document: in, UUID: uuid, Object: in.Get(c.kind, uuid)}
	}
	return items, nil
}

// ForClassicQuery are the objects of a classic call: those of the names that exist, each once, in natural order of name; all, if no name is
// given. QueryExports alone refuses a name that is absent: the error is then a *config.NoSuchObject (queue.md 1.3).
func (c *Collection) ForClassicQuery(in *config.Document, names []string) ([]*ObjectItem, error) {
	if len(names) == 0 {
		return c.All(in), nil
	}
	var items []*ObjectItem
	taken := map[string]bool{}
	for _, name := range names {
		uuid, err := in.Find(c.kind, name)
		switch {
		case err != nil && c == Exports:
			return nil, err
		case err == nil && !taken[uuid]:
			taken[uuid] = true
			items = append(items, &ObjectItem{Document: in, UUID: uuid, Object: in.Get(c.kind, uuid)})
		}
	}
	return byName(items), nil
}

// All are all objects, in natural order of name.
func (c *Collection) All(in *config.Document) []*ObjectItem {
	var items []*ObjectItem
	for uuid, object := range in.All(c.kind) {
		items = append(items, &ObjectItem{Document: in, UUID: uuid, Object: object})
	}
	return byName(items)
}

// byName sorts items by name, in natural order.
func byName(items []*ObjectItem) []*ObjectItem {
	type named struct {
		name  string
		thing *ObjectItem
	}
	sorted := make([]named, len(items))
	for i, t := range items {
		sorted[i] = named{t.Object.Text("name"), t}
	}
	slices.SortFunc(sorted, func(a, b named) int {
		if order := natural.Compare(a.name, b.name); order != 0 {
			return order
		}
		return natural.Compare(a.thing.UUID, b.thing.UUID) // planned instances have no name yet
	})
	for i := range sorted {
		items[i] = sorted[i].thing
	}
	return items
}

// ForQuery are the objects that a query must examine: those of the names in its filter, or all.
func (c *Collection) ForQuery(in *config.Document, q *Query[ObjectItem]) ([]*ObjectItem, error) {
	literals, only := q.KeyValues()
	if !only || slices.ContainsFunc(literals, func(l Literal) bool { return !l.IsText }) {
		return c.All(in), nil
	}
	names := make([]string, len(literals))
	for i, l := range literals {
		names[i] = l.Text
	}
	return c.ByName(in, names)
}

// stored is a field whose value is stored under a key.
func stored(key string) func(*ObjectItem) Value {
	return func(t *ObjectItem) Value { return member(t.Object, key) }
}

// storedOr is stored with a value for objects where the configuration leaves the key out.
func storedOr(key, absent string) func(*ObjectItem) Value {
	return func(t *ObjectItem) Value {
		if !t.Object.Has(key) {
			return normal(json.RawMessage(absent))
		}
		return normal(t.Object[key])
	}
}

// member is a value of an object.
func member(o config.Object, key string) Value {
	if !o.Has(key) {
		return unavailable()
	}
	return normal(o[key])
}

// textOrUnavailable is a text; the empty text is unavailable.
func textOrUnavailable(text string) Value {
	if text == "" {
		return unavailable()
	}
	return normal(text)
}

// memberOf is a value within an object that is stored under a key.
func memberOf(object func(*ObjectItem) config.Object, key string) func(*ObjectItem) Value {
	return func(t *ObjectItem) Value { return member(object(t), key) }
}

// objectValue is a field whose value is an object, with the keys in Ganeti's order: these, and then the others by name.
func objectValue(object func(*ObjectItem) config.Object, order ...string) func(*ObjectItem) Value {
	return func(t *ObjectItem) Value { return normal(inOrder(object(t), order)) }
}

func inOrder(o config.Object, order []string) json.RawMessage {
	dst := json.RawMessage{'{'}
	add := func(key string) {
		if len(dst) > 1 {
			dst = append(dst, ',')
		}
		dst = append(append(appendText(dst, key), ':'), o[key]...)
	}
	for _, key := range order {
		if _, has := o[key]; has {
			add(key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(o)) {
		if !slices.Contains(order, key) {
			add(key)
		}
	}
	return append(dst, '}')
}

// cached returns the parameters with a name, which make merges from several objects at the first call.
func (t *ObjectItem) cached(name string, make func() config.Object) config.Object {
	if made, there := t.parameters[name]; there {
		return made
	}
	if t.parameters == nil {
		t.parameters = map[string]config.Object{}
	}
	t.parameters[name] = make()
	return t.parameters[name]
}

// nameList is a field that is a list of names, and nameCount one that is their number.
func nameList(names func(*ObjectItem) []string) func(*ObjectItem) Value {
	return func(t *ObjectItem) Value { return normal(append([]string{}, names(t)...)) } // never null
}

func nameCount(names func(*ObjectItem) []string) func(*ObjectItem) Value {
	return func(t *ObjectItem) Value { return normal(len(names(t))) }
}

// commonFields are the fields that every object has. word names the kind.
func commonFields(word, title string, mode CompareMode) []Field[ObjectItem] {
	name := field("name", title, Text, "Name of the "+word, stored("name"))
	name.Mode = mode
	return []Field[ObjectItem]{
		name,
		field("uuid", "UUID", Text, "UUID of the "+word, func(t *ObjectItem) Value { return normal(t.UUID) }),
		field("ctime", "CTime", Time, "When the "+word+" was made", stored("ctime")),
		field("mtime", "MTime", Time, "When the "+word+" was last changed", stored("mtime")),
		field("serial_no", "SerialNo", Number, "How often the "+word+" was changed", stored("serial_no")),
		field("tags", "Tags", Other, "Tags of the "+word, storedOr("tags", "[]")),
	}
}

// hostNameField makes the field compare as a host name: a prefix of a name matches, too (queue.md 2.2).
func hostNameField(f Field[ObjectItem]) Field[ObjectItem] {
	f.Mode = CompareHostName
	return f
}

// numbered is "name/3".
func numbered(name string, i int) string { return name + "/" + strconv.Itoa(i) }

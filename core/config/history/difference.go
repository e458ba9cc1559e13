package history

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"lockstep/core/config/model"
	"lockstep/core/config/redact"
	"lockstep/core/rawjson"
)

// kinds maps the names of kinds to their functions.
var kinds = map[string]anyKind{
	model.Clusters.Name:  {differenceOfCluster, nil},
	model.Nodes.Name:     {differenceOf(model.Nodes), compare(model.Nodes)},
	model.Groups.Name:    {differenceOf(model.Groups), compare(model.Groups)},
	model.Instances.Name: {differenceOf(model.Instances), compare(model.Instances)},
	model.Networks.Name:  {differenceOf(model.Networks), compare(model.Networks)},
	model.Disks.Name:     {differenceOf(model.Disks), compare(model.Disks)},
	model.Filters.Name:   {differenceOf(model.Filters), compare(model.Filters)},
}

// anyKind has the functions of a kind that do not depend on its type.
type anyKind struct {
	difference func(old, new *model.Config, t model.Touched, rules redact.Rules) (Difference, []pathChange)
	touched    func(old, new *model.Config) []model.Touched
}

// Touched compares two configurations and returns the objects that were added, changed or removed. It compares shared objects by identity
// and others by their encoding, each once.
func Touched(old, new *model.Config) []model.Touched {
	var all []model.Touched
	if old.Cluster != new.Cluster && !bytes.Equal(old.Cluster.JSON(), new.Cluster.JSON()) {
		all = append(all, model.Touched{Kind: model.Clusters.Name})
	}
	inContainers := []string{
		model.Nodes.Name, model.Groups.Name, model.Instances.Name, model.Networks.Name, model.Disks.Name, model.Filters.Name,
	}
	for _, name := range inContainers {
		all = append(all, kinds[name].touched(old, new)...)
	}
	return all
}

func compare[T any](k *model.Kind[T]) func(old, new *model.Config) []model.Touched {
	return func(old, new *model.Config) []model.Touched {
		var touched []model.Touched
		for key, was := range k.All(old).All() {
			now, still := k.Get(new, key)
			if !still || now != was && !bytes.Equal(now.JSON(), was.JSON()) {
				touched = append(touched, model.Touched{Kind: k.Name, UUID: key})
			}
		}
		for key := range k.All(new).All() {
			if !k.All(old).Has(key) {
				touched = append(touched, model.Touched{Kind: k.Name, UUID: key})
			}
		}
		return touched
	}
}

func differenceOfCluster(old, new *model.Config, t model.Touched, rules redact.Rules) (Difference, []pathChange) {
	d := Difference{Kind: t.Kind, Name: shorten(new.Cluster.Value.Name), Operation: Changed}
	return d, pathsOf(t.Kind, old.Cluster.JSON(), new.Cluster.JSON(), rules)
}

func differenceOf[T any](k *model.Kind[T]) func(old, new *model.Config, t model.Touched, rules redact.Rules) (Difference, []pathChange) {
	return func(old, new *model.Config, t model.Touched, rules redact.Rules) (Difference, []pathChange) {
		d := Difference{Kind: t.Kind, UUID: shorten(t.UUID), Operation: Changed}
		was, existed := k.Get(old, t.UUID)
		now, exists := k.Get(new, t.UUID)
		switch {
		case !existed && !exists:
			return d, nil
		case !existed:
			d.Operation, d.Name = Added, nameOf(now.JSON())
			return d, nil
		case !exists:
			d.Operation, d.Name = Removed, nameOf(was.JSON())
			return d, nil
		}
		d.Name = nameOf(now.JSON())
		return d, pathsOf(k.Name, was.JSON(), now.JSON(), rules)
	}
}

// nameOf returns the name of an object; "" if it has none.
func nameOf(object []byte) string {
	return shorten(string(rawjson.Unquote(rawjson.Member(object, "name"))))
}

// pathChange is a PathChange without bounds.
type pathChange struct {
	path     []string
	old, new []byte // redacted
}

// stamps are the fields that each change of an object sets. They are listed only if nothing else differs.
var stamps = []string{"serial_no", "mtime"}

// pathsOf returns the values of an object that differ. The stamps, such as mtime, are among them only if nothing else differs.
func pathsOf(kind string, old, new []byte, rules redact.Rules) []pathChange {
	c := comparison{kind: kind, rules: rules}
	c.compare(nil, old, new)
	isStamp := func(p pathChange) bool { return len(p.path) == 1 && slices.Contains(stamps, p.path[0]) }
	if content := slices.DeleteFunc(slices.Clone(c.paths), isStamp); len(content) > 0 {
		return content
	}
	return c.paths
}

// comparison collects the differences of two versions of an object.
type comparison struct {
	kind  string
	rules redact.Rules
	paths []pathChange
}

// compare compares the values at a path. nil is an absent value. Encodings are canonical, so equal values have equal bytes.
func (c *comparison) compare(path []string, old, new []byte) {
	switch {
	case bytes.Equal(old, new):
	case opens(old, '{') && opens(new, '{'):
		c.compareMembers(path, old, new)
	case isNested(old) && isNested(new):
		was, now := slices.Collect(rawjson.Elements(old)), slices.Collect(rawjson.Elements(new))
		for i := range max(len(was), len(now)) {
			c.compare(below(path, strconv.Itoa(i)), elementAt(was, i), elementAt(now, i))
		}
	default:
		c.paths = append(c.paths, pathChange{path, c.redact(path, old), c.redact(path, new)})
	}
}

func (c *comparison) compareMembers(path []string, old, new []byte) {
	now := map[string][]byte{}
	for key, value := range rawjson.Members(new) {
		now[string(rawjson.Unquote(key))] = value
	}
	for key, was := range rawjson.Members(old) {
		name := string(rawjson.Unquote(key))
		c.compare(below(path, name), was, now[name])
		delete(now, name)
	}
	for key := range rawjson.Members(new) { // in their order
		if added, is := now[string(rawjson.Unquote(key))]; is {
			c.compare(below(path, string(rawjson.Unquote(key))), nil, added)
		}
	}
}

func below(path []string, element string) []string {
	return append(path[:len(path):len(path)], element)
}

func opens(raw []byte, bracket byte) bool { return len(raw) > 0 && raw[0] == bracket }

// isNested reports whether a value is a list that is empty or whose first element is a list or an object.
func isNested(raw []byte) bool {
	return opens(raw, '[') && (len(raw) == 2 || raw[1] == '{' || raw[1] == '[')
}

func elementAt(all []json.RawMessage, i int) []byte {
	if i < len(all) {
		return all[i]
	}
	return nil
}

func (c *comparison) redact(path []string, raw []byte) []byte {
	if raw == nil {
		return nil
	}
	return c.rules.Value(c.kind, path, raw)
}

// bounded returns the change with its path and its values cut to maxText.
func (p pathChange) bounded() PathChange {
	b := PathChange{Path: shorten(strings.Join(p.path, "/"))}
	b.Old, b.OldLength = cut(p.old)
	b.New, b.NewLength = cut(p.new)
	return b
}

// cut returns a value, or the start of a long one as a string with the length of its text.
func cut(raw []byte) (value json.RawMessage, length int) {
	if len(raw) <= maxText {
		return raw, 0
	}
	return model.AppendText(nil, start(string(raw))), len(raw)
}

// shorten cuts a long text and marks the cut.
func shorten(s string) string {
	if len(s) <= maxText {
		return s
	}
	return start(s) + "…"
}

// start returns the first bytes of a text without a part of a character.
func start(s string) string {
	end := maxText
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end]
}

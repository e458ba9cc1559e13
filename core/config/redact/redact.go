// Package redact replaces the secrets of a configuration by a marker, for answers to people, logs and the history. The table in
// this file lists all secrets; everything else stays byte for byte the same. Pure.
package redact

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"lockstep/core/config/model"
	"lockstep/core/rawjson"
)

// Marker replaces a secret. Ganeti shows private values in the same way.
const Marker = "<redacted>"

var marker = model.AppendText(nil, Marker)

// The tables name values by kind and path. The element * stands for any key or index.
var (
	// secrets are the values that are always secret.
	secrets = []place{
		{model.Clusters.Name, "osparams_private_cluster/*/*"},
		{model.Instances.Name, "osparams_private/*"},
		{model.Disks.Name, "logical_id/5"}, // the secret of drbd; other types have two elements
	}
	// parameters are containers of free parameters. A value in them is secret if its name is declared secret.
	parameters = []place{
		{model.Clusters.Name, "hvparams/*"},
		{model.Clusters.Name, "os_hvp/*/*"},
		{model.Clusters.Name, "osparams/*"},
		{model.Clusters.Name, "diskparams/*"},
		{model.Clusters.Name, "default_iallocator_params"},
		{model.Groups.Name, "diskparams/*"},
		{model.Instances.Name, "hvparams"},
		{model.Instances.Name, "osparams"},
		{model.Disks.Name, "params"},
	}
	// nested are values that have the same secrets as their object.
	nested = []place{
		{model.Disks.Name, "children/*"},
	}
)

// place is a set of values of the objects of a kind.
type place struct{ kind, path string }

// Rules decide which values are secret. The zero Rules redact nothing; use New.
type Rules struct {
	start map[string][]rest // by kind
}

// rest is the part of a place that follows the current value. An empty rest marks a secret.
type rest struct {
	elements []string
	isNested bool // the value at the end has the secrets of its object
}

// New returns the rules for the table and for the parameters with the declared names.
func New(declared ...string) Rules {
	r := Rules{map[string][]rest{}}
	add := func(p place, last ...string) {
		r.start[p.kind] = append(r.start[p.kind], rest{elements: append(strings.Split(p.path, "/"), last...)})
	}
	for _, p := range secrets {
		add(p)
	}
	for _, p := range parameters {
		for _, name := range declared {
			add(p, name)
		}
	}
	for _, p := range nested {
		r.start[p.kind] = append(r.start[p.kind], rest{strings.Split(p.path, "/"), true})
	}
	return r
}

// step returns what remains of the places after one element of a path.
func (r Rules) step(kind string, at []rest, element string) []rest {
	var next []rest
	for _, p := range at {
		if len(p.elements) == 0 || p.elements[0] != element && p.elements[0] != "*" {
			continue
		}
		if p.elements = p.elements[1:]; p.isNested && len(p.elements) == 0 {
			next = append(next, r.start[kind]...)
		} else {
			next = append(next, p)
		}
	}
	return next
}

func isSecret(at []rest) bool {
	return slices.ContainsFunc(at, func(p rest) bool { return len(p.elements) == 0 })
}

// Value redacts the value at a path of an object of a kind. It returns raw itself if nothing in it is secret.
func (r Rules) Value(kind string, path []string, raw []byte) []byte {
	at := r.start[kind]
	for _, element := range path {
		if at = r.step(kind, at, element); isSecret(at) {
			return marker
		}
	}
	return r.redact(kind, at, raw)
}

// Object redacts an object of a kind.
func (r Rules) Object(kind string, raw []byte) []byte { return r.Value(kind, nil, raw) }

// redact redacts a value of an object. at is what remains of the places of secrets there. If the value has no secret, the result is raw
// itself.
func (r Rules) redact(kind string, at []rest, raw []byte) []byte {
	if len(at) == 0 || len(raw) == 0 || raw[0] != '{' && raw[0] != '[' {
		return raw
	}
	dst, changed := []byte{raw[0]}, false
	value := func(element string, old []byte) {
		now := marker
		if below := r.step(kind, at, element); !isSecret(below) {
			now = r.redact(kind, below, old)
		}
		changed = changed || &now[0] != &old[0] // values have at least one byte
		dst = append(append(dst, now...), ',')
	}
	if raw[0] == '{' {
		for key, old := range rawjson.Members(raw) {
			name := rawjson.Unquote(key)
			dst = append(model.AppendText(dst, string(name)), ':')
			value(string(name), old)
		}
	} else {
		i := 0
		for old := range rawjson.Elements(raw) {
			value(strconv.Itoa(i), old)
			i++
		}
	}
	if !changed {
		return raw
	}
	dst[len(dst)-1] = raw[0] + 2 // the closing bracket, in ASCII
	return dst
}

// Config redacts a configuration. Unchanged objects are shared with c.
func (r Rules) Config(c *model.Config) *model.Config {
	e := c.Edit()
	if now, changed := redacted(r, model.Clusters, c.Cluster); changed {
		e.SetCluster(now)
	}
	kind(r, model.Nodes, e)
	kind(r, model.Groups, e)
	kind(r, model.Instances, e)
	kind(r, model.Networks, e)
	kind(r, model.Disks, e)
	kind(r, model.Filters, e)
	return e.Config()
}

func kind[T any](r Rules, k *model.Kind[T], e *model.Edit) {
	if len(r.start[k.Name]) == 0 {
		return
	}
	for key, o := range k.All(e.Base()).All() {
		if now, changed := redacted(r, k, o); changed {
			k.Put(e, key, now)
		}
	}
}

// redacted returns the redacted value of an object, if the object has secrets.
func redacted[T any](r Rules, k *model.Kind[T], o *model.Object[T]) (value T, changed bool) {
	json := r.Object(k.Name, o.JSON())
	if string(json) == string(o.JSON()) {
		return value, false
	}
	now, err := k.Decode(json)
	if err != nil {
		panic(fmt.Sprintf("redact: a redacted object of %s is invalid: %v", k.Name, err)) // all places take strings
	}
	return now.Value, true
}

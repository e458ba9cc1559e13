package rapi

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// change is an operation that submits a job of one opcode, and returns its id.
type change struct {
	method, path string
	name         string // of the operation
	opcode       string
	handler      string // in the reason trail
	doc          string
	// body says what the request's body is.
	body bodyUse
	// renamed are the opcode's names of keys that the body may have under other names.
	renamed map[string]string
	// fixed make parameters that the body must not have.
	fixed []fixedParameter
	// adapt changes the body; nil: nothing.
	adapt func(c *call, body jsonObject) error
}

// bodyUse says what the body of a change is.
type bodyUse uint8

const (
	noParameters bodyUse = iota // nothing but depends is read of it
	parameters                  // parameters of the opcode; a missing body has none
)

// fixedParameter is a parameter of an opcode that the path or the query determines.
type fixedParameter struct {
	name  string
	value func(c *call) (raw, error) // nil means that the opcode has its default
}

// inPath is a parameter that is the name in the path.
func inPath(name string) fixedParameter {
	return fixedParameter{name, func(c *call) (raw, error) { return quoteJSON(c.params["name"]), nil }}
}

// inList is a parameter that is a list of the name in the path.
func inList(name string) fixedParameter {
	return fixedParameter{name, func(c *call) (raw, error) { return append(append(raw("["), quoteJSON(c.params["name"])...), ']'), nil }}
}

// flagOf is a parameter that a numeric argument of the query sets.
func flagOf(name, argument string) fixedParameter {
	return fixedParameter{name, func(c *call) (raw, error) {
		set, err := c.flagArgument(argument)
		return strconv.AppendBool(nil, set), err
	}}
}

func flagged(name string) fixedParameter { return flagOf(name, name) }

var dryRun = flagOf("dry_run", "dry-run")

// constant is a parameter with one value, in JSON.
func constant(name, value string) fixedParameter {
	return fixedParameter{name, func(*call) (raw, error) { return raw(value), nil }}
}

// textOf is a parameter that an argument of the query sets; without it the opcode has its default.
func textOf(name string) fixedParameter {
	return fixedParameter{name, func(c *call) (raw, error) {
		if values := c.URL.Query()[name]; len(values) > 0 {
			return quoteJSON(values[0]), nil
		}
		return nil, nil
	}}
}

// requiredText is textOf for an argument that must not be empty.
func requiredText(name string) fixedParameter {
	return fixedParameter{name, func(c *call) (raw, error) {
		text := c.URL.Query().Get(name)
		if text == "" {
			return nil, newFailure(http.StatusBadRequest, "Missing the required '%s' parameter", name)
		}
		return quoteJSON(text), nil
	}}
}

// operation is the change as an operation of a resource.
func (ch *change) operation() operation {
	return operation{name: ch.name, serve: ch.serve, submits: ch.method == http.MethodGet}
}

func (ch *change) serve(s *Server, c *call) (any, error) {
	op, err := ch.build(c)
	if err != nil {
		return nil, err
	}
	id, err := s.luxi(c, Short, "SubmitJob", []jsonObject{op})
	return id, asClientError(err)
}

// build makes the opcode of a request: from the body, the adaptation of the operation, and the parameters that the client cannot set.
func (ch *change) build(c *call) (jsonObject, error) {
	given, err := c.optionalObject()
	if err != nil && ch.body == parameters {
		return nil, err
	}
	op := jsonObject{}
	if ch.body == parameters {
		op = given
	} else if depends := given.nullable("depends"); depends != nil {
		op["depends"] = depends
	}
	if ch.adapt != nil {
		if err := ch.adapt(c, op); err != nil {
			return nil, err
		}
	}
	if err := op.rename(ch.renamed); err != nil {
		return nil, err
	}
	fixed := append(slices.Clone(ch.fixed), constant(opIDKey, string(quoteJSON(ch.opcode))),
		fixedParameter{"reason", func(c *call) (raw, error) { return c.reasonTrail(nil, librarySource+ch.handler, ""), nil }})
	for _, f := range fixed {
		if _, given := op[f.name]; given {
			return nil, newFailure(http.StatusBadRequest, "Can't overwrite static parameters '%s'", f.name)
		}
		value, err := f.value(c)
		if err != nil {
			return nil, err
		}
		if value != nil {
			op[f.name] = value
		}
	}
	return op, nil
}

// optionalObject is the body; empty if there is none.
func (c *call) optionalObject() (jsonObject, error) {
	if c.body == nil || string(c.body) == "null" {
		return jsonObject{}, nil
	}
	m, err := parseObject(c.body)
	if err != nil {
		return jsonObject{}, err
	}
	return m, nil
}

// rename gives keys the opcode's names. The error is for a body that has both names.
func (o jsonObject) rename(names map[string]string) error {
	for _, key := range o.keys() {
		to, renamed := names[key]
		if !renamed {
			continue
		}
		if _, both := o[to]; both {
			return newFailure(http.StatusBadRequest, "Parameter '%s' was renamed to '%s', but both are specified", key, to)
		}
		o[to] = o[key]
		delete(o, key)
	}
	return nil
}

// clusterResources are the resources of a Ganeti cluster. An operation that changes something submits its opcode.
func clusterResources() []resource {
	all := slices.Concat(instanceKind.resources(), nodeKind.resources(), groupKind.resources(), networkKind.resources(), []resource{
		{"/2/nodes/{name}/role", getOnly("node-role", (*Server).nodeRole)},
		{"/2/instances/{name}/console", getOnly("console", (*Server).console)},
		{"/2/instances/{name}/reinstall", map[string]operation{
			http.MethodPost: {name: "reinstall-instance", serve: (*Server).reinstall},
		}},
		{"/2/os", map[string]operation{
			http.MethodGet: {name: "os", serve: (*Server).operatingSystems, submits: true},
		}},
	})
	for kind, path := range tagPaths {
		all = append(all, resource{path, getOnly(tagName("", path), tagsOf(kind))})
	}
	for i := range changes {
		ch := &changes[i]
		at := slices.IndexFunc(all, func(r resource) bool { return r.path == ch.path })
		if at < 0 {
			at, all = len(all), append(all, resource{ch.path, map[string]operation{}})
		}
		all[at].operations[ch.method] = ch.operation()
	}
	slices.SortFunc(all, func(a, b resource) int { return strings.Compare(a.path, b.path) })
	return all
}

// tagPaths are the paths of tags by the kinds of objects.
var tagPaths = map[string]string{
	"cluster": "/2/tags", "instance": "/2/instances/{name}/tags", "node": "/2/nodes/{name}/tags",
	"nodegroup": "/2/groups/{name}/tags", "network": "/2/networks/{name}/tags",
}

// tagName is the name of an operation on tags of the objects at path; without a verb it is that of the list.
func tagName(verb, path string) string {
	parts := strings.Split(path, "/")
	name := "tags"
	if len(parts) == 5 {
		name = strings.TrimSuffix(parts[2], "s") + "-tags"
	}
	if verb != "" {
		return verb + "-" + name
	}
	return name
}

package rapi

import (
	"slices"
	"strings"

	"lockstep/core/access"
)

// object is a JSON object of the OpenAPI document.
type object = map[string]any

// describeCluster adds the resources of a Ganeti cluster to the paths of the document.
func describeCluster(paths object) {
	for _, r := range clusterResources() {
		path := object{}
		for method, o := range r.operations {
			path[strings.ToLower(method)] = describeOperation(r.path, method, o)
		}
		paths[r.path] = path
	}
}

func describeOperation(path, method string, o operation) object {
	summary, answer, takesBody := describeRead(o.name)
	if i := slices.IndexFunc(changes, func(ch change) bool { return ch.method == method && ch.path == path }); i >= 0 {
		ch := &changes[i]
		summary, answer, takesBody = ch.doc+" ("+ch.opcode+")", object{"type": "integer", "description": "id of the job"}, ch.body == parameters
	}
	described := object{"operationId": o.name, "tags": []string{"ganeti"}, "summary": summary, "responses": object{
		"200": object{
			"description": "what was asked for, or the id of the job",
			"content":     object{"application/json": object{"schema": answer}},
		},
		"default": object{"$ref": "#/components/responses/Failure"}}}
	var parameters []object
	for _, name := range []string{"name", "disk"} {
		if strings.Contains(path, "{"+name+"}") {
			parameters = append(parameters, object{"name": name, "in": "path", "required": true, "schema": object{"type": "string"}})
		}
	}
	if parameters != nil {
		described["parameters"] = parameters
	}
	if o.at(method, path).route.Role == access.None {
		described["security"] = []object{{}, {"basic": []string{}}}
	}
	if takesBody && method != "DELETE" {
		schema := object{"type": "object", "additionalProperties": true}
		described["requestBody"] = object{"content": object{"application/json": object{"schema": schema}}}
	}
	return described
}

// describeRead describes an operation that is no change of one opcode, by its name. Other names are those of tags. takesBody: the request
// has one.
func describeRead(name string) (summary string, answer object, takesBody bool) {
	anyObject := object{"type": "object", "additionalProperties": true}
	texts := object{"type": "array", "items": object{"type": "string"}}
	switch name {
	case "instances", "nodes", "groups", "networks":
		return "All " + name + ": names and links, with bulk=1 all fields", object{"type": "array", "items": anyObject}, false
	case "instance", "node", "group", "network":
		return "One " + name, anyObject, false
	case "node-role":
		roles := []string{"master", "master-candidate", "drained", "offline", "regular"}
		return "The role of a node", object{"type": "string", "enum": roles}, false
	case "console":
		return "How to reach the console of an instance that runs", anyObject, false
	case "reinstall-instance":
		return "Install the operating system of an instance again", object{"type": "integer", "description": "id of the job"}, true
	case "os":
		return "The names of all operating systems, found by a job", texts, false
	}
	return "Tags", texts, false
}

package rapi

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"lockstep/core/access"
	"lockstep/edge/tlsserver"
)

// operation is one method of a resource.
type operation struct {
	name  string // in metrics, logs and the OpenAPI document
	serve func(s *Server, c *call) (any, error)
	// takesBody: a GET has a body, as Ganeti's client sends it.
	takesBody bool
	// submits: a GET submits a job of Ganeti. As for any change, a page of another site may not send it, and it leaves a line.
	submits bool
	route   access.Route
}

// changes reports whether a request may change something.
func (o *operation) changes(r *http.Request) bool {
	return o.submits || !isReadOnly(r.Method) && o.route.Role > access.Read
}

// at is the operation as a method of a path.
func (o operation) at(method, path string) operation {
	o.route = access.RapiRoute(method + " " + path)
	return o
}

// resource is a path with its operations. A segment in braces is a parameter: {id} matches a
// number, so does {disk}, any other a name.
type resource struct {
	path       string
	operations map[string]operation // by HTTP method
}

// resources are all resources.
var resources = append(queueResources, clusterResources()...)

// queueResources are those of Ganeti's queue (queue.md 6.4), lockstep's own below /3, and the paths that monitoring systems use.
var queueResources = []resource{
	{"/", getOnly("root", (*Server).emptyResult)},
	{"/version", getOnly("version", (*Server).version)},
	{"/2", getOnly("root2", (*Server).emptyResult)},
	{"/2/info", getOnly("info", (*Server).info)},
	{"/2/features", getOnly("features", (*Server).features)},
	{"/2/redistribute-config", map[string]operation{
		http.MethodPut: {name: "redistribute-config", serve: (*Server).redistributeConfig}}},
	{"/2/modify", map[string]operation{
		http.MethodPut: {name: "modify", serve: (*Server).modify}}},
	{"/2/jobs", getOnly("jobs", (*Server).jobs)},
	{"/2/jobs/{id}", map[string]operation{
		http.MethodGet:    {name: "job", serve: (*Server).job},
		http.MethodDelete: {name: "cancel", serve: (*Server).cancel}}},
	{"/2/jobs/{id}/wait", map[string]operation{
		http.MethodGet: {name: "wait", serve: (*Server).wait, takesBody: true}}},
	{"/2/filters", map[string]operation{
		http.MethodGet:  {name: "filters", serve: (*Server).filters},
		http.MethodPost: {name: "add-filter", serve: (*Server).addFilter}}},
	{"/2/filters/{uuid}", map[string]operation{
		http.MethodGet:    {name: "filter", serve: (*Server).filter},
		http.MethodPut:    {name: "replace-filter", serve: (*Server).replaceFilter},
		http.MethodDelete: {name: "delete-filter", serve: (*Server).deleteFilter}}},
	{"/2/query/{kind}", map[string]operation{
		http.MethodGet: {name: "query", serve: (*Server).query},
		http.MethodPut: {name: "query-filtered", serve: (*Server).queryFiltered}}},
	{"/2/query/{kind}/fields", getOnly("query-fields", (*Server).queryFields)},

	{"/3/jobs", map[string]operation{
		http.MethodGet:  {name: "list-jobs", serve: (*Server).listJobs},
		http.MethodPost: {name: "submit", serve: (*Server).submit}}},
	{"/3/jobs/{id}", map[string]operation{
		http.MethodDelete: {name: "kill", serve: (*Server).kill}}},
	{"/3/jobs/{id}/archive", map[string]operation{
		http.MethodPut: {name: "archive", serve: (*Server).archive}}},
	{"/3/jobs/{id}/log", getOnly("log", (*Server).log)},
	{"/3/jobs/{id}/log/events", getOnly("log-events", (*Server).followLog)},
	{"/3/jobs/{id}/why", getOnly("why", (*Server).why)},
	{"/3/jobs/{id}/hold", map[string]operation{
		http.MethodPut:    {name: "hold", serve: (*Server).hold},
		http.MethodDelete: {name: "release", serve: (*Server).release}}},
	{"/3/jobs/{id}/time", map[string]operation{
		http.MethodPut: {name: "reschedule", serve: (*Server).reschedule}}},
	{"/3/jobs/{id}/priority", map[string]operation{
		http.MethodPut: {name: "priority", serve: (*Server).priority}}},
	{"/3/filters", getOnly("rules", (*Server).rules)},
	{"/3/filters/test", map[string]operation{
		http.MethodPost: {name: "test-filter", serve: (*Server).testFilter}}},
	{"/3/order", getOnly("order", (*Server).order)},
	{"/3/schedules", getOnly("schedules", (*Server).schedules)},
	{"/3/schedules/{name}", map[string]operation{
		http.MethodGet:    {name: "schedule", serve: (*Server).schedule},
		http.MethodPut:    {name: "put-schedule", serve: (*Server).putSchedule},
		http.MethodDelete: {name: "remove-schedule", serve: (*Server).removeSchedule}}},
	{"/3/schedules/{name}/run", map[string]operation{
		http.MethodPost: {name: "run-schedule", serve: (*Server).runSchedule}}},
	{"/3/schedules/{name}/pause", map[string]operation{
		http.MethodPut:    {name: "pause-schedule", serve: (*Server).pauseSchedule},
		http.MethodDelete: {name: "resume-schedule", serve: (*Server).resumeSchedule}}},
	{"/3/audit", getOnly("audit", (*Server).audit)},
	{"/3/nodes", getOnly("queue-nodes", (*Server).nodes)},
	{"/3/nodes/{node}/master", map[string]operation{
		http.MethodPut: {name: "promote", serve: (*Server).promote}}},
	{"/3/opcodes", getOnly("opcodes", (*Server).opcodes)},
	{"/3/drain", map[string]operation{
		http.MethodPut: {name: "drain", serve: (*Server).drain}}},
	{"/3/locks", getOnly("locks", (*Server).locks)},
	{"/3/status", getOnly("status", (*Server).status)},
	{"/3/settings", map[string]operation{
		http.MethodGet: {name: "settings", serve: (*Server).settings},
		http.MethodPut: {name: "change-settings", serve: (*Server).changeSettings}}},
	{"/3/events", getOnly("events", (*Server).events)},
	{"/3/openapi.json", getOnly("openapi", (*Server).openAPI)},

	{"/metrics", getOnly("metrics", (*Server).scrape)},
	{"/healthz", getOnly("healthz", (*Server).healthz)},
	{"/readyz", getOnly("readyz", (*Server).readyz)},
}

func getOnly(name string, serve func(*Server, *call) (any, error)) map[string]operation {
	return map[string]operation{http.MethodGet: {name: name, serve: serve}}
}

// Routes are the method and path of all operations, such as "GET /2/jobs/{id}", in order.
func Routes() []string {
	var all []string
	for _, r := range resources {
		for method := range r.operations {
			all = append(all, method+" "+r.path)
		}
	}
	slices.Sort(all)
	return all
}

// isReadOnly reports whether a method changes nothing.
func isReadOnly(method string) bool { return method == http.MethodGet || method == http.MethodHead }

// findOperation returns the operation of a request and the parameters in its path. HEAD is GET
// without a body. An unknown path is 404 and an unknown method 405, both without a login.
func findOperation(method, path string) (operation, map[string]string, error) {
	if path == "/2/filters/" { // designs.md "Resources of filter rules" writes it so
		path = "/2/filters"
	}
	for _, r := range resources {
		params, ok := matchPath(r.path, path)
		if !ok {
			continue
		}
		if method == http.MethodHead {
			method = http.MethodGet
		}
		if o, known := r.operations[method]; known {
			return o.at(method, r.path), params, nil
		}
		return operation{}, nil, &Failure{Code: http.StatusMethodNotAllowed, Allow: r.methods(),
			Message: fmt.Sprintf("Method %s is unsupported for path %s", tlsserver.Truncated(method), tlsserver.Truncated(path))}
	}
	return operation{}, nil, &Failure{Code: http.StatusNotFound}
}

// methods are the methods of a resource, in the form of the header Allow.
func (r *resource) methods() string {
	all := slices.Collect(maps.Keys(r.operations))
	if slices.Contains(all, http.MethodGet) {
		all = append(all, http.MethodHead)
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// matchPath compares the escaped path of a request with a pattern. http.ServeMux does not fit: it
// redirects paths that are not clean, and matches escaped characters.
func matchPath(pattern, path string) (params map[string]string, ok bool) {
	want, got := strings.Split(pattern, "/"), strings.Split(path, "/")
	if len(want) != len(got) {
		return nil, false
	}
	for i, w := range want {
		if !strings.HasPrefix(w, "{") {
			if w != got[i] {
				return nil, false
			}
			continue
		}
		name := strings.Trim(w, "{}")
		if !isName(got[i]) || (name == "id" || name == "disk") && !isNumber(got[i]) {
			return nil, false
		}
		if params == nil {
			params = map[string]string{}
		}
		params[name] = got[i]
	}
	return params, true
}

func isName(s string) bool {
	for _, c := range []byte(s) {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		digit := '0' <= c && c <= '9'
		if !letter && !digit && c != '_' && c != '.' && c != '-' {
			return false
		}
	}
	return s != ""
}

func isNumber(s string) bool {
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return false
		}
	}
	return s != ""
}

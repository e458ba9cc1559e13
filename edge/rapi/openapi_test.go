package rapi_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"

	"lockstep/edge/rapi"
)

func openAPI(t *testing.T, b *testServer) *openapi3.T {
	a := b.do("GET", "/3/openapi.json", "", "")
	require.Equal(t, 200, a.code)
	document, err := openapi3.NewLoader().LoadFromData([]byte(a.body))
	require.NoError(t, err)
	require.NoError(t, document.Validate(context.Background()))
	return document
}

// The document has every path and method of the server, and no others.
func TestTheDocumentAndTheResourcesAreTheSame(t *testing.T) {
	var described []string
	for path, item := range openAPI(t, newTestServer(t)).Paths.Map() {
		for method, operation := range item.Operations() {
			described = append(described, method+" "+path+" "+operation.OperationID)
		}
	}
	slices.Sort(described)
	require.Equal(t, rapi.Resources(), described)
}

type openAPIRequest struct{ method, pattern, path, body string }

// clusterRequests are a valid request for each operation on a Ganeti cluster.
func clusterRequests() (all []openAPIRequest) {
	bodies := map[string]string{"create-instance": `{"__version__":1}`, "create-instances": `{"instances":[{}]}`, "set-node-role": `"drained"`}
	queries := map[string]string{"node-storage": "?output_fields=name", "modify-node-storage": "?name=a", "repair-node-storage": "?name=a"}
	for _, resource := range rapi.ClusterResources() {
		parts := strings.Fields(resource)
		path := strings.NewReplacer("{name}", "a", "{disk}", "0").Replace(parts[1])
		all = append(all, openAPIRequest{parts[0], parts[1], path + queries[parts[2]], bodies[parts[2]]})
	}
	return all
}

// For each operation the answer has the form that the document states.
func TestAnswersHaveTheFormOfTheDocument(t *testing.T) {
	b := newTestServer(t)
	document := openAPI(t, b)
	b.luxi.jobs = map[int64]string{7: "queued", 8: "success", 12: "running"}
	b.luxi.filters[uuid1] = map[string]any{"uuid": uuid1, "watermark": 1, "priority": 1, "predicates": []any{}, "action": []any{"RATE_LIMIT", 3}, "reason_trail": []any{}}
	filter := "/2/filters/" + uuid1
	seen := map[string]bool{"GET /3/events": true, "GET /metrics": true, "GET /3/jobs/{id}/log": true, "GET /3/jobs/{id}/log/events": true} // not JSON
	for _, request := range append(clusterRequests(), []openAPIRequest{
		{"GET", "/", "/", ""}, {"GET", "/version", "/version", ""}, {"GET", "/2", "/2", ""}, {"GET", "/2/info", "/2/info", ""},
		{"GET", "/2/features", "/2/features", ""}, {"PUT", "/2/redistribute-config", "/2/redistribute-config", ""}, {"PUT", "/2/modify", "/2/modify", "{}"},
		{"GET", "/2/jobs", "/2/jobs", ""}, {"GET", "/2/jobs", "/2/jobs?bulk=1", ""}, {"GET", "/2/jobs/{id}", "/2/jobs/7", ""}, {"GET", "/2/jobs/{id}", "/2/jobs/9", ""},
		{"GET", "/2/jobs/{id}/wait", "/2/jobs/7/wait", `{"fields":["status"]}`}, {"DELETE", "/2/jobs/{id}", "/2/jobs/7", ""},
		{"GET", "/2/filters", "/2/filters", ""}, {"GET", "/2/filters", "/2/filters?bulk=1", ""}, {"GET", "/2/filters/{uuid}", filter, ""},
		{"POST", "/2/filters", "/2/filters", "{}"}, {"PUT", "/2/filters/{uuid}", filter, "{}"}, {"DELETE", "/2/filters/{uuid}", filter, ""}, {"DELETE", "/2/filters/{uuid}", filter, ""},
		{"GET", "/2/query/{kind}", "/2/query/job?fields=id,nosuch", ""}, {"PUT", "/2/query/{kind}", "/2/query/job", `{"fields":["id"]}`},
		{"GET", "/2/query/{kind}/fields", "/2/query/job/fields", ""},
		{"POST", "/3/jobs", "/3/jobs", `{"ops":[{"OP_ID":"A"}]}`}, {"POST", "/3/jobs", "/3/jobs", `{}`}, {"GET", "/3/jobs/{id}/why", "/3/jobs/7/why", ""},
		{"PUT", "/3/jobs/{id}/time", "/3/jobs/7/time", `{"at":"2026-12-01T03:00:00Z"}`},
		{"PUT", "/3/jobs/{id}/priority", "/3/jobs/7/priority", `{"priority":1}`},
		{"PUT", "/3/jobs/{id}/hold", "/3/jobs/7/hold", ""}, {"DELETE", "/3/jobs/{id}/hold", "/3/jobs/7/hold", ""}, {"GET", "/3/locks", "/3/locks", ""}, {"GET", "/3/status", "/3/status", ""},
		{"GET", "/3/jobs", "/3/jobs?limit=1", ""}, {"GET", "/3/jobs", "/3/jobs?order=sideways", ""},
		{"DELETE", "/3/jobs/{id}", "/3/jobs/7", ""}, {"PUT", "/3/jobs/{id}/archive", "/3/jobs/8/archive", ""},
		{"GET", "/3/schedules", "/3/schedules?limit=1", ""}, {"GET", "/3/schedules", "/3/schedules?limit=x", ""}, {"GET", "/3/schedules/{name}", "/3/schedules/a", ""},
		{"GET", "/3/schedules/{name}", "/3/schedules/nosuch", ""}, {"PUT", "/3/schedules/{name}", "/3/schedules/a", `{"every":60,"jobs":[[{"OP_ID":"A"}]]}`},
		{"PUT", "/3/schedules/{name}", "/3/schedules/a", `{}`}, {"DELETE", "/3/schedules/{name}", "/3/schedules/a", ""}, {"POST", "/3/schedules/{name}/run", "/3/schedules/a/run", ""},
		{"PUT", "/3/schedules/{name}/pause", "/3/schedules/a/pause", ""}, {"DELETE", "/3/schedules/{name}/pause", "/3/schedules/a/pause", ""},
		{"GET", "/3/filters", "/3/filters", ""}, {"POST", "/3/filters/test", "/3/filters/test", `{"action":"PAUSE","for":60}`}, {"GET", "/3/audit", "/3/audit?user=alice&before=9", ""}, {"GET", "/3/order", "/3/order", ""}, {"GET", "/3/order", "/3/order?high=7&limit=1", ""}, {"GET", "/3/nodes", "/3/nodes", ""},
		{"PUT", "/3/nodes/{node}/master", "/3/nodes/n2/master", ""}, {"GET", "/3/opcodes", "/3/opcodes", ""}, {"PUT", "/3/drain", "/3/drain", `{"drained":true}`},
		{"PUT", "/3/settings", "/3/settings", `{"max_running_jobs":3}`},
		{"GET", "/3/settings", "/3/settings", ""}, {"GET", "/3/openapi.json", "/3/openapi.json", ""}, {"GET", "/healthz", "/healthz", ""}, {"GET", "/readyz", "/readyz", ""},
	}...) {
		a := b.do(request.method, request.path, "peer:secret", request.body)
		operation := document.Paths.Find(request.pattern).GetOperation(request.method)
		require.NotNil(t, operation, request.pattern)
		response := operation.Responses.Status(a.code)
		if response == nil {
			require.GreaterOrEqual(t, a.code, 400, request)
			response = operation.Responses.Default()
		}
		schema := response.Value.Content.Get("application/json").Schema.Value
		require.NoError(t, schema.VisitJSON(parsed(t, a.body)), "%s %s: %d %s", request.method, request.path, a.code, a.body)
		if a.code < 300 {
			seen[request.method+" "+request.pattern] = true
		}
	}
	for _, resource := range rapi.Resources() {
		method, rest, _ := strings.Cut(resource, " ")
		path, _, _ := strings.Cut(rest, " ")
		require.True(t, seen[method+" "+path], "no answer of %s %s was looked at", method, path)
	}
	require.Equal(t, http.StatusNotFound, b.do("GET", "/3", "", "").code)
}

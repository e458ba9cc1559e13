package rapi_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/edge/rapi"
)

// changing are the calls of the queue that change something.
var changing = []string{"SubmitJob", "SubmitManyJobs", "LockstepSubmitJobs", "CancelJob", "ArchiveJob", "SetDrainFlag", "ChangeJobPriority", "LockstepHoldJob",
	"ReplaceFilter", "DeleteFilter", "LockstepPutSchedule", "LockstepOrderSchedule", "LockstepSetSettings", "LockstepNodePromote"}

// changes returns the calls that have changed something since the last time.
func (b *testServer) changes() []string {
	b.luxi.mu.Lock()
	defer b.luxi.mu.Unlock()
	var found []string
	for _, asked := range b.luxi.asked {
		if name, _, _ := strings.Cut(asked, "["); slices.Contains(changing, name) {
			found = append(found, name)
		}
	}
	b.luxi.asked = nil
	return found
}

// requestsOfAll are a request for each operation of each resource, with HEAD beside GET. Those that end only with their client are left out.
func requestsOfAll() (all []openAPIRequest) {
	bodies := map[string]string{"submit": `{"ops":[{"OP_ID":"OP_TEST_DELAY"}]}`, "modify": `{}`, "change-settings": `{"tick":1}`, "drain": `{"drained":true}`, "priority": `{"priority":1}`,
		"put-schedule": `{"every":60,"jobs":[[{"OP_ID":"A"}]]}`, "add-filter": `{}`, "replace-filter": `{}`}
	given := clusterRequests()
	for _, resource := range rapi.Resources() {
		parts := strings.Fields(resource)
		if slices.Contains([]string{"events", "log-events", "wait"}, parts[2]) || slices.ContainsFunc(given, func(r openAPIRequest) bool { return r.method == parts[0] && r.pattern == parts[1] }) {
			continue
		}
		given = append(given, openAPIRequest{parts[0], parts[1], paths(parts[1])[0], bodies[parts[2]]})
	}
	for _, r := range given {
		all = append(all, r)
		if r.method == "GET" {
			r.method = "HEAD"
			all = append(all, r)
		}
	}
	return all
}

// Whatever changes something, by any method of any resource, wants the option write, leaves a line in the log, and is refused to pages of
// other sites. A browser sends GET for a picture of any page, with the password that it knows.
func TestWhatChangesSomethingWantsWriteALineAndTheOrigin(t *testing.T) {
	b := newTestServer(t)
	changed := map[string]bool{}
	for _, r := range requestsOfAll() {
		name := r.method + " " + r.pattern
		for _, who := range []string{"", "ro:secret", "reader:secret"} {
			a := b.do(r.method, r.path, who, r.body)
			require.Empty(t, b.changes(), "%s as %q: %d", name, who, a.code)
		}
		b.do(r.method, r.path, "peer:secret", r.body, "Sec-Fetch-Site: cross-site")
		crossed := b.changes()
		b.logs.Reset()
		b.do(r.method, r.path, "peer:secret", r.body, "Sec-Fetch-Site: none")
		if len(b.changes()) == 0 {
			continue
		}
		changed[name] = true
		require.Empty(t, crossed, "%s: a page of another site makes a browser send it", name)
		require.NotEmpty(t, b.logs.AllEntries(), "%s leaves no line", name)
		require.Equal(t, "peer", b.logs.LastEntry().Data["user"], name)
	}
	for _, name := range []string{"GET /2/os", "HEAD /2/os", "GET /2/instances/{name}/info", "GET /2/nodes/{name}/storage", "POST /3/jobs", "PUT /2/modify", "DELETE /2/jobs/{id}", "PUT /3/settings", "PUT /3/schedules/{name}",
		"DELETE /3/schedules/{name}", "POST /3/schedules/{name}/run", "PUT /3/schedules/{name}/pause", "DELETE /3/schedules/{name}/pause"} {
		require.True(t, changed[name], "%s changes nothing in this test", name)
	}
}

// The entry that names the user is the server's. A rule may believe it, so what a client forges is dropped, however it is spelt.
func TestAForgedUserIsDropped(t *testing.T) {
	b := newTestServer(t)
	const forged = `["lockstep:rapi","user=admin",1],["lockstep:r\u0061pi","user=admin",1],["lockstep:user","uid=0(root)",1]`
	for body, method := range map[string]string{
		`{"ops":[{"OP_ID":"OP_TEST_DELAY","reason":[["gnt:user","why",1],` + forged + `,[],"x"]}]}`:                       "SubmitManyJobs",
		`{"jobs":[{"name":"n","ops":[{"OP_ID":"OP_TEST_DELAY","reason":[` + forged + `,["gnt:user","why",1],[],"x"]}]}]}`: "LockstepSubmitJobs",
	} {
		require.Equal(t, 201, b.do("POST", "/3/jobs?reason=asked", "peer:secret", body).code)
		sent := b.luxi.calls(method)
		require.Len(t, sent, 1)
		require.NotContains(t, sent[0], "admin")
		require.NotContains(t, sent[0], "root")
		require.Regexp(t, `"reason":\[\["gnt:user","why",1\],\[\],"x",\["gnt:user","asked",\d+\],\["lockstep:rapi","user=peer",\d+\]\]`, sent[0])
	}
}

// Without Ganeti's programs a job of Ganeti cannot run: a GET that submits one is refused before.
func TestGetsThatSubmitAreOffWithoutGaneti(t *testing.T) {
	b := newTestServer(t, func(c *rapi.Config) { c.Ganeti = false })
	for _, path := range []string{"/2/os", "/2/instances/i/info", "/2/nodes/n/storage?output_fields=name"} {
		require.Contains(t, b.failure(501, b.do("GET", path, "peer:secret", "")), "lockstepd --ganeti", path)
		b.failure(401, b.do("GET", path, "", ""))
		b.failure(403, b.do("GET", path, "reader:secret", ""))
	}
	require.Empty(t, b.changes())
	require.Equal(t, 200, b.do("PUT", "/2/redistribute-config", "peer:secret", "").code)
}

package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/luxi"
	"lockstep/edge/luxiclient"
	"lockstep/sim/longtest"
)

// Lengths of the queue that are compared. With LOCKSTEP_FLAT=200000 the longer queue has that length, and -v prints
// all figures.
const (
	fewQueued  = 2_000
	manyQueued = 50_000
)

// A call may take this many times the duration with few jobs, plus this duration for noise. A call that looks at each
// job takes 25 times as long, and at least 2 ms with 50,000 jobs.
const (
	costRatioMax = 10
	costNoise    = time.Millisecond
)

// listing are the calls that answer with a list or concern many jobs. Their duration may grow with that number.
var listing = map[string]string{
	"/2/jobs":                 "all jobs",
	"/3/events":               "a stream",
	"/3/jobs/{id}/log/events": "a stream",
	"/2/jobs/{id}/wait":       "waits",
	"LockstepListJobs":        "selects among all jobs",
	"LockstepEvents":          "waits",
	"LockstepReportJob":       "called by job processes",
	"LockstepBeginOpcode":     "called by job processes, answered when the job may go on",
	"ReplaceFilter":           "the rule is in force for all jobs when it is answered",
	"DeleteFilter":            "the same",
	"LockstepReplaceFilter":   "the same",
	"LockstepTestFilter":      "judges all jobs",
	"LockstepNodeRemove":      "of a cluster",
	"LockstepNodePromote":     "of a cluster",
	"LockstepNodeCheck":       "compares all files",
	"LockstepRotateConfdKey":  "waits until those who answer have the new key",
	"LockstepUsage":           "reads the files of 5,000 jobs",
}

// callCosts is a daemon with many queued jobs, of which none can start.
type callCosts struct {
	*testing.T
	*client
	remote *remote
	wconf  *client
	someID int64  // one of them
	uuid   string // of a rule
}

// newCallCosts starts a daemon whose two run slots are taken by endless jobs, with n jobs that
// wait for a slot.
func newCallCosts(t *testing.T, n int) *callCosts {
	d := newDaemon(t)
	d.start()
	c := d.dial()
	c.call("LockstepSetSettings", nil, map[string]any{"max_running_jobs": 1})
	c.awaitStatus(c.submit(op{"OP_ID": "OP_TEST_DELAY", "duration": 36000}), "running")
	pattern := c.submit(command("true").with("locks", [][2]string{{"node/a0", "exclusive"}}))
	d.kill()
	d.copyJob(pattern, n)
	remote := d.startRemote("--rapi-tls", "off", "--rapi-allow-commands")
	began := time.Now()
	c = d.dial()
	c.submit(command("true"))
	t.Logf("%d queued: the first submission after the start: %v", n, time.Since(began))
	f := &callCosts{T: t, client: c, remote: remote, someID: pattern + int64(n)/2}
	f.wconf = dialWconf(d)
	c.call("ReplaceFilter", &f.uuid, nil, 9, []any{[]any{"jobid", []any{"==", "id", 1}}}, "ACCEPT", []any{})
	require.Eventually(t, func() bool { // the scheduler has all jobs
		var why struct{ Reasons []struct{ Kind string } }
		f.call("LockstepWhy", &why, f.someID)
		return slices.ContainsFunc(why.Reasons, func(r struct{ Kind string }) bool { return r.Kind == "order" })
	}, patience, 10*time.Millisecond)
	return f
}

func dialWconf(d *daemon) *client {
	c, err := luxiclient.Dial(context.Background(), d.path("run", "socket", "ganeti-wconfd"), luxiclient.Options{AnswerTimeout: patience})
	require.NoError(d.t, err)
	d.t.Cleanup(func() { _ = c.Close() })
	return &client{d.t, c}
}

// copyJob queues n copies of a job after the job, as if a client had submitted them. Each copy
// has a different lock.
func (d *daemon) copyJob(id int64, n int) {
	queue := d.path("lib", "queue")
	content, err := os.ReadFile(filepath.Join(queue, "job-"+itoa(id)))
	require.NoError(d.t, err)
	for i := 1; i <= n; i++ {
		next := bytes.Replace(content, []byte(fmt.Sprintf(`"id": %d,`, id)), []byte(fmt.Sprintf(`"id": %d,`, int(id)+i)), 1)
		next = bytes.Replace(next, []byte("node/a0"), []byte(fmt.Sprintf("node/a%d", i)), 1)
		require.NoError(d.t, os.WriteFile(filepath.Join(queue, "job-"+strconv.Itoa(int(id)+i)), next, 0o600))
	}
	require.NoError(d.t, os.WriteFile(filepath.Join(queue, "serial"), []byte(strconv.Itoa(int(id)+n)+"\n"), 0o600))
}

// shortest returns the shortest time of a few runs of do: a busy machine makes a run longer, never shorter.
func (f *callCosts) shortest(do func()) time.Duration {
	shortest := time.Duration(math.MaxInt64)
	for range 15 {
		began := time.Now()
		do()
		shortest = min(shortest, time.Since(began))
	}
	return shortest
}

// submitted submits a job, which finds no free slot, and returns its id.
func (f *callCosts) submitted() int64 { return f.submit(command("true")) }

// calls are the measured calls, by the name of a method, a function or a route.
func (f *callCosts) calls() map[string]func() {
	filter := []any{"|", []any{"==", "id", f.someID}, []any{"==", "id", f.someID + 1}}
	thousand := make([]int64, 1000)
	for i := range thousand {
		thousand[i] = f.someID - 500 + int64(i)
	}
	calls := map[string]func(){
		"SubmitJob":               func() { f.submitted() },
		"SubmitJobToDrainedQueue": func() { f.call("SubmitJobToDrainedQueue", nil, []op{command("true")}) },
		"SubmitManyJobs":          func() { f.call("SubmitManyJobs", nil, [][]op{{command("true")}, {command("true")}}) },
		"QueryJobs":               func() { f.call("QueryJobs", nil, []int64{f.someID}, []string{"id", "status", "ops"}) },
		"Query":                   func() { f.call("Query", nil, "job", []string{"id", "status"}, filter) },
		"Query lock":              func() { f.call("Query", nil, "lock", []string{"name", "mode", "owner", "pending"}, nil) },
		"WaitForJobChange":        func() { f.call("WaitForJobChange", nil, f.someID, []string{"status"}, nil, nil, 5) },
		"CancelJob":               func() { f.call("CancelJob", nil, f.submitted(), false) },
		"ChangeJobPriority":       func() { f.call("ChangeJobPriority", nil, f.someID, 5) },
		"ArchiveJob":              func() { id := f.submitted(); f.call("CancelJob", nil, id, false); f.call("ArchiveJob", nil, id) },
		"AutoArchiveJobs": func() {
			id := f.submitted()
			f.call("CancelJob", nil, id, false)
			f.call("AutoArchiveJobs", nil, -1, 10)
		},
		"SetDrainFlag":            func() { f.call("SetDrainFlag", nil, false) },
		"SetWatcherPause":         func() { f.call("SetWatcherPause", nil, nil) },
		"QueryFields":             func() { f.call("QueryFields", nil, "job", nil) },
		"QueryTags":               func() { f.call("QueryTags", nil, "cluster", "") },
		"QueryConfigValues":       func() { f.call("QueryConfigValues", nil, []string{"drain_flag", "cluster_name", "watcher_pause"}) },
		"LockstepWhy":             func() { f.call("LockstepWhy", nil, f.someID) },
		"LockstepListJobs, by id": func() { f.call("LockstepListJobs", nil, map[string]any{"ids": []int64{f.someID}}) },
		"LockstepSubmitJobs": func() {
			f.call("LockstepSubmitJobs", nil, []any{map[string]any{"ops": []op{command("true")}, "name": "nightly"}})
		},
		"LockstepReloadOpcodes": func() { f.call("LockstepReloadOpcodes", nil) },
		"LockstepPending":       func() { f.call("LockstepPending", nil, []int64{f.someID}) },
		"LockstepPending, 1000": func() { f.call("LockstepPending", nil, thousand) },
		"LockstepOrder":         func() { f.call("LockstepOrder", nil, nil, nil) },
		"LockstepSetSettings":   func() { f.call("LockstepSetSettings", nil, map[string]any{"predictive": nil}) },
		"QueryExports":          func() { f.call("QueryExports", nil, []string{}, false) },
		"ReplaceFilter": func() {
			f.call("ReplaceFilter", nil, f.uuid, 9, []any{[]any{"jobid", []any{"==", "id", 1}}}, "ACCEPT", []any{})
		},
		"LockstepAwaitJobs": func() { f.call("LockstepAwaitJobs", nil, []int64{f.someID}) },
		"LockstepHoldJob": func() {
			f.call("LockstepHoldJob", nil, f.someID, true)
			f.call("LockstepHoldJob", nil, f.someID, false)
		},
		"LockstepMayOrder":  func() { f.call("LockstepMayOrder", nil, "archive", thousand) },
		"LockstepOrderJobs": func() { f.call("LockstepOrderJobs", nil, "release", thousand) },
		"LockstepPageJobs":  func() { f.call("LockstepPageJobs", nil, map[string]any{"limit": 10}) },
	}
	hash := strings.Repeat("0", 64)
	for name, args := range map[string][]any{ // an error of these is an answer, too
		"PickupJob": {1}, "LockstepNextJobs": {10}, "LockstepCheckSession": {hash}, "LockstepEndSession": {hash}, "LockstepRedeemLink": {hash, hash},
		"LockstepOpenSession": {hash, "root", "root", ""}, "LockstepLoginLink": {}, "LockstepConfigShow": {"cluster", false},
		"LockstepConfigHistory": {map[string]any{}}, "LockstepConfigCheck": {}, "LockstepConfigAdopt": {}, "LockstepConfigDiscard": {},
		"LockstepDistribution": {}, "LockstepListFilters": {}, "LockstepAudit": {map[string]any{}}, "LockstepWhoAmI": {}, "LockstepListGrants": {},
		"LockstepGrant": {"read", "alice"}, "LockstepRevoke": {"read", "alice"}, "LockstepSchedules": {nil},
		"LockstepPutSchedule":   {map[string]any{"name": "nightly", "every_us": 3.6e9, "jobs": []any{map[string]any{"ops": []op{command("true")}}}}, map[string]any{"replace": true}},
		"LockstepOrderSchedule": {"nightly", "resume", nil},
	} {
		calls[name] = func() { _ = f.Call(context.Background(), name, args, nil) }
	}
	for _, name := range []string{"QueryNodes", "QueryInstances", "QueryGroups", "QueryNetworks"} {
		calls[name] = func() { f.call(name, nil, []string{}, []string{"name"}, false) }
	}
	for _, name := range []string{"QueryFilters", "QueryClusterInfo", "LockstepStatus", "LockstepGetSettings", "LockstepOpcodes", "LockstepLocks", "LockstepNodes"} {
		calls[name] = func() {
			args := []any{}
			if name == "QueryFilters" {
				args = []any{nil, []string{"uuid"}}
			}
			f.call(name, nil, args...)
		}
	}
	return calls
}

// lockCalls are the calls of the WConfD socket that concern locks or the configuration.
func (f *callCosts) lockCalls() map[string]func() {
	owner := []any{"test", f.remote.path("run", "livelocks", "test"), os.Getpid()}
	_ = os.WriteFile(owner[1].(string), nil, 0o600)
	calls := map[string]func(){}
	for name, args := range map[string][]any{
		"echo": {"x"}, "readConfig": {}, "verifyConfig": {}, "lockstepConfigHash": {}, "cleanupLocks": {}, "listAllLocks": {}, "listAllLocksOwners": {},
		"listLocksWaitingStatus": {}, "listLocks": {owner}, "hasPendingRequest": {owner}, "freeLocks": {owner},
		"tryUpdateLocks": {owner, []any{[]any{"node/free", "exclusive"}}}, "updateLocksWaiting": {owner, 0, []any{[]any{"node/free", "shared"}}},
		"opportunisticLockUnion": {owner, []any{[]any{"node/free", "shared"}}},
	} {
		calls["wconfd "+name] = func() { _ = f.wconf.Call(context.Background(), name, args, nil) }
	}
	return calls
}

// routes are the GET routes of the remote API.
func (f *callCosts) routes(names []string) map[string]func() {
	calls := map[string]func(){}
	for _, name := range names {
		if listing[name] != "" {
			continue
		}
		path := strings.NewReplacer("{id}", itoa(f.someID), "{uuid}", f.uuid, "{kind}", "node", "{name}", "nightly").Replace(name)
		if name == "/2/query/{kind}" {
			path += "?fields=name"
		}
		calls["GET "+name] = func() {
			require.Less(f.T, f.remote.do("GET", path, "", nil), 500, path)
		}
	}
	return calls
}

// declaredNames are the names that a source file declares and the pattern matches.
func declaredNames(t *testing.T, file, pattern string) []string {
	source, err := os.ReadFile(filepath.Join("..", "..", file))
	require.NoError(t, err)
	var found []string
	for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(source), -1) {
		found = append(found, match[1])
	}
	require.NotEmpty(t, found)
	return found
}

// The cost of an answer does not grow with the length of the queue, except for lists. The test
// fails for a method or route that is neither measured nor excepted with a reason.
func TestNoCallGrowsWithTheQueue(t *testing.T) {
	longtest.Skip(t) // it fills two queues
	long := manyQueued
	if given, err := strconv.Atoi(os.Getenv("LOCKSTEP_FLAT")); err == nil {
		long = given
	}
	routes := declaredNames(t, "edge/rapi/routes.go", `\{"(/[^"]*)", (?:getOnly|map\[string\]operation\{\s*http.MethodGet)`)
	measured := map[string][2]time.Duration{}
	for i, n := range []int{fewQueued, long} {
		f := newCallCosts(t, n)
		for _, calls := range []map[string]func(){f.calls(), f.lockCalls(), f.routes(routes)} {
			for _, name := range slices.Sorted(maps.Keys(calls)) {
				both := measured[name]
				both[i] = f.shortest(calls[name])
				measured[name] = both
			}
		}
		f.remote.kill()
		f.remote.endJobs()
	}
	for _, method := range luxi.Methods() {
		require.True(t, listing[method] != "" || measured[method][1] > 0, "%s is not measured", method)
	}
	var bad []string
	for _, name := range slices.Sorted(maps.Keys(measured)) {
		both := measured[name]
		line := fmt.Sprintf("%-28s %10v %10v", name, both[0].Round(time.Microsecond), both[1].Round(time.Microsecond))
		t.Log(line)
		if listing[name] == "" && both[1] > costRatioMax*both[0]+costNoise {
			bad = append(bad, line)
		}
	}
	require.Empty(t, bad, "these take longer with %d queued jobs than with %d", long, fewQueued)
}

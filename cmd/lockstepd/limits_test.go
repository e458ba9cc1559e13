package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// memoryMax is the most memory that a daemon with a few jobs may take, in bytes, for any
// request.
const memoryMax = 700 << 20

// highWater is the most memory that the daemon has taken so far, in bytes.
func (d *daemon) highWater() int {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.cmd.Process.Pid))
	require.NoError(d.t, err)
	_, rest, found := strings.Cut(string(status), "VmHWM:")
	require.True(d.t, found)
	kilobytes, err := strconv.Atoi(strings.Fields(rest)[0])
	require.NoError(d.t, err)
	return kilobytes << 10
}

// greedyPattern is a pattern of 27 kB that takes 320 MB when it is compiled.
var greedyPattern = strings.Repeat(`\pL{1000}`, 3000)

func TestPatternsDoNotTakeTheMemory(t *testing.T) {
	d := newDaemon(t)
	d.start()
	filter := []any{"|"}
	for i := range 6 {
		filter = append(filter, []any{"=~", "status", greedyPattern + strconv.Itoa(i)})
	}
	err := d.dial().Call(context.Background(), "Query", []any{"job", []string{"id"}, filter}, nil)
	require.ErrorContains(t, err, "Failed to parse request: Query: argument 3: filter[1][2]: the pattern")
	require.ErrorContains(t, err, "Unicode classes")
	err = d.dial().Call(context.Background(), "ReplaceFilter",
		[]any{nil, 0, []any{[]any{"opcode", filter}}, "PAUSE", []any{}}, nil)
	require.ErrorContains(t, err, "predicates")
	require.Less(t, d.highWater(), memoryMax)
	c := d.dial()
	require.Equal(t, "success", c.await(c.submit(command("true"))).Status)
}

// A rule with greedy patterns, put into the configuration by another program or a former
// version, does not prevent the start of the daemon.
func TestARuleWithGreedyPatternsDoesNotKeepTheDaemonDown(t *testing.T) {
	d := newDaemon(t)
	d.start()
	require.Equal(t, 0, d.stop())
	const uuid = "aaaaaaaa-0000-4000-8000-000000000000"
	content, err := os.ReadFile(d.path("lib", "config.data"))
	require.NoError(t, err)
	var document map[string]any
	require.NoError(t, json.Unmarshal(content, &document))
	expression := []any{"|"}
	for i := range 6 {
		expression = append(expression, []any{"=~", "comment", greedyPattern + strconv.Itoa(i)})
	}
	document["filters"] = map[string]any{uuid: map[string]any{"uuid": uuid, "watermark": 0, "priority": 0, "action": "PAUSE",
		"predicates": []any{[]any{"opcode", expression}}, "reason_trail": []any{}}}
	content, err = json.Marshal(document)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(d.path("lib", "config.data"), content, 0o600))

	d.start()
	c := d.dial()
	require.Equal(t, "success", c.await(c.submit(command("true"))).Status)
	require.Contains(t, d.logged(), "filter rule cannot be compiled; it applies to no job")
	require.Contains(t, d.logged(), uuid)
	var rules struct{ Data []any }
	c.call("Query", &rules, "filter", []string{"uuid"}, nil)
	require.Len(t, rules.Data, 1, "it is listed")
	c.call("DeleteFilter", nil, uuid)
	c.call("Query", &rules, "filter", []string{"uuid"}, nil)
	require.Empty(t, rules.Data)
	require.Less(t, d.highWater(), memoryMax)
}

func TestRepetitionsDoNotTakeTheMemory(t *testing.T) {
	d := newDaemon(t)
	d.start()
	c := d.dial()
	id := c.submit(command("true").with("comment", strings.Repeat("x", 100_000)))
	second := c.submit(command("true"))
	ids := make([]int64, 1_000_000)
	for i := range ids {
		ids[i] = id
	}
	ids[10] = second
	var rows [][]any
	c.call("QueryJobs", &rows, ids, []string{"id"})
	require.Equal(t, [][]any{{float64(id)}, {float64(second)}}, rows)

	fields := make([]string, 100_000)
	for i := range fields {
		fields[i] = "ops"
	}
	for method, args := range map[string][]any{
		"QueryJobs":        {[]int64{id}, fields},
		"Query":            {"job", fields, nil},
		"WaitForJobChange": {id, fields, nil, nil, 1},
	} {
		require.ErrorContains(t, c.Call(context.Background(), method, args, nil), "The answer would be larger than", method)
	}
	require.Less(t, d.highWater(), 3*memoryMax)
}

package calls

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/config/reserve"
)

// difference is an answer that deliberately differs from the recorded one.
type difference struct {
	row     string // of config.md 12
	result  string // our result as JSON, or part of the text of our error
	class   string // class of our error; "" for a result
	changes int    // number of changed values of the configuration
}

// differences lists all answers that differ from the recorded ones, by the name of the record.
var differences = map[string]difference{
	"addInstance-commits-reservations#6":    {row: "12.5", result: "true"},
	"attachInstanceDisk#1":                  {row: "12.5", result: "true"},
	"commitReleaseTemporaryIp#1":            {row: "12.5", result: "[]"},
	"removeInstance#1":                      {row: "12.5", result: "true"},
	"removeInstance-unknown#0":              {row: "12.5", result: "true"},
	"reserveIp#1":                           {row: "12.5", result: "[]"},
	"reserveMAC#1":                          {row: "12.5", result: "[]"},
	"death-without-locks#3":                 {row: "12.6", result: "[]"},
	"reserveIp-small-and-big#0":             {row: "12.7", class: "ReservationError", result: "at least a /30 network"},
	"reserveIp-small-and-big#1":             {row: "12.7", class: "ReservationError", result: "at most a /16 network"},
	"reserveLV-in-config#0":                 {row: "12.8", class: "ReservationError", result: "LV already in use"},
	"reserveLV-in-config#1":                 {row: "12.8", class: "ReservationError", result: "LV already in use"},
	"reserveLV-with-forthcoming-instance#0": {row: "12.8", result: "[]"},
	"updateNetwork-wrong-values#2":          {row: "12.9", class: "GenericError", result: "RPC input: "},
	"addInstance-replace-with-same-mac#0":   {row: "12.10", result: "true", changes: 12},
	"addInstanceDisk-uuid-in-use#0":         {row: "12.10", class: "ConfigurationError", result: "already in use"},
	"addInstanceDisk-uuid-in-use#1":         {row: "12.10", class: "ConfigurationError", result: "already in use"},
	"addInstanceDisk-replace-absent#0":      {row: "12.10", class: "ConfigurationError", result: "not present"},
	"addInstanceDisk-replace-absent#1":      {row: "12.10", class: "ConfigurationError", result: "not present"},
	"removeInstance-ip-not-used#0":          {row: "12.11", class: "ReservationError", result: "instance inst1.gold.example, NIC 0: IP 10.0.0.2 is not used by an instance"},
	"removeInstance-network-gone#0":         {row: "12.11", class: "ReservationError", result: "instance inst1.gold.example, NIC 0: Network"},
}

// kept are records that are marked as faults of Ganeti, but whose answer stays the same.
var kept = []string{"verifyConfig#0", "verifyConfig-hvparams#0", "verifyConfig-keys#0", "verifyConfig-forthcoming-is-fine#0"}

// TestRecordedCalls replays all calls that were recorded with Ganeti's daemon.
func TestRecordedCalls(t *testing.T) {
	base, all := records(t)
	used, calls, marked := map[string]bool{}, 0, 0
	var p *player
	var current string
	for _, r := range all {
		name, _, isStep := strings.Cut(r.Name, "#")
		if !isStep {
			continue
		}
		if name != current {
			current, p = name, newPlayer(t, base, r.Setup)
		}
		t.Run(r.Name, func(t *testing.T) {
			p.t = t
			if r.Request != nil {
				calls++
			}
			if r.Bug != "" {
				marked++
				_, listed := differences[r.Name]
				require.True(t, listed != slices.Contains(kept, r.Name), "marked as a fault of Ganeti, and neither answered better nor kept")
			}
			p.check(r, used)
		})
	}
	require.Len(t, used, len(differences), "a listed difference does not exist")
	require.Equal(t, 266, calls)
	require.Equal(t, 17, marked)
}

func (p *player) check(r record, used map[string]bool) {
	t := p.t
	switch {
	case r.Die != "":
		dead := p.cids[r.Die[len("cid")]-'0']
		p.state.Reserved = p.state.Reserved.DropDead(
			func(c reserve.Caller) bool { return c.Known && c.Owner == dead }, p.state.Config.Disks.Has)
		return
	case r.File != "":
		content, err := json.Marshal(r.Content)
		require.NoError(t, err)
		require.JSONEq(t, string(p.argument(content)), string(p.state.Reserved.Encode()))
		return
	}
	var args []json.RawMessage
	for _, a := range r.Request.Args {
		args = append(args, p.argument(a))
	}
	if r.Save != "" {
		p.saved[r.Save] = args[0]
	}
	p.now++
	before := p.state.Config.JSON()
	answer := p.play(r.Request.Method, args)
	changes := p.changes(before)
	d, listed := differences[r.Name]
	if !listed {
		require.True(t, like(r.Response, answer), "want %v\ngot  %v", r.Response, answer)
		require.True(t, likeChanges(r.Diff, changes), "want %v\ngot  %v", r.Diff, changes)
		return
	}
	used[r.Name] = true
	require.False(t, like(r.Response, answer) && likeChanges(r.Diff, changes), "there is no difference")
	require.Len(t, changes, d.changes)
	got := answer.(map[string]any)
	if d.class != "" {
		require.Equal(t, false, got["success"])
		require.Equal(t, d.class, got["result"].([]any)[0])
		require.Contains(t, got["result"].([]any)[1].([]any)[0], d.result)
		return
	}
	require.Equal(t, true, got["success"])
	var want any
	require.NoError(t, json.Unmarshal([]byte(d.result), &want))
	require.Equal(t, want, got["result"])
}

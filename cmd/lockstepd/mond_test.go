package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// reportOf returns the data of a report of a daemon; nil: it does not answer, or has none.
func reportOf(address, path, user string) map[string]any {
	r, err := http.NewRequest(http.MethodGet, "http://"+address+"/1/report/"+path, http.NoBody)
	if err != nil {
		return nil
	}
	if user != "" {
		r.SetBasicAuth(user, "secret")
	}
	response, err := (&http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	if err != nil {
		return nil
	}
	defer response.Body.Close()
	var report struct{ Data map[string]any }
	if json.NewDecoder(response.Body).Decode(&report) != nil {
		return nil
	}
	return report.Data
}

// awaitReport returns the data of a report when it is as wanted.
func awaitReport(t *testing.T, address, path, user string, wanted func(data map[string]any) bool) map[string]any {
	t.Helper()
	var last map[string]any
	require.Eventually(t, func() bool {
		last = reportOf(address, path, user)
		return last != nil && wanted(last)
	}, 60*time.Second, 50*time.Millisecond, "last report of %s: %v", path, last)
	return last
}

func TestMondShowsARunningJob(t *testing.T) {
	address := loopback(t, 1)[0] // first: it is given back when the daemon has ended
	d := newDaemon(t)
	require.NoError(t, os.MkdirAll(d.path("lib", "rapi"), 0o750))
	require.NoError(t, os.WriteFile(d.path("lib", "rapi", "users"), []byte("reader secret read\n"), 0o600))
	d.start("--mond-address", address)
	id := d.dial().submit(command("sleep", "60"))
	running := awaitReport(t, address, "daemon/processes", "reader", func(data map[string]any) bool { return data["count"] == 1.0 })
	row := running["jobs"].([]any)[0].([]any)
	require.Equal(t, float64(id), row[0])
	require.Greater(t, row[2], 1e6)
	require.InDelta(t, float64(time.Now().Unix()), row[4], 120)
	pid := strconv.Itoa(int(row[1].(float64)))
	line, err := os.ReadFile("/proc/" + pid + "/cmdline")
	require.NoError(t, err)
	require.Contains(t, string(line), "lockstep-job")
	require.Empty(t, reportOf(address, "daemon/processes", "")["jobs"])
	awaitReport(t, address, "daemon/queue", "", func(data map[string]any) bool { return data["started_total"] == 1.0 })
	require.Equal(t, 0.0, running["orphans"])
}

func memberReport(m *member, path string) map[string]any { return reportOf(m.mond, path, "") }

// Each node reports in every role, and through a failover.
func TestMondThroughAFailover(t *testing.T) {
	addresses := map[string]string{}
	c := newClusterAt(t, loopback(t, 3), func(_ int, m *member) {
		host, _, err := net.SplitHostPort(m.address)
		require.NoError(t, err)
		m.mond = net.JoinHostPort(host, "1815")
		addresses[m.name] = m.mond
		m.flags = []string{"--mond-address", m.mond}
	})
	roles := func() string {
		var all []string
		for _, m := range c.nodes {
			if data := memberReport(m, "daemon/replication"); data != nil {
				all = append(all, fmt.Sprint(data["role"]))
			}
		}
		return strings.Join(all, " ")
	}
	require.Eventually(t, func() bool {
		return strings.Count(roles(), "leader") == 1 && strings.Count(roles(), "follower") == 2
	}, 60*time.Second, 100*time.Millisecond, "roles: %s", roles())
	var master *member
	for _, m := range c.nodes {
		if memberReport(m, "daemon/replication")["role"] == "leader" {
			master = m
		}
	}
	leader := awaitReport(t, master.mond, "daemon/replication", "", func(data map[string]any) bool {
		members := data["members"].([]any)
		return len(members) == 3 && members[2].([]any)[2] == true && data["status"].(map[string]any)["code"] == 0.0
	})
	require.Greater(t, leader["term"], 0.0)
	require.Nil(t, leader["leader"], "names need a login")
	for _, m := range c.nodes {
		config := awaitReport(t, m.mond, "daemon/config", "", func(data map[string]any) bool { return data["readable"] == true })
		require.Greater(t, config["serial"], 0.0, m.name)
		queue := memberReport(m, "daemon/queue")
		require.Equal(t, m == master, queue["jobs"] != nil, m.name)
	}

	// Reports of the other nodes are asked for during the whole failover: every question is answered at once.
	stop, slowest := make(chan struct{}), make(chan time.Duration, 1)
	go func() {
		longest := time.Duration(0)
		for {
			for _, m := range c.nodes {
				if m == master {
					continue
				}
				begin := time.Now()
				if memberReport(m, "daemon/queue") == nil {
					longest = time.Hour
				}
				longest = max(longest, time.Since(begin))
			}
			select {
			case <-stop:
				slowest <- longest
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	master.kill()
	require.Eventually(t, func() bool {
		return strings.Count(roles(), "leader") == 1 && strings.Count(roles(), "follower") == 1
	}, 60*time.Second, 50*time.Millisecond, "roles: %s", roles())
	close(stop)
	require.Less(t, <-slowest, 2*time.Second)
	for _, m := range c.nodes {
		if m == master || memberReport(m, "daemon/replication")["role"] != "leader" {
			continue
		}
		awaitReport(t, m.mond, "daemon/queue", "", func(data map[string]any) bool { return data["jobs"] != nil })
		degraded := awaitReport(t, m.mond, "daemon/replication", "", func(data map[string]any) bool { return data["status"].(map[string]any)["code"] == 1.0 })
		require.Contains(t, degraded["status"].(map[string]any)["message"], "a majority stands")
		require.Greater(t, degraded["term"], leader["term"])
	}
}

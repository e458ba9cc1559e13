package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	notBegunJobs  = flag.Int("notbegun.jobs", 200, "jobs of the test that kills the daemon while jobs start")
	notBegunKills = flag.Int("notbegun.kills", 10, "how often that test kills the daemon")
)

// A daemon that is killed while jobs start fails none of them, and none runs twice.
func TestAKilledDaemonFailsNoJob(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	trace := d.path("trace")
	jobs := make([][]op, *notBegunJobs)
	for i := range jobs {
		jobs[i] = []op{command("sh", "-c", "sleep 0.005; echo $LOCKSTEP_JOB_ID >> "+trace)}
	}
	ids := d.dial().submitMany(jobs)
	random := rand.New(rand.NewPCG(1, 1))
	for range *notBegunKills {
		time.Sleep(time.Duration(20+random.IntN(280)) * time.Millisecond) // the moment of the kill
		d.kill()
		d.start()
	}
	c := d.dial()
	for _, id := range ids {
		j := c.await(id)
		require.Equal(t, "success", j.Status, "job %d: %s", id, j.Results)
	}
	ran, err := os.ReadFile(trace)
	require.NoError(t, err)
	counts := map[string]int{}
	for _, id := range strings.Fields(string(ran)) {
		counts[id]++
	}
	for _, id := range ids {
		require.Equal(t, 1, counts[fmt.Sprint(id)], "job %d", id)
	}
}

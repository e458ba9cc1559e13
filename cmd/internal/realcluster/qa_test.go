//go:build linux

package realcluster

import (
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// qaMax bounds the tests of Ganeti's QA, which sleep and start a program for each question: a minute on a quiet machine.
const qaMax = 15 * time.Minute

// TestQA runs Ganeti's own tests of jobs and filter rules, unmodified, with lockstep in the place of its daemons
// (cmd/internal/conformance/qa/run.py).
func TestQA(t *testing.T) {
	c := newCluster(t)
	c.install(t)
	c.copyTree("../conformance/qa", 0, "/srv/qa")
	c.exchange(t, "swap")
	started := time.Now()
	out, status := c.runFor(qaMax, 0, "PYTHONPATH=/usr/share/ganeti/default /usr/bin/python3 /srv/qa/run.py /usr/share/ganeti/testsuite")
	t.Logf("Ganeti's QA: %.1f s", time.Since(started).Seconds())
	require.Zero(t, status, "%s", out)
	require.Len(t, regexp.MustCompile(`(?m)^qa_(job|filters)\.Test\w+: passed$`).FindAllString(out, -1), 14, "%s", out)
	c.checkLogs(t)
	c.exchange(t, "back")
}

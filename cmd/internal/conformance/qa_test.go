package conformance

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// qaMax bounds the tests of Ganeti's QA, which sleep and start a program for each question: a minute on a quiet machine.
const qaMax = 15 * time.Minute

// TestConformanceQA runs Ganeti's own tests of jobs and filter rules, unmodified (qa/run.py).
func TestConformanceQA(t *testing.T) {
	programs := os.Getenv(packages)
	if programs == "" {
		t.Skipf("NOT RUN: %s is not set; `make conformance` fetches Ganeti's QA and sets it", packages)
	}
	t.Parallel()
	s := &site{t: t, programs: programs}
	s.make("--rapi-address=")
	runner, err := filepath.Abs("qa/run.py")
	require.NoError(t, err)
	out := s.runFor(qaMax, "/usr/bin/python3 "+runner+" "+filepath.Join(programs, "usr/share/ganeti/testsuite"), 0)
	require.Len(t, regexp.MustCompile(`(?m)^qa_(job|filters)\.Test\w+: passed$`).FindAllString(out, -1), 14, "%s", out)
	require.NotContains(t, out, "FAILED")
}

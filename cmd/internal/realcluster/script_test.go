//go:build linux

package realcluster

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"lockstep/cmd/internal/steady"
)

// play runs a text script on the cluster. Its verbs:
//
//	sh [node=N] [status=N]   a shell script on node N, by default 1; its exit status must be N, by default 0
//	eventually [node=N]      a shell script that is repeated until its output is the expected one, for a minute at most: files of
//	                         ssconf are written after the answer, by Ganeti's daemons too
//	config                   the values in config.data at paths such as instances/name=web/nics/0/ip
//
// The expected text is the same for the daemons of Ganeti and for lockstep.
func (c *cluster) play(t *testing.T, path string) {
	started := time.Now()
	text := steady.Text{}
	datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
		switch d.Cmd {
		case "sh":
			node, want := 1, 0
			d.MaybeScanArgs(t, "node", &node)
			d.MaybeScanArgs(t, "status", &want)
			out, status := c.run(node-1, d.Input)
			if status != want {
				t.Errorf("%s: exit status %d, wanted %d\n%s", d.Pos, status, want, out)
			}
			return text.Steady(ofOneRun(out))
		case "eventually":
			node := 1
			d.MaybeScanArgs(t, "node", &node)
			for end := time.Now().Add(eventuallyMax); ; {
				out, _ := c.run(node-1, d.Input)
				if out = text.Steady(ofOneRun(out)); out == d.Expected || time.Now().After(end) {
					return out
				}
			}
		case "config":
			return text.Steady(ofOneRun(c.config(t, strings.Fields(d.Input))))
		default:
			d.Fatalf(t, "no such verb: %s", d.Cmd)
			return ""
		}
	})
	t.Logf("%s: %.1f s", path, time.Since(started).Seconds())
}

// eventuallyMax bounds the time in which a script gives the expected output.
const eventuallyMax = time.Minute

var (
	jobIDs          = regexp.MustCompile(`\b(for job|Submitted jobs|Job) \d+(, \d+)*`)
	progress        = regexp.MustCompile(`(?m)^.*(to sync disks|disks are in sync|receiving data|sending data).*\n`)
	hardwareAddress = regexp.MustCompile(`\b([0-9a-f]{2}:){5}[0-9a-f]{2}\b`)
)

// ofOneRun replaces the ids of jobs, which depend on the number of watchers, and the hardware addresses. It removes
// messages whose number and order depend on the time that others take.
func ofOneRun(text string) string {
	text = progress.ReplaceAllString(text, "")
	return hardwareAddress.ReplaceAllString(jobIDs.ReplaceAllString(text, "$1 N"), "MAC")
}

// config returns a line with the path and the value for each path.
func (c *cluster) config(t *testing.T, paths []string) string {
	data, err := os.ReadFile(c.nodes[0].Path("var/lib/ganeti/config.data"))
	require.NoError(t, err)
	var document any
	require.NoError(t, json.Unmarshal(data, &document))
	var out strings.Builder
	for _, path := range paths {
		value, err := json.Marshal(at(document, strings.Split(path, "/")))
		require.NoError(t, err)
		fmt.Fprintf(&out, "%s: %s\n", path, value)
	}
	return out.String()
}

// at returns the value at a path, nil if there is none. A step is a key, an index, key=value, which selects the
// object in which the key has the value, or *, after which the rest of the path is for each member of an object.
func at(value any, steps []string) any {
	for i, step := range steps {
		var members []any
		switch v := value.(type) {
		case map[string]any:
			if member, exists := v[step]; exists {
				value = member
				continue
			}
			for _, member := range v {
				members = append(members, member)
			}
		case []any:
			var index int
			if _, err := fmt.Sscanf(step, "%d", &index); err == nil && index < len(v) {
				value = v[index]
				continue
			}
			members = v
		}
		if step == "*" {
			values := []string{}
			for _, member := range members {
				values = append(values, fmt.Sprint(at(member, steps[i+1:])))
			}
			slices.Sort(values)
			return values
		}
		key, want, _ := strings.Cut(step, "=")
		i := slices.IndexFunc(members, func(member any) bool {
			object, isObject := member.(map[string]any)
			return isObject && object[key] == want
		})
		if i < 0 {
			return nil
		}
		value = members[i]
	}
	return value
}

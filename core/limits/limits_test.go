package limits

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLimits(t *testing.T) {
	l, err := Parse(json.RawMessage(`{"memory": "2G", "cpus": 1.5, "tasks": 200, "io_weight": 50, "nice": 10}`))
	require.NoError(t, err)
	require.Equal(t, Limits{Size{2_000_000_000, "2G"}, 1.5, 200, 50, 10}, l)
	require.Equal(t, []string{"memory", "cpu", "pids", "io"}, l.Controllers())
	again, err := json.Marshal(l)
	require.NoError(t, err)
	require.JSONEq(t, `{"memory": "2G", "cpus": 1.5, "tasks": 200, "io_weight": 50, "nice": 10}`, string(again))
	l, err = Of(json.RawMessage(`{"OP_ID": "OP_RUN_COMMAND", "limits": {"memory": 4194304, "nice": 0}}`))
	require.NoError(t, err)
	require.EqualValues(t, 4194304, l.Memory.Bytes)
	for _, none := range []string{`{}`, `{"limits": null}`, `{"argv": ["\"limits\""]}`, `{"limits": {"nice": 19}}`} {
		l, err := Of(json.RawMessage(none))
		require.NoError(t, err, none)
		require.False(t, l.NeedsGroup(), none)
	}
}

// Every other value is refused, with what is wanted of which member.
func TestWhatIsNoLimit(t *testing.T) {
	for value, member := range map[string]string{
		`5`: "", `"2G"`: "", `[]`: "",
		`{"memory": "banana"}`: "memory", `{"memory": -1}`: "memory", `{"memory": "1k"}`: "memory", `{"memory": null}`: "memory",
		`{"memory": "9999999T"}`: "memory", `{"memory": ""}`: "memory", `{"memory": "2X"}`: "memory", `{"memory": "1.2.3G"}`: "memory",
		`{"cpus": 0}`: "cpus", `{"cpus": "2"}`: "cpus", `{"cpus": 1e9}`: "cpus", `{"tasks": 0}`: "tasks", `{"tasks": 1.5}`: "tasks",
		`{"io_weight": 10001}`: "io_weight", `{"nice": -1}`: "nice", `{"nice": 20}`: "nice", `{"swap": 1}`: "swap",
	} {
		_, err := Parse(json.RawMessage(value))
		var mistake *Mistake
		require.ErrorAs(t, err, &mistake, value)
		require.Equal(t, member, mistake.Member, value)
		require.NotEmpty(t, mistake.Want)
	}
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]int64{"2G": 2e9, "2GB": 2e9, "2GiB": 2 << 30, "512mi": 512 << 20, "1.5M": 1_500_000, "1048576": 1 << 20} {
		s, err := ParseSize(text)
		require.NoError(t, err, text)
		require.Equal(t, Size{want, text}, s)
	}
}

// A node that cannot enforce a limit says what it lacks, and what to do.
func TestWhatANodeCannotLimit(t *testing.T) {
	memory, nice := Limits{Memory: Size{1 << 30, "1Gi"}}, Limits{Nice: 5}
	unit := "/sys/fs/cgroup/lockstep.slice/lockstep-jobs.service"
	require.Empty(t, Node{}.Refusal(nice), "it needs no group")
	require.Equal(t, "this node cannot limit memory: its daemon has no control group for jobs; start lockstepd with --job-cgroup", Node{}.Refusal(memory))
	require.Equal(t, "this node cannot limit memory: no memory controller in "+unit+
		"; add Delegate=memory to the unit of that group, and start the unit again",
		Node{Group: unit, Controllers: []string{"cpu", "pids"}}.Refusal(memory))
	users := "/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/lockstep.slice/lockstep-jobs.service"
	require.Equal(t, "this node cannot limit processor time: no cpu controller in "+users+"; add Delegate=cpu to [Service] in "+
		"/etc/systemd/system/user@.service.d/lockstep.conf, as root, and start user@1000.service again",
		Node{Group: users, Controllers: []string{"memory", "pids"}}.Refusal(Limits{CPUs: 1}))
	require.Equal(t, "this node cannot limit processor time: it is not there", Node{Group: unit, Unusable: "it is not there"}.Refusal(Limits{CPUs: 1}))
	require.Empty(t, Node{Group: unit, Controllers: []string{"memory"}}.Refusal(memory))
	require.Contains(t, Node{Group: unit, Controllers: []string{"memory"}}.Refusal(Limits{Memory: memory.Memory, Tasks: 5}), "no pids controller")
}

func TestSettingsOfAGroup(t *testing.T) {
	l := Limits{Size{2_000_000_000, "2G"}, 1.5, 200, 5000, 10}
	var files [][2]string
	for _, s := range l.Settings() {
		files = append(files, s.Files...)
	}
	require.Equal(t, [][2]string{{"memory.max", "2000000000"}, {"memory.swap.max", "0"}, {"memory.oom.group", "1"}, {"cpu.max", "150000 100000"},
		{"pids.max", "200"}, {"io.weight", "default 5000"}, {"io.bfq.weight", "1000"}}, files)
	require.Empty(t, Limits{Nice: 5}.Settings())
	require.Equal(t, "out of memory (limit 2G)", l.OutOfMemoryText())
}

package sim

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// walk is a way through the actors that docs/walks.md tells.
type walk struct {
	title string // the heading in docs/walks.md
	nodes int
	act   func(t *testing.T, w *World)
	// The walk begins with the first line of the trace that contains from, and ends with the first after it that contains to.
	from, to string
	// What is on its way meanwhile belongs to another walk: actors are those of this one, nil for all; beside are messages.
	actors, beside []string
}

var walks = []walk{
	{title: "A submission", nodes: 1, act: submitOne("run run_for=1"), from: "conn.Opened", to: "ProcessConfirmed"},
	{title: "A lock", nodes: 1, act: submitOne("run run_for=1 locks=node/n1"), from: "wconfd <- *conn.Opened", to: "process executes",
		beside: []string{"messages.ProcessConfirmed", "jobs.handshakeEnded"}},
	{title: "A replicated write", nodes: 3, act: submitOne("run run_for=1"), from: "replicator <- *messages.AccessStore", to: "process has named its lock file",
		actors: []string{"node/replicator", "node/store", "node/store/writer", "daemon/queue"}, beside: []string{"messages.PickJob", "messages.AnnounceStore"}},
	{title: "A change of the configuration", nodes: 1, from: "wconfd <- *conn.Opened", to: "client", act: func(_ *testing.T, w *World) {
		s := newConfigSession(newConfigWork(w, 0, 0, nil), w.newClient())
		s.call("allocatePort", nil, never, func(configAnswer) {})
		w.RunReady()
	}},
}

func submitOne(opcode string) func(*testing.T, *World) {
	return func(t *testing.T, w *World) {
		jobs, err := parseJobs(opcode)
		require.NoError(t, err)
		c := w.newClient()
		c.rpc.node = w.decider
		c.submit(jobs, nil)
		w.RunFor(300 * time.Millisecond)
	}
}

// The tables of docs/walks.md have the messages of a recorded trace, in their order.
func TestWalks(t *testing.T) {
	page, err := os.ReadFile("../docs/walks.md")
	require.NoError(t, err)
	for _, k := range walks {
		t.Run(k.title, func(t *testing.T) {
			require.Equal(t, strings.Join(k.record(t), "\n"), strings.Join(toldSteps(string(page), k.title), "\n"))
		})
	}
}

// record returns the messages of a walk, each as "actor <- message".
func (k walk) record(t *testing.T) (steps []string) {
	acting, in, out := false, false, false
	sink := func(l Line) {
		text := l.Text()
		in, out = in || acting && strings.Contains(text, k.from), out || in && strings.Contains(text, k.to)
		if in && !out && l.topic == topicDelivery {
			steps = append(steps, text)
		}
	}
	w := New(Options{Seed: 1, Nodes: k.nodes, Networks: true, Sink: sink})
	if k.nodes == 1 {
		require.NoError(t, w.Start())
	}
	w.restartAfter = restartDelay
	for _, n := range w.nodes {
		n.startAgain()
	}
	w.RunFor(30 * time.Second)
	acting = true
	k.act(t, w)
	require.NoError(t, w.Err())
	return k.ofActors(steps)
}

var (
	deliveryLine = regexp.MustCompile(`^(?:n\d: )?(\S+) <- \*(\S+)$`)
	incarnation  = regexp.MustCompile(`[-.]\d+(\.\d+)?$`)
	toldStep     = regexp.MustCompile("(?m)^\\| `(\\S+)` \\| `(\\S+)` \\|")
)

// ofActors leaves out the framework's own messages, those of other actors, and the numbers of children.
func (k walk) ofActors(lines []string) (steps []string) {
	for _, line := range lines {
		m := deliveryLine.FindStringSubmatch(line)
		if m == nil || strings.HasPrefix(m[2], "actor.") {
			continue
		}
		name, message := incarnation.ReplaceAllString(m[1], ""), m[2]
		if (k.actors == nil || slices.Contains(k.actors, name)) && !slices.Contains(k.beside, message) {
			steps = append(steps, name+" <- "+message)
		}
	}
	return steps
}

// toldSteps returns the steps of a section of the page.
func toldSteps(page, title string) (steps []string) {
	_, section, _ := strings.Cut(page, "\n## "+title+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, m := range toldStep.FindAllStringSubmatch(section, -1) {
		steps = append(steps, m[1]+" <- "+m[2])
	}
	return steps
}

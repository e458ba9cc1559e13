package job

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var rewrite = flag.Bool("rewrite", false, "write docs/states.md")

const statesFile = "../../docs/states.md"

// docs/states.md is generated from the table.
func TestStatesInTheDocs(t *testing.T) {
	text := statesDocument()
	if *rewrite {
		require.NoError(t, os.WriteFile(statesFile, []byte(text), 0o644))
	}
	written, err := os.ReadFile(statesFile)
	require.NoError(t, err)
	require.Equal(t, text, string(written), "docs/states.md is stale: go test ./core/job -run States -rewrite")
}

func statesDocument() string {
	var b strings.Builder
	b.WriteString("# The life of an opcode\n\nGenerated from the table in `core/job/transitions.go`, through which every change of an " +
		"opcode's status goes; `go test ./core/job -run States -rewrite` writes this file.\n\n" +
		"The status of a job follows from those of its opcodes (queue.md 4.2): error, canceling or canceled if an " +
		"opcode has such a status, the first one counts; success if all opcodes have succeeded; else waiting or running if an " +
		"opcode is, and queued before.\n\n" +
		"```mermaid\nstateDiagram-v2\n    [*] --> queued: submit\n")
	for s := range transitions {
		for e := range Event(events) {
			if t, possible := Status(s).On(e); possible && t.To != Status(s) {
				fmt.Fprintf(&b, "    %s --> %s: %s\n", Status(s), t.To, e)
			}
		}
	}
	for s := range transitions {
		if Status(s).Final() {
			fmt.Fprintf(&b, "    %s --> [*]\n", Status(s))
		}
	}
	b.WriteString("```\n")
	for s := range transitions {
		if Status(s).Final() {
			continue
		}
		fmt.Fprintf(&b, "\n## %s\n\n| Event | Becomes | |\n|---|---|---|\n", Status(s))
		var never []string
		for e := range Event(events) {
			t, possible := Status(s).On(e)
			switch {
			case !possible:
				never = append(never, e.String())
			case t.To == Status(s):
				fmt.Fprintf(&b, "| %s | – | %s |\n", e, t.Why)
			default:
				fmt.Fprintf(&b, "| %s | **%s** | %s |\n", e, t.To, t.Why)
			}
		}
		fmt.Fprintf(&b, "\nCannot happen: %s.\n", strings.Join(never, ", "))
	}
	b.WriteString("\n## canceled, success, error\n\nFinal: no event changes them.\n")
	return b.String()
}

func TestTransitionsAreSane(t *testing.T) {
	for s := range transitions {
		status := Status(s)
		for e := range Event(events) {
			tr, possible := status.On(e)
			require.False(t, possible && status.Final(), "%s is left by %s: final is final", status, e)
			require.False(t, possible && e != Reprioritise && e != Retry && tr.To <= status && (e != Begin || status != Waiting),
				"%s moves back by %s", status, e)
			require.False(t, possible && e == Retry && tr.To != Waiting, "another try is waited for")
			require.False(t, possible && e == Reprioritise && tr.To != status, "a priority changes no status")
		}
		_, fails := status.On(Fail)
		require.Equal(t, !status.Final(), fails, "a job can fail at any time before its end: %s", status)
	}
	require.Panics(t, func() { (&Op{Status: Success}).Take(Execute) })
}

// Every status but the first can be reached, except canceling, which only Ganeti's files have.
func TestEveryStatusIsReached(t *testing.T) {
	reached := map[Status]bool{Queued: true}
	for range transitions {
		for s := range transitions {
			for e := range Event(events) {
				if tr, possible := Status(s).On(e); possible && reached[Status(s)] {
					reached[tr.To] = true
				}
			}
		}
	}
	require.Len(t, reached, len(transitions)-1)
	require.False(t, reached[Canceling])
}

func TestAJobIsNotCanceledWhileAnOpcodeExecutes(t *testing.T) {
	j := &Job{Ops: []Op{{Status: Running}, {Status: Queued}}}
	require.Panics(t, func() { j.CancelUnstarted(nil, Timestamp{Sec: 1}) })
}

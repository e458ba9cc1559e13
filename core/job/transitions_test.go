package job

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var rewrite = flag.Bool("rewrite", false, "write docs/states.md anew")

const statesFile = "../../docs/states.md"

// docs/states.md is made from the table.
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
	b.WriteString("# The life of a job\n\nMade from the table in `core/job/transitions.go`; " +
		"`go test ./core/job -run States -rewrite` writes it anew.\n\n```mermaid\nstateDiagram-v2\n    [*] --> queued: submit\n")
	for s := range transitions {
		for e := range Event(events) {
			if a := Status(s).On(e); a.Effect == Moves {
				fmt.Fprintf(&b, "    %s --> %s: %s\n", Status(s), a.To, e)
			}
		}
	}
	for s := range transitions {
		if Status(s).Final() {
			fmt.Fprintf(&b, "    %s --> [*]: archive\n", Status(s))
		}
	}
	b.WriteString("```\n")
	for s := range transitions {
		fmt.Fprintf(&b, "\n## %s\n\n| Event | Becomes | |\n|---|---|---|\n", Status(s))
		var never []string
		for e := range Event(events) {
			switch a := Status(s).On(e); a.Effect {
			case Moves:
				fmt.Fprintf(&b, "| %s | **%s** | %s |\n", e, a.To, a.Why)
			case Stays:
				fmt.Fprintf(&b, "| %s | – | %s |\n", e, a.Why)
			case Refuses:
				fmt.Fprintf(&b, "| %s | refused | %s |\n", e, a.Why)
			case Impossible:
				never = append(never, e.String())
			}
		}
		fmt.Fprintf(&b, "\nCannot happen: %s.\n", strings.Join(never, ", "))
	}
	return b.String()
}

func TestTransitionsAreSane(t *testing.T) {
	for s := range transitions {
		status := Status(s)
		for e := range Event(events) {
			a := status.On(e)
			if status.Final() {
				require.NotEqual(t, Moves, a.Effect, "%s moves by %s: final is final", status, e)
			}
			if a.Effect == Moves && e != Succeeds {
				require.Greater(t, a.To, status, "%s moves back by %s", status, e)
			}
			require.Equal(t, a.Effect == Impossible, a.Why == "", "%s, %s", status, e)
		}
		// Whoever asks gets an answer, in every status.
		for _, asked := range []Event{Cancel, Kill, Reprioritise, Archive, Dies, DaemonStart} {
			require.NotEqual(t, Impossible, status.On(asked).Effect, "%s has no answer to %s", status, asked)
		}
	}
	require.Panics(t, func() { Success.MustTake(Runs) })
}

// Every status but the first can be reached, and every one but the final can end.
func TestEveryStatusIsReachedAndLeft(t *testing.T) {
	reached := map[Status]bool{Queued: true}
	for range transitions {
		for s := range transitions {
			for e := range Event(events) {
				if a := Status(s).On(e); a.Effect == Moves && reached[Status(s)] {
					reached[a.To] = true
				}
			}
		}
	}
	require.Len(t, reached, len(transitions))
}

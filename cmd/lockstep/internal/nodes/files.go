package nodes

import (
	"fmt"
	"strings"
	"time"

	"lockstep/cmd/internal/term"
	"lockstep/core/answer"
)

// contestedMax bounds the files that a text names.
const contestedMax = 5

// Files says what the last comparison of the nodes' files has found; "" if there was none.
func Files(f *answer.FilesCompared, now time.Time) string {
	if f == nil {
		return ""
	}
	text := fmt.Sprintf("%d files of all nodes were compared %s ago", f.Compared, term.Span(max(now.Sub(f.At.Time), 0)))
	if f.Repaired > 0 {
		text += fmt.Sprintf("; %d differed and were replaced since this node is the master", f.Repaired)
	}
	return text
}

// Contested says on which files the nodes do not agree; "" if on none.
func Contested(cluster *answer.Nodes) string {
	if cluster == nil || cluster.Files == nil || len(cluster.Files.Contested) == 0 {
		return ""
	}
	all := cluster.Files.Contested
	var texts []string
	for _, c := range all[:min(len(all), contestedMax)] {
		texts = append(texts, fmt.Sprintf("%s on %s", term.Visible(c.Path), term.Visible(strings.Join(c.Nodes, ", "))))
	}
	if more := len(all) - contestedMax; more > 0 {
		texts = append(texts, fmt.Sprintf("%d more", more))
	}
	return fmt.Sprintf("files differ from those of the master %s, and it does not agree with a majority: %s. Look at them; "+
		"\"lockstep node check --repair\" replaces them by the master's, \"lockstep node promote\" makes another node the master.",
		term.Visible(cluster.Master), strings.Join(texts, "; "))
}

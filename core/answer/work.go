package answer

import (
	"fmt"
	"strings"
)

// commandSummary begins the summary of OP_RUN_COMMAND, which is RUN_COMMAND(rsync -a /srv/ backup:/srv/).
const commandSummary = "RUN_COMMAND("

// workShown is the number of opcodes that Work names.
const workShown = 3

// Work says what a job does, in one line for people, from the summaries of its opcodes: of a command it is what was typed. The first three
// opcodes are named, and the number of the others.
func Work(summaries []string) string {
	names := make([]string, min(len(summaries), workShown))
	for i := range names {
		names[i] = Typed(summaries[i])
	}
	text := strings.Join(names, ", ")
	if more := len(summaries) - len(names); more > 0 {
		return fmt.Sprintf("%s and %d more", text, more)
	}
	return text
}

// Typed is the summary of one opcode as Work names it.
func Typed(summary string) string {
	if command, is := strings.CutPrefix(summary, commandSummary); is {
		return strings.TrimSuffix(command, ")")
	}
	return summary
}

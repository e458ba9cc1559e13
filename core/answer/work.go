package answer

import (
	"fmt"
	"strings"
)

// commandSummary begins the summary of OP_RUN_COMMAND, which is RUN_COMMAND(rsync -a /srv/ backup:/srv/).
const commandSummary = "RUN_COMMAND("

// Work says what a job does, in one line for people, from the summaries of its opcodes: of a command it is what was typed. At most shown
// opcodes are named, at least 1, and the number of the others.
func Work(summaries []string, shown int) string {
	names := make([]string, min(len(summaries), shown))
	for i := range names {
		names[i] = summaries[i]
		if command, is := strings.CutPrefix(names[i], commandSummary); is {
			names[i] = strings.TrimSuffix(command, ")")
		}
	}
	text := strings.Join(names, ", ")
	if more := len(summaries) - len(names); more > 0 {
		return fmt.Sprintf("%s and %d more", text, more)
	}
	return text
}

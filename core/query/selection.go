package query

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"lockstep/core/answer"
	"lockstep/core/job"
	"lockstep/core/record"
	"lockstep/messages"
)

// Selection decides for a list of jobs which jobs are in it and in which order.
type Selection struct {
	answer.JobSelection
	ids      map[int64]bool
	searches []string // of Searches, in lower case
	// tests is the number of comparisons of one job, and bytes is the length of all patterns and texts.
	tests, bytes int
}

// Bounds of a selection.
const (
	selectionMax = 1000 // names, statuses, users, opcodes, reasons and searches
	searchesMax  = 20   // of these, patterns with '*' or '?', and texts that are searched
	searchMax    = 100  // bytes of such a pattern or text
)

// NewSelection checks a selection. Its errors are for the client.
func NewSelection(s answer.JobSelection) (*Selection, error) {
	tests := len(s.Names) + len(s.Statuses) + len(s.Users) + len(s.Opcodes) + len(s.Reasons) + len(s.Searches)
	if tests > selectionMax {
		return nil, fmt.Errorf("a selection has at most %d names, statuses, users, opcodes, reasons and searches", selectionMax)
	}
	searches := slices.Concat(s.Reasons, s.Searches)
	for _, pattern := range slices.Concat(s.Names, s.Opcodes) {
		if isGlob(pattern) {
			searches = append(searches, pattern)
		}
		if _, err := path.Match(pattern, ""); err != nil || strings.ContainsAny(pattern, `[\/`) {
			return nil, fmt.Errorf("%q is not a pattern: it has '*' for any text and '?' for one character, and no '[', '\\' or '/'", pattern)
		}
	}
	if len(searches) > searchesMax {
		return nil, fmt.Errorf("a selection has at most %d patterns with '*' or '?' and searched texts, found %d: ask several times",
			searchesMax, len(searches))
	}
	for _, search := range searches {
		if len(search) > searchMax {
			return nil, fmt.Errorf("a pattern with '*' or '?', and a searched text, has at most %d bytes, found %d", searchMax, len(search))
		}
	}
	for _, status := range s.Statuses {
		if _, known := job.ParseStatus(status); !known {
			return nil, fmt.Errorf("%q is not a status of a job", status)
		}
	}
	if s.Limit < 0 || s.MaxUnfinished < 0 || s.MaxEnded < 0 {
		return nil, fmt.Errorf("a limit is negative")
	}
	selection := &Selection{JobSelection: s, tests: tests}
	for _, search := range s.Searches {
		selection.searches = append(selection.searches, strings.ToLower(search))
	}
	for _, search := range searches {
		selection.bytes += len(search)
	}
	if s.IDs != nil {
		selection.ids = make(map[int64]bool, len(s.IDs))
		for _, id := range s.IDs {
			selection.ids[id] = true
		}
	}
	return selection, nil
}

// Matches reports whether a job is selected, apart from the limits.
func (s *Selection) Matches(info *messages.JobInfo) bool {
	return (s.ids == nil || s.ids[info.Id]) &&
		(s.SinceUS == 0 || max(info.ReceivedUs, info.StartUs, info.EndUs) >= s.SinceUS) &&
		(len(s.Statuses) == 0 || slices.Contains(s.Statuses, ClientStatus(info).String())) &&
		(len(s.Names) == 0 || info.Name != "" && slices.ContainsFunc(s.Names, func(p string) bool { return like(p, info.Name) })) &&
		(len(s.Users) == 0 || slices.ContainsFunc(s.Users, func(user string) bool { return isUser(info.User, user) })) &&
		(len(s.Opcodes) == 0 || slices.ContainsFunc(info.Summary, s.matchesOpcode)) &&
		(len(s.Reasons) == 0 || slices.ContainsFunc(info.Reasons, s.matchesReason)) &&
		(len(s.searches) == 0 || s.isFound(info.Name) || slices.ContainsFunc(info.Summary, s.isFoundInSummary))
}

// Work is about the cost of Matches, in steps of about 20 ns.
func (s *Selection) Work(info *messages.JobInfo) int {
	const compared = 8 // characters of a pattern and a text in one step
	work := 5 + s.tests
	if s.bytes > 0 {
		text := len(info.Name)
		if len(s.Opcodes)+len(s.searches) > 0 {
			for _, summary := range info.Summary {
				text += len(summary)
			}
		}
		if len(s.Reasons) > 0 {
			for _, reason := range info.Reasons {
				text += len(reason)
			}
		}
		work += s.bytes * text / compared
	}
	return work
}

func isGlob(pattern string) bool { return strings.ContainsAny(pattern, "*?") }

func like(pattern, text string) bool {
	if !isGlob(pattern) {
		return pattern == text
	}
	matches, _ := path.Match(pattern, text) // NewSelection has checked the pattern
	return matches
}

// isUser reports whether a submitter, "uid=1000(alice)" or "user=deploy", is the user with a name or number.
func isUser(submitter, user string) bool {
	if name, is := strings.CutPrefix(submitter, "user="); is {
		return name == user
	}
	uid, name, _ := strings.Cut(strings.TrimPrefix(submitter, "uid="), "(")
	return submitter != "" && user != "" && (uid == user || strings.TrimSuffix(name, ")") == user)
}

// matchesOpcode reports whether one of the wanted opcodes fits the summary of an opcode, which begins with the OP_ID without "OP_".
func (s *Selection) matchesOpcode(summary string) bool {
	id, _, _ := strings.Cut(summary, "(")
	return slices.ContainsFunc(s.Opcodes, func(p string) bool { return like(strings.TrimPrefix(p, "OP_"), id) })
}

func (s *Selection) matchesReason(text string) bool {
	return slices.ContainsFunc(s.Reasons, func(part string) bool { return strings.Contains(text, part) })
}

// isFound reports whether a text has one of the searched texts.
func (s *Selection) isFound(text string) bool {
	lower := strings.ToLower(text)
	return slices.ContainsFunc(s.searches, func(part string) bool { return strings.Contains(lower, part) })
}

func (s *Selection) isFoundInSummary(summary string) bool { return s.isFound(answer.Typed(summary)) }

// ArchiveNeed is the number of archived jobs after which no further one is needed, if they are examined from the highest
// id downwards; 0: all are needed.
func (s *Selection) ArchiveNeed() int {
	if s.Limit > 0 {
		return s.Limit
	}
	return s.MaxEnded
}

// Arrange puts the selected jobs in the order of the answer, and applies the limits. more is the number of jobs that are
// omitted.
func (s *Selection) Arrange(jobs []*messages.JobInfo) (kept []*messages.JobInfo, more int) {
	count := len(jobs)
	slices.SortFunc(jobs, func(a, b *messages.JobInfo) int { return cmp.Compare(a.Id, b.Id) })
	if s.Limit > 0 && len(jobs) > s.Limit {
		jobs = jobs[len(jobs)-s.Limit:]
	}
	if s.MaxUnfinished > 0 || s.MaxEnded > 0 {
		jobs = s.window(jobs)
	}
	return jobs, count - len(jobs)
}

func (s *Selection) window(jobs []*messages.JobInfo) []*messages.JobInfo {
	var unfinished, ended []*messages.JobInfo
	for _, info := range jobs {
		if StatusOf(info).Final() {
			ended = append(ended, info)
		} else {
			unfinished = append(unfinished, info)
		}
	}
	slices.SortStableFunc(unfinished, func(a, b *messages.JobInfo) int { return cmp.Compare(stageRank(a), stageRank(b)) })
	slices.SortStableFunc(ended, func(a, b *messages.JobInfo) int { return cmp.Compare(a.EndUs, b.EndUs) })
	if s.MaxUnfinished > 0 {
		unfinished = unfinished[:min(len(unfinished), s.MaxUnfinished)]
	}
	if s.MaxEnded > 0 {
		ended = ended[max(0, len(ended)-s.MaxEnded):]
	}
	return append(unfinished, ended...)
}

// stageRank puts running jobs first, then jobs with a process, then pending ones.
func stageRank(info *messages.JobInfo) int {
	switch StatusOf(info) {
	case job.Running:
		return 0
	case job.Queued:
		return 2
	default:
		return 1
	}
}

// AppendListed appends a job as an answer.ListedJob. encoding/json would take most of the time of a long list.
func AppendListed(dst []byte, info *messages.JobInfo, archived bool) []byte {
	dst = strconv.AppendInt(append(dst, `{"id":`...), info.Id, 10)
	dst = appendText(append(dst, `,"name":`...), info.Name)
	dst = appendText(append(dst, `,"status":`...), ClientStatus(info).String())
	dst = appendText(append(dst, `,"result":`...), info.Result)
	dst = appendText(append(dst, `,"user":`...), info.User)
	dst = appendText(append(dst, `,"user_name":`...), record.User(info.User))
	if len(info.Submitter) > 0 { // the record has it as JSON
		dst = append(append(dst, `,"submitter":`...), info.Submitter...)
	}
	dst = strconv.AppendInt(append(dst, `,"parent":`...), info.Parent, 10)
	dst = strconv.AppendInt(append(dst, `,"priority":`...), int64(info.Priority), 10)
	dst = appendList(append(dst, `,"summary":`...), info.Summary, appendText)
	dst = appendTime(append(dst, `,"received_ts":`...), info.ReceivedUs)
	dst = appendTime(append(dst, `,"start_ts":`...), info.StartUs)
	dst = appendTime(append(dst, `,"end_ts":`...), info.EndUs)
	dst = strconv.AppendBool(append(dst, `,"archived":`...), archived)
	if info.RunAs != "" {
		dst = appendText(append(dst, `,"run_as":`...), info.RunAs)
	}
	if p := ProgressOf(info); p != nil {
		dst = appendJSON(append(dst, `,"progress":`...), p)
	}
	if t := TryOf(info.Try); t != nil {
		dst = appendJSON(append(dst, `,"try":`...), t)
	}
	if info.DueUs > 0 {
		dst = appendTime(append(dst, `,"due_ts":`...), info.DueUs)
	}
	if info.AtUs > 0 {
		dst = appendTime(append(dst, `,"at_ts":`...), info.AtUs)
	}
	if info.Schedule != "" {
		dst = appendText(append(dst, `,"schedule":{"name":`...), info.Schedule)
		dst = append(appendTime(append(dst, `,"due_ts":`...), info.ScheduleDueUs), '}')
	}
	if len(info.Tries) > 0 {
		dst = appendJSON(append(dst, `,"tries":`...), triesOf(info))
	}
	return append(dst, '}')
}

// appendTime appends a time in microseconds as it is on the wire; null for 0.
func appendTime(dst []byte, us int64) []byte {
	if us == 0 {
		return append(dst, "null"...)
	}
	return appendJSON(dst, [2]int64{us / 1e6, us % 1e6})
}

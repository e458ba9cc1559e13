package jobs

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/cmd/lockstep/internal/completion"
	"lockstep/cmd/lockstep/internal/follow"
	"lockstep/cmd/lockstep/internal/selection"
	"lockstep/core/answer"
	"lockstep/core/job"
	"lockstep/core/record"
)

// NewInfoCommand is the command info.
func NewInfoCommand(globals *cli.Globals) *cobra.Command {
	return &cobra.Command{
		Use:     "info ID|NAME...",
		Aliases: []string{"show"},
		Short:   "Show everything about jobs",
		Long: `Show everything about jobs: status, times, and of each opcode its parameters,
reasons, result and last log lines, also of archived jobs. The values of secret
parameters are not shown. ` + selection.ArgsHelp + `

Exit code: 0; 1 if one of the jobs does not exist.
With --json: a list of {"id", "name", "status", "result", "user", "user_name", "parent",
"run_as" (if it is not the daemon's user), "priority", "archived", "received",
"started", "ended", "due", "opcodes": [{"summary", "status", "priority", "started",
"executing", "ended", "parameters": object, "result": any, "log": [{"serial", "time", "type", "payload"}],
"tries": [{"result": string, "began", "ended", "log_to": number, "usage"}]}]}, times as RFC 3339 or null.
"tries" are the failed tries of an opcode that was tried again, without the last one (run
--retry), "log_to" the serial of the last log line of each, and "due" is when the next one
may begin; without them these keys are absent. The "result"
of a command, or the details of its failure, and each of "tries" have "usage":
{"cpu_seconds", "memory_peak_bytes", "memory_of": "group" or "process"}. "memory_of" says
whether the peak is of all processes of the command together or of the largest one.
"started" is the time when the opcode began to wait for its locks, "executing" the
time when it had them.`,
		Example: `  lockstep info 12
  lockstep info nightly
  lockstep info --json 12 | jq '.[0].opcodes[0].result'`,
		Args: cli.WantArgs(1, -1, "name at least one job, by its id or its name"),
		RunE: func(command *cobra.Command, args []string) error {
			return runInfo(command.Context(), globals, args)
		},
		ValidArgsFunction: completion.Jobs(globals),
	}
}

// jobInfo is a job as `info --json` prints it.
type jobInfo struct {
	ID       int64            `json:"id"`
	Name     string           `json:"name"`
	Result   string           `json:"result"`
	User     string           `json:"user"`
	UserName string           `json:"user_name"`
	Parent   int64            `json:"parent"`
	RunAs    string           `json:"run_as,omitempty"`
	Status   string           `json:"status"`
	Priority int              `json:"priority"`
	Archived bool             `json:"archived"`
	Received client.Timestamp `json:"received"`
	Started  client.Timestamp `json:"started"`
	Ended    client.Timestamp `json:"ended"`
	// Due is when a pending job may start; nil: at once.
	Due *client.Timestamp `json:"due,omitempty"`
	// At is before which time the job was not to start; nil: it could start at once.
	At *client.Timestamp `json:"at,omitempty"`
	// Schedule is the due time of a schedule that has submitted the job; nil: none has.
	Schedule *dueTime     `json:"schedule,omitempty"`
	Opcodes  []opcodeInfo `json:"opcodes"`
}

// dueTime is a due time of a schedule.
type dueTime struct {
	Name string           `json:"name"`
	Due  client.Timestamp `json:"due"`
}

// opcodeInfo is one opcode of a job. Parameters contain OP_ID and the reason trail.
type opcodeInfo struct {
	Summary    string           `json:"summary"`
	Status     string           `json:"status"`
	Priority   int              `json:"priority"`
	Started    client.Timestamp `json:"started"`
	Executing  client.Timestamp `json:"executing"`
	Ended      client.Timestamp `json:"ended"`
	Parameters any              `json:"parameters"`
	Result     json.RawMessage  `json:"result"`
	Log        []logLine        `json:"log"`
	// Tries are the tries that have failed and were not the last one; nil: there are none.
	Tries []tryInfo `json:"tries,omitempty"`
}

// tryInfo is an ended try of an opcode. LogTo is the serial of the last line of the job's log at its end.
type tryInfo struct {
	Result string           `json:"result"`
	Began  client.Timestamp `json:"began"`
	Ended  client.Timestamp `json:"ended"`
	LogTo  int64            `json:"log_to"`
	Usage  *job.Usage       `json:"usage,omitempty"`
}

// logLine is a log entry as an object.
type logLine struct {
	Serial  int64            `json:"serial"`
	Time    client.Timestamp `json:"time"`
	Type    string           `json:"type"`
	Payload json.RawMessage  `json:"payload"`
}

func runInfo(ctx context.Context, globals *cli.Globals, args []string) error {
	daemon := globals.Connect()
	defer daemon.Close()
	ids, err := selection.Newest(ctx, daemon, args)
	if err != nil {
		return err
	}
	rows, err := client.QueryJobs(ctx, daemon, ids, infoFields()...)
	if err != nil {
		return err
	}
	jobs := []jobInfo{}
	missing := false
	for i, row := range rows {
		job, err := decodeInfo(row)
		if err != nil {
			return fmt.Errorf("decode job %d: %w", ids[i], err)
		}
		if job.Status == "" {
			cli.PrintError(globals.Streams.Err, client.ErrUnknownJob(ids[i]).Error())
			missing = true
			continue
		}
		jobs = append(jobs, job)
	}
	if err := addRecorded(ctx, daemon, jobs); err != nil {
		return err
	}
	if globals.JSON {
		if err := cli.PrintJSON(globals.Streams.Out, jobs); err != nil {
			return err
		}
	} else {
		printer := infoPrinter{out: globals.Streams.Out, now: globals.Streams.Now(), palette: globals.Palette()}
		for i, job := range jobs {
			if i > 0 {
				fmt.Fprintln(globals.Streams.Out)
			}
			printer.job(job)
		}
	}
	if missing {
		return &cli.ExitError{Code: cli.ExitFailure}
	}
	return nil
}

// addRecorded adds name, result and user, which are in the records of jobs and in no field of a query.
func addRecorded(ctx context.Context, daemon client.Querier, jobs []jobInfo) error {
	if len(jobs) == 0 {
		return nil
	}
	at := map[int64]*jobInfo{}
	wanted := answer.JobSelection{}
	for i := range jobs {
		at[jobs[i].ID] = &jobs[i]
		wanted.IDs = append(wanted.IDs, jobs[i].ID)
	}
	list, err := selection.List(ctx, daemon, wanted)
	if err != nil {
		return err
	}
	for _, listed := range list.Jobs {
		if job := at[listed.ID]; job != nil {
			job.Name, job.Result, job.User, job.Parent = listed.Name, listed.Result, listed.User, listed.Parent
			job.UserName, job.RunAs = record.User(job.User), listed.RunAs
			job.Due, job.At = (*client.Timestamp)(listed.Due), (*client.Timestamp)(listed.At)
			if s := listed.Schedule; s != nil {
				job.Schedule = &dueTime{s.Name, client.Timestamp(s.Due)}
			}
			for _, t := range listed.Tries {
				if t.Opcode < len(job.Opcodes) {
					op := &job.Opcodes[t.Opcode]
					op.Tries = append(op.Tries, tryInfo{t.Result, client.Timestamp(t.Start), client.Timestamp(t.End), t.LogTo, t.Usage})
				}
			}
		}
	}
	return nil
}

func infoFields() []string {
	return []string{"id", "status", "priority", "archived", "received_ts", "start_ts", "end_ts",
		"ops", "summary", "opstatus", "oppriority", "opstart", "opexec", "opend", "opresult", "oplog"}
}

// decodeInfo reads a row of infoFields. The lists have one element per opcode; missing elements
// are zero values.
func decodeInfo(row []json.RawMessage) (jobInfo, error) {
	job := jobInfo{}
	var ops, results []json.RawMessage
	var summaries, statuses []string
	var priorities []int
	var starts, execs, ends []client.Timestamp
	var logs [][]follow.LogEntry
	err := client.Scan(row, &job.ID, &job.Status, &job.Priority, &job.Archived, &job.Received, &job.Started, &job.Ended,
		&ops, &summaries, &statuses, &priorities, &starts, &execs, &ends, &results, &logs)
	if err != nil {
		return job, err
	}
	job.Opcodes = make([]opcodeInfo, len(ops))
	for i := range ops {
		parameters, err := cli.DecodeAny(ops[i])
		if err != nil {
			return job, fmt.Errorf("decode opcode %d: %w", i+1, err)
		}
		job.Opcodes[i] = opcodeInfo{
			Summary:    at(summaries, i),
			Status:     at(statuses, i),
			Priority:   at(priorities, i),
			Started:    at(starts, i),
			Executing:  at(execs, i),
			Ended:      at(ends, i),
			Parameters: redact(parameters),
			Result:     at(results, i),
			Log:        []logLine{},
		}
		for _, entry := range at(logs, i) {
			job.Opcodes[i].Log = append(job.Opcodes[i].Log, logLine(entry))
		}
	}
	return job, nil
}

// at is list[i], or the zero value if the list is shorter.
func at[T any](list []T, i int) T {
	if i < len(list) {
		return list[i]
	}
	var none T
	return none
}

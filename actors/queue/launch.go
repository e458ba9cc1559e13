package queue

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/config/clusterconfig"
	"lockstep/actors/opcodes"
	"lockstep/core/answer"
	"lockstep/core/config"
	"lockstep/core/job"
	"lockstep/core/jobproc"
	"lockstep/core/opcode"
	"lockstep/core/record"
	"lockstep/core/retry"
	"lockstep/core/runas"
	"lockstep/messages"
)

// launcher makes launch specs from the catalogue and the configuration.
type launcher struct {
	// retained holds the catalogue.
	retained *retained
	// resources is what the configuration says of locks; nil until the first configuration.
	resources *config.Resources
	// ganetiJobs: Ganeti's job process runs the jobs with Ganeti's opcodes.
	ganetiJobs bool
	runAs      runas.Policy
	// logLimit is the setting log_limit, in bytes; 0: jobproc.LogLimit.
	logLimit int
	// outputWait is the setting output_wait, in seconds; 0: jobproc.OutputWait.
	outputWait float64
	// keepOutput and outputLimit are the settings of these names; outputLimit 0: the default.
	keepOutput  bool
	outputLimit int64
}

// setOutput takes the settings for output. Most jobs have nothing to say, so defaults are left out of launch specs.
func (l *launcher) setOutput(s config.Settings) {
	l.logLimit, l.outputWait = s.LogLimit, s.OutputWaitSeconds
	l.keepOutput, l.outputLimit = s.KeepOutput, s.OutputLimit
	if s.LogLimit == jobproc.LogLimit {
		l.logLimit = 0
	}
	if s.OutputWaitSeconds == jobproc.OutputWait.Seconds() {
		l.outputWait = 0
	}
}

// program returns the program that runs a job: Ganeti's for jobs of Ganeti's opcodes in Ganeti mode, else lockstep's.
func (l *launcher) program(j *job.Job) messages.JobProgram {
	if l.ganetiJobs && l.retained.catalogue.OriginOf(j) == opcode.OfGaneti {
		return messages.JobProgram_GANETI_JOB
	}
	return messages.JobProgram_LOCKSTEP_JOB
}

// adopt is the order to adopt a job with the given file.
func (l *launcher) adopt(j *job.Job, encoded []byte, r record.Record) *messages.AdoptJob {
	return &messages.AdoptJob{Id: int64(j.ID), Encoded: encoded, Program: l.program(j), RetryLost: retryLost(j, r)}
}

// launch sets the program of a job, what its process receives through its start pipe, and the users as whom its commands run.
func (l *launcher) launch(start *messages.StartJob, secrets []json.RawMessage, r record.Record) {
	j := decodeKnown(start.Id, start.Encoded)
	start.Program, start.RetryLost = l.program(j), retryLost(j, r)
	if start.Program == messages.JobProgram_GANETI_JOB {
		start.Launch = ganetiSecrets(j, secrets)
		return
	}
	var users []jobproc.User
	start.Launch, users = l.specs(j, secrets, r)
	if users != nil {
		start.RunAs, _ = json.Marshal(users) // texts and numbers
	}
}

// retryLost lists the opcodes, by index, that are tried again if the process of the job dies.
func retryLost(j *job.Job, r record.Record) []int32 {
	var ops []int32
	for i := range j.Ops {
		if retry.Of(j.Ops[i].Input).AgainIfLost(r.CurrentTry(j, i)) {
			ops = append(ops, int32(i))
		}
	}
	return ops
}

// decodeKnown decodes a job that was decoded when it was added.
func decodeKnown(id int64, encoded []byte) *job.Job {
	j, err := job.Decode(encoded)
	if err != nil {
		panic(fmt.Errorf("job %d in memory is not a job: %w", id, err))
	}
	return j
}

// ganetiSecrets encodes what Ganeti's job process receives: a JSON list with an element per opcode, the object of its
// secret parameters or null (queue.md 4.5, step 5).
func ganetiSecrets(j *job.Job, secrets []json.RawMessage) []byte {
	elements := make([]json.RawMessage, len(j.Ops))
	for i := range min(len(elements), len(secrets)) {
		elements[i] = opcode.SecretOSParams(secrets[i])
	}
	data, err := json.Marshal(elements)
	if err != nil {
		panic(fmt.Errorf("the secrets of job %d cannot be encoded: %w", j.ID, err)) // they were read from JSON
	}
	return data
}

// mistakes lists why no process can run the job with this number, from 1, of a submission: its locks are unclear, or it needs two programs.
func (l *launcher) mistakes(number int, draft *messages.JobDraft) (mistakes []answer.Mistake) {
	if l.ganetiJobs {
		names := make([]string, len(draft.Ops))
		for i, op := range draft.Ops {
			names[i] = job.OpID(op.Input)
		}
		if err := l.retained.catalogue.CheckOrigin(names); err != nil {
			mistakes = append(mistakes, answer.Mistake{Job: number, Text: err.Error()})
		}
	}
	for i, op := range draft.Ops {
		var bad *opcode.Invalid
		if errors.As(l.retained.catalogue.CheckShortLockNames(op.Input, l.resources, l.ganetiJobs), &bad) {
			mistakes = append(mistakes, answer.Mistake{Job: number, Opcode: i + 1, Parameter: bad.Param, Text: bad.Text})
		}
	}
	return mistakes
}

// specs encodes the launch specs of a job of lockstep-job for the start pipe of its process (queue.md
// 4.5, step 5; design.md "Processes"): a JSON list with an element per opcode, null where there
// is nothing to say. secrets has an element per opcode, or fewer. users are those as whom the commands run, each once, without the
// daemon's.
func (l *launcher) specs(j *job.Job, secrets []json.RawMessage, r record.Record) (encoded []byte, users []jobproc.User) {
	specs := make([]*jobproc.LaunchSpec, len(j.Ops))
	for i := range j.Ops {
		var secretsOfOp json.RawMessage
		if i < len(secrets) {
			secretsOfOp = secrets[i]
		}
		spec := l.spec(j.Ops[i].Input, secretsOfOp, r)
		if policy := retry.Of(j.Ops[i].Input); policy.Times > 0 {
			spec.Retry, spec.Try = &policy, r.CurrentTry(j, i)
		}
		if spec.RunAs != nil && !slices.Contains(users, *spec.RunAs) {
			users = append(users, *spec.RunAs)
		}
		if i == 0 {
			spec.Name = r.Name()
		}
		switch {
		case i > 0:
		case l.keeps(j): // the follower reads what it misses from the files, so no command waits for it
			spec.KeepOutput = cmp.Or(l.outputLimit, config.DefaultSettings().OutputLimit)
		case r.Followed():
			spec.Followed, spec.OutputWait = true, l.outputWait
		}
		if spec.Name != "" || spec.Followed || spec.KeepOutput != 0 || spec.Secrets != nil || spec.Command != nil || spec.FailureResult != nil ||
			spec.RunAs != nil || spec.Retry != nil || spec.LogLimit != 0 || spec.RequiredLocks.NotEmpty() {
			specs[i] = &spec
		}
	}
	data, err := json.Marshal(specs)
	if err != nil {
		panic(fmt.Errorf("the launch specs of job %d cannot be encoded: %w", j.ID, err))
	}
	return data, users
}

// keeps reports whether the output of a job is kept.
func (l *launcher) keeps(j *job.Job) bool {
	return opcode.JobKeepsOutput(j, l.keepOutput)
}

func (l *launcher) spec(input, secrets json.RawMessage, r record.Record) jobproc.LaunchSpec {
	catalogue := l.retained.catalogue
	needs, err := catalogue.RequiredLocks(input, l.resources)
	spec := jobproc.LaunchSpec{Secrets: secrets, RequiredLocks: needs, LogLimit: l.logLimit}
	op, known := catalogue.Lookup(job.OpID(input))
	if err == nil && known && op.Defined() {
		spec.Secrets = nil // they are in the command
		var command opcode.Command
		if command, err = catalogue.Expand(input, secrets); err == nil {
			spec.Command, err = json.Marshal(command)
		}
	}
	if err == nil && known {
		spec.RunAs, err = l.user(op, r)
	}
	if err != nil {
		return jobproc.LaunchSpec{FailureResult: errorResult(err)}
	}
	return spec
}

// user is the user as whom the command of an opcode runs; nil: the daemon's, or the opcode has no command. The error is a *opcode.Failure.
func (l *launcher) user(op *opcode.Opcode, r record.Record) (*jobproc.User, error) {
	user, err := l.runAs.Of(op.RunAs(), r.Submitter())
	if err != nil {
		return nil, &opcode.Failure{Class: "OpPrereqError", Text: err.Error(), Code: "wrong_state"}
	}
	return user, nil
}

// runsAs names the user as whom the commands of a job run that run as its submitter; "": the daemon's user, or none.
func (l *launcher) runsAs(r record.Record) string {
	if user, err := l.runAs.Of(opcode.AsSubmitter, r.Submitter()); err == nil && user != nil {
		return user.String()
	}
	return ""
}

func errorResult(err error) json.RawMessage {
	var f *opcode.Failure
	switch {
	case !errors.As(err, &f):
		return job.ErrorResult("OpExecError", err.Error())
	case f.Code != "":
		return job.ErrorResult(f.Class, f.Text, f.Code)
	default:
		return job.ErrorResult(f.Class, f.Text)
	}
}

// configChanged takes a configuration, and continues a recovery that waits for the first one.
func (q *queue) configChanged(ctx actor.Context, m *clusterconfig.ConfigPublished) {
	q.launcher.resources = config.ResourcesOf(m.Config)
	if settings, err := config.DecodeSettings(m.Settings); err == nil { // the scheduler logs the error
		q.launcher.setOutput(settings)
		q.setRetention(ctx, settings, m.Settings)
	}
	if q.recovery == nil || q.recovery.onConfig == nil {
		return
	}
	onConfig := q.recovery.onConfig
	q.recovery.onConfig = nil
	onConfig(ctx)
}

func (q *queue) opcodesChanged(m *opcodes.Changed) { q.retained.catalogue = m.Catalogue }

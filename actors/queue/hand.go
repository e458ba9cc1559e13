package queue

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"lockstep/core/config"
	"lockstep/core/job"
	"lockstep/core/jobproc"
	"lockstep/core/opcode"
	"lockstep/messages"
)

// configChanged takes a configuration. One that cannot be used is not one that
// jobs could run by: the former goes on.
func (q *queue) configChanged(ctx actor.Context, m *messages.ConfigChanged) {
	if q.resources != nil && bytes.Equal(m.Content, q.known) {
		return
	}
	resources, err := config.DecodeResources(m.Content)
	if err != nil {
		q.config.Env.Log().WithFields(logrus.Fields{"err": err}).Error("the configuration cannot be used; the former one is")
		return
	}
	q.resources, q.known = resources, m.Content
	if q.recovery != nil && q.recovery.configured != nil {
		configured := q.recovery.configured
		q.recovery.configured = nil
		configured(ctx)
	}
}

// hand is what the process of a job is handed through the start pipe (queue.md
// 4.5, step 5; design.md 1): what is not in the job's file, because it must
// not be or because only the daemon can work it out.
func (q *queue) hand(id int64, encoded []byte) []byte {
	j, err := job.Decode(encoded)
	if err != nil {
		panic(fmt.Errorf("job %d in memory is not a job: %w", id, err)) // it was decoded when it came in
	}
	hands := make([]*jobproc.LaunchSpec, len(j.Ops))
	for i := range j.Ops {
		var secrets json.RawMessage
		if kept := q.vault[id]; i < len(kept) {
			secrets = kept[i]
		}
		if h := q.handOf(j.Ops[i].Input, secrets); h.Secrets != nil || h.Command != nil || h.FailureResult != nil || h.RequiredLocks.NotEmpty() {
			hands[i] = &h
		}
	}
	data, err := json.Marshal(hands)
	if err != nil {
		panic(fmt.Errorf("what job %d is to be handed cannot be encoded: %w", id, err))
	}
	return data
}

func (q *queue) handOf(input, secrets json.RawMessage) jobproc.LaunchSpec {
	needs, err := q.config.Catalogue.RequiredLocks(input, q.resources)
	h := jobproc.LaunchSpec{Secrets: secrets, RequiredLocks: needs}
	if op, known := q.config.Catalogue.Lookup(job.OpID(input)); err == nil && known && op.Defined() {
		h.Secrets = nil // they are in the command
		var command opcode.Command
		if command, err = q.config.Catalogue.Expand(input, secrets); err == nil {
			h.Command, err = json.Marshal(command)
		}
	}
	if err != nil {
		return jobproc.LaunchSpec{FailureResult: refusal(err)}
	}
	return h
}

func refusal(err error) json.RawMessage {
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

// opcodesChanged takes what operators have declared. Who has sent it has looked
// for mistakes.
func (q *queue) opcodesChanged(m *messages.OpcodesChanged) {
	catalogue, err := opcode.DecodeCatalogue(m.Definitions)
	if err != nil {
		q.config.Env.Log().WithField("err", err).Error("opcodes were declared that cannot be; the former ones are in force")
		return
	}
	q.config.Catalogue, *q.catalogue = catalogue, catalogue
}

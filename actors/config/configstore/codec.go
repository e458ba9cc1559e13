package configstore

import (
	"bytes"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/kit"
	"lockstep/core/config/history"
	"lockstep/core/config/journal"
	"lockstep/core/config/model"
)

// codec encodes and decodes whole configurations on its own thread, so that configstore is not busy for the time that 20 MB take.
type codec struct {
	secrets  func() []string
	prepared *Prepared
}

// encode asks for the content of config.data and the entries of the history about records, and also opens the history if it has
// contents. With adopted it asks for the entry about foreign content, too, and for no content of config.data. parse asks for
// a decoded config.data. recoverFiles asks for the state of all files.
type (
	encode struct {
		request uint64
		config  *model.Config
		isWhole bool // the content is wanted as one part
		records []entry
		jobs    jobFiles // of records
		history *historyContents
		adopted *model.Config
	}
	encoded struct {
		request uint64
		config  [][]byte // in parts
		entries []history.Entry
		log     *history.Log // nil if it was not asked for
	}
	parse struct {
		request uint64
		content []byte
	}
	parsed struct {
		request uint64
		config  *model.Config
		err     error
	}
	recoverFiles struct {
		request  uint64
		contents contents
	}
	recovered struct {
		request uint64
		state
		err error
	}
)

func (c *codec) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *encode:
		ctx.Respond(c.encode(m))
	case *parse:
		config, _, err := journal.DecodeConfig(m.content)
		ctx.Respond(&parsed{m.request, config, err})
	case *recoverFiles:
		ctx.Respond(c.recover(m))
	case *installWhole:
		ctx.Respond(c.install(m))
	default:
		kit.Unexpected(ctx)
	}
}

func (c *codec) encode(m *encode) *encoded {
	e := &encoded{request: m.request, entries: entriesOf(m.records, c.secrets, m.jobs)}
	if m.history != nil {
		e.log = history.Open(m.history.older, m.history.current)
	}
	if m.adopted != nil {
		e.entries = append(e.entries, adoption(m.config, m.adopted, c.secrets))
	} else {
		e.config = m.config.Parts()
	}
	if m.isWhole {
		e.config = [][]byte{bytes.Join(e.config, nil)}
	}
	return e
}

func (c *codec) recover(m *recoverFiles) *recovered {
	if s := c.prepared.take(m.contents); s != nil {
		return &recovered{request: m.request, state: *s}
	}
	s, err := m.contents.recover(false)
	return &recovered{m.request, s, err}
}

// codecClient sends requests to the codec, one at a time. It is no kit.Asker, because a request is never repeated: a codec that
// fails takes its actor with it.
type codecClient struct {
	pid  *actor.PID
	last uint64 // number of the last request
	then func(ctx actor.Context, answer any)
}

// ask sends the codec the request that make returns for a number, and has its answer passed to then. Only the last request is answered.
func (c *codecClient) ask(ctx actor.Context, make func(request uint64) any, then func(ctx actor.Context, answer any)) {
	c.last++
	c.then = then
	ctx.Request(c.pid, make(c.last))
}

// answered calls the continuation of the last request. It drops answers to other requests, such as those of a former incarnation.
func (c *codecClient) answered(ctx actor.Context, answer any) {
	var number uint64
	switch m := answer.(type) {
	case *encoded:
		number = m.request
	case *parsed:
		number = m.request
	case *recovered:
		number = m.request
	case *installed:
		number = m.request
	}
	if number == c.last && c.then != nil {
		then := c.then
		c.then = nil
		then(ctx, answer)
	}
}

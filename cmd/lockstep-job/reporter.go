package main

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"lockstep/actors/core/run"
	"lockstep/actors/luxi/wire"
)

// reporter talks to the daemon while the job runs. There may be no daemon for
// a while: reports are hints and are dropped then; the question whether the
// next opcode may begin waits until one is back.
type reporter struct {
	socket   string
	id       int64
	livelock string
	client   *wire.Client
	latest   chan json.RawMessage // at most one: the latest supersedes
	quiet    chan struct{}        // held by who uses client
}

// Pauses between attempts to reach a daemon.
const (
	retryFirst = 50 * time.Millisecond
	retryMax   = time.Second
	callMax    = 5 * time.Minute
)

func newReporter(socket string, id int64, livelock string) *reporter {
	return &reporter{socket: socket, id: id, livelock: livelock,
		latest: make(chan json.RawMessage, 1), quiet: make(chan struct{}, 1)}
}

// reportMax is how long a file may be to travel in a report, in bytes; for a
// longer one the daemon looks at the disk.
const reportMax = 1 << 20

// report tells the file's new content, without waiting for anybody. There is at
// most one goroutine that sends: one that waits will send the latest.
func (r *reporter) report(encoded []byte) {
	content := json.RawMessage(encoded)
	if len(encoded) > reportMax {
		content = json.RawMessage("null")
	}
	select {
	case <-r.latest:
		r.latest <- content
	default:
		r.latest <- content
		go r.send()
	}
}

func (r *reporter) send() {
	r.quiet <- struct{}{}
	defer func() { <-r.quiet }()
	select {
	case encoded := <-r.latest:
		// A report that is lost is made good by the next, or by the end.
		_ = r.call("LockstepReportJob", []any{r.id, r.livelock, encoded}, nil)
	default:
	}
}

// begin asks whether opcode op may begin, and returns when it may, or with the
// answer that it never will.
func (r *reporter) begin(op int) *run.Refusal {
	r.quiet <- struct{}{}
	defer func() { <-r.quiet }()
	for delay := retryFirst; ; delay = min(2*delay, retryMax) {
		var refusal *run.Refusal
		err := r.call("LockstepBeginOpcode", []any{r.id, r.livelock, op}, &refusal)
		var refused *wire.Error
		if errors.As(err, &refused) && refused.Class == "JobLost" {
			// A daemon that has just started may not have adopted us yet. A
			// real loss ends with us being made away with.
			delay = retryMax
		}
		if err == nil {
			return refusal
		}
		time.Sleep(delay)
	}
}

// ask makes a call for an opcode, when there is a daemon: a refusal is a
// *wire.Error.
func (r *reporter) ask(method string, args []any, result any) error {
	r.quiet <- struct{}{}
	defer func() { <-r.quiet }()
	for delay := retryFirst; ; delay = min(2*delay, retryMax) {
		err := r.call(method, args, result)
		var refused *wire.Error
		var malformed *wire.RequestError
		if err == nil || errors.As(err, &refused) || errors.As(err, &malformed) {
			return err
		}
		time.Sleep(delay)
	}
}

func (r *reporter) call(method string, args []any, result any) error {
	ctx, cancel := context.WithTimeout(context.Background(), callMax)
	defer cancel()
	if r.client == nil {
		client, err := wire.Dial(ctx, r.socket, wire.Options{})
		if err != nil {
			return err
		}
		r.client = client
	}
	err := r.client.Call(ctx, method, args, result)
	var answered *wire.Error
	if err != nil && !errors.As(err, &answered) {
		_ = r.client.Close() // broken: the next call dials anew
		r.client = nil
	}
	return err
}

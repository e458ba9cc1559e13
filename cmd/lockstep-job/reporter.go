package main

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"lockstep/core/jobproc"
	"lockstep/core/wire"
	"lockstep/edge/luxiclient"
)

// reporter makes calls to the daemon while the job runs. The daemon may be down for a while. So
// a report is repeated until a daemon accepts it or a newer report replaces it, and a question
// is repeated until it is answered. An answer may take hours; reports do not wait for it.
type reporter struct {
	socket   string
	id       int64
	livelock string

	mu         sync.Mutex
	latest     json.RawMessage    // content that is not reported yet; nil: none
	delivered  chan struct{}      // closed when all content is reported; nil: all is
	idleClient *luxiclient.Client // a connection for the next call; nil: none
}

// Pauses between attempts to reach a daemon.
const (
	retryFirst  = 50 * time.Millisecond
	retryMax    = time.Second
	callTimeout = 5 * time.Minute
	// reportTimeout is how long the answer to a report may take. The daemon answers a report
	// at once, so without an answer the report is lost.
	reportTimeout = 10 * time.Second
)

func newReporter(socket string, id int64, livelock string) *reporter {
	return &reporter{socket: socket, id: id, livelock: livelock}
}

// reportSizeMax bounds the file in a report, in bytes. For a larger file the report has no
// content, and the daemon reads the disk.
const reportSizeMax = 1 << 20

// report reports the file's new content to the daemon, without waiting. At most one goroutine
// sends; new content replaces content that is not sent yet.
func (r *reporter) report(encoded []byte) {
	content := json.RawMessage(encoded)
	if len(encoded) > reportSizeMax {
		content = json.RawMessage("null")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.latest = content
	if r.delivered == nil {
		r.delivered = make(chan struct{})
		go r.sendLoop(r.delivered)
	}
}

// sendLoop sends the latest content until there is none. While no daemon takes it, a
// client that asks the daemon would see an older state.
func (r *reporter) sendLoop(delivered chan struct{}) {
	defer close(delivered)
	for delay := retryFirst; ; {
		content := r.takeLatest()
		if content == nil {
			return
		}
		err := r.call(reportTimeout, "LockstepReportJob", []any{r.id, r.livelock, content}, nil)
		if err == nil || isFinal(err, reportFinal) {
			delay = retryFirst
			continue
		}
		r.restore(content)
		time.Sleep(delay)
		delay = min(2*delay, retryMax)
	}
}

// takeLatest takes the content to report; nil: none, and sendLoop ends.
func (r *reporter) takeLatest() json.RawMessage {
	r.mu.Lock()
	defer r.mu.Unlock()
	content := r.latest
	r.latest = nil
	if content == nil {
		r.delivered = nil
	}
	return content
}

// restore puts back content that no daemon has accepted, unless there is newer content.
func (r *reporter) restore(content json.RawMessage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.latest == nil {
		r.latest = content
	}
}

// awaitPermission asks whether opcode op may begin. It returns nil when the opcode may, or the
// refusal. It waits until all reports are delivered, so that the daemon knows that the former
// opcode has ended.
func (r *reporter) awaitPermission(op int) *jobproc.Denial {
	r.mu.Lock()
	delivered := r.delivered
	r.mu.Unlock()
	if delivered != nil {
		<-delivered
	}
	for delay := retryFirst; ; delay = min(2*delay, retryMax) {
		var refusal *jobproc.Denial
		err := r.call(callTimeout, "LockstepBeginOpcode", []any{r.id, r.livelock, op}, &refusal)
		var refused *wire.Error
		if errors.As(err, &refused) && refused.Class == "JobLost" {
			// A daemon that has just started may not have adopted this process yet.
			// If the job is really lost, the daemon kills this process.
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
	for delay := retryFirst; ; delay = min(2*delay, retryMax) {
		err := r.call(callTimeout, method, args, result)
		if err == nil || isFinal(err, askFinal) {
			return err
		}
		time.Sleep(delay)
	}
}

// Classes of errors by which a daemon has decided. Any other, above all that of a
// node that is not the master or not yet, says that a daemon is to be asked later.
var (
	reportFinal = []string{"GenericError", "ProgrammerError"}
	askFinal    = []string{"GenericError", "ProgrammerError", "OpPrereqError", "ParameterError", "ConfigurationError", "JobLost"}
	lockFinal   = []string{"GenericError", "ProgrammerError"}
)

// isFinal reports whether an error is of one of these classes, or says that the
// request itself is wrong: to make the call again would not help.
func isFinal(err error, classes []string) bool {
	var refused *wire.Error
	var malformed *wire.RequestError
	return errors.As(err, &malformed) || errors.As(err, &refused) && slices.Contains(classes, refused.Class)
}

// call makes one call. Calls may be made side by side, each over a connection that
// it has for itself; one connection is kept for the next.
func (r *reporter) call(limit time.Duration, method string, args []any, result any) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	r.mu.Lock()
	client := r.idleClient
	r.idleClient = nil
	r.mu.Unlock()
	if client == nil {
		var err error
		if client, err = luxiclient.Dial(ctx, r.socket, luxiclient.Options{}); err != nil {
			return err
		}
	}
	err := client.Call(ctx, method, args, result)
	var answered *wire.Error
	if err == nil || errors.As(err, &answered) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.idleClient == nil {
			r.idleClient = client
			return err
		}
	}
	_ = client.Close() // broken, or one more than needed
	return err
}

package rapi

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/sirupsen/logrus"

	"lockstep/edge/admission"
	"lockstep/edge/login"
	"lockstep/edge/ratelog"
	"lockstep/edge/tlsserver"
)

// raw is JSON already made.
type raw = json.RawMessage

// What an operation may return, beside anything that has a JSON form.
type (
	// created is 201, with where to find what was made.
	created struct {
		location string
		body     any
	}
	// parts are JSON already made, one text together.
	parts [][]byte
	// streamedJSON writes JSON that is too large to be held twice. An error in the middle cuts
	// the answer off.
	streamedJSON func(io.Writer) error
	// rendered makes the result, which takes a while.
	rendered func() (any, error)
	// alreadyWritten is the result of an operation that has written its answer itself.
	alreadyWritten struct{}
)

// replier sends the results of operations to HTTP clients.
type replier struct {
	table    *admission.Table // for turns to make an answer
	failures *ratelog.Log     // of errors whose cause the client is not told
}

// reply sends the result of an operation, or its error. What it sends is bounded by the budget of memory.
func (p *replier) reply(w *responseRecorder, result any, err error) {
	if err != nil {
		p.replyError(w, err)
		return
	}
	code := http.StatusOK
	switch v := result.(type) {
	case alreadyWritten:
		return
	case streamedJSON:
		p.stream(w, v)
		return
	case created:
		code, result = http.StatusCreated, v.body
		w.Header().Set("Location", v.location)
	}
	switch made := result.(type) { // counted when it was called for
	case raw:
		send(w, code, made, newline)
		return
	case parts:
		send(w, code, append(made, newline)...)
		return
	}
	data, err := p.render(w, result)
	if err != nil {
		p.replyError(w, err)
		return
	}
	send(w, code, data)
}

// replyError answers with an error. Its cause is logged if the answer hides it.
func (p *replier) replyError(w *responseRecorder, err error) {
	f := asFailure(err)
	if f == errInternal {
		p.failures.Record("count", logrus.Fields{"operation": w.operation, "err": err})
	}
	answerFailure(w, f)
}

// render encodes a result. One that takes a while is made in the turn of the client: many requests of one client leave a processor to
// others.
func (p *replier) render(w *responseRecorder, result any) ([]byte, error) {
	if work, is := result.(rendered); is {
		release, err := p.renderTurn(w)
		if err != nil {
			return nil, err
		}
		defer release()
		if result, err = work(); err != nil {
			return nil, err
		}
	}
	if made, is := result.(raw); is {
		return append(made, newline...), w.request.Take(len(made))
	}
	data, err := encode(result)
	if err != nil {
		return nil, fmt.Errorf("encode the answer: %w", err)
	}
	return data, w.request.Take(len(data))
}

// renderTurn returns when the client of a request may use a processor. A client that has gone is noticed by the write.
func (p *replier) renderTurn(w *responseRecorder) (release func(), err error) {
	ctx := admission.WithClient(context.Background(), w.request.Client())
	_, release, err = p.table.Turn(ctx, admission.Render)
	return release, err
}

// encode returns JSON with a final newline, as Ganeti's server sends it, without escapes for
// HTML: job output often has < and &.
func encode(value any) ([]byte, error) {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return buffer.Bytes(), err
}

var newline = []byte{'\n'}

// send sends an answer of JSON in parts, with its length.
func send(w http.ResponseWriter, code int, parts ...[]byte) {
	length := 0
	for _, part := range parts {
		length += len(part)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(length))
	w.WriteHeader(code)
	for _, part := range parts {
		if _, err := w.Write(part); err != nil {
			return // a client that has gone gets no answer
		}
	}
}

// stream sends an answer while it is made. Each chunk is made in the turn of the client, which ends while the client takes the chunk:
// many large lists at a time leave the processors to others, and a slow reader keeps no turn.
func (p *replier) stream(w *responseRecorder, write streamedJSON) {
	out := &turnWriter{to: w, turn: func() (func(), error) { return p.renderTurn(w) }}
	err := out.resume()
	if errors.Is(err, admission.ErrBusy) {
		answerFailure(w, errBusy)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	buffer := bufio.NewWriterSize(out, tlsserver.ChunkSize)
	if err == nil {
		err = write(buffer)
	}
	if err == nil {
		err = buffer.Flush()
	}
	out.end()
	if err != nil {
		panic(http.ErrAbortHandler) // an incomplete answer must not look like a complete one
	}
}

// turnWriter writes an answer that is made in parts. While a part is being written it gives its turn back, so that a slow client keeps
// none.
type turnWriter struct {
	to   io.Writer
	turn func() (release func(), err error)
	end  func() // of the turn that it has
}

func (w *turnWriter) resume() (err error) {
	w.end, err = w.turn()
	if err != nil {
		w.end = func() {}
	}
	return err
}

// Write is part of io.Writer. It gives the turn back while the client takes the data, and then waits for the next turn.
func (w *turnWriter) Write(data []byte) (int, error) {
	w.end()
	n, err := w.to.Write(data)
	if err == nil {
		err = w.resume()
	}
	return n, err
}

// answerFailure sends an error, with the headers that its code needs.
func answerFailure(w http.ResponseWriter, f *Failure) {
	if f.Code == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Basic realm="`+login.Realm+`"`)
	}
	if f.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(f.RetryAfter))
	}
	if f.Allow != "" {
		w.Header().Set("Allow", f.Allow)
	}
	data, err := encode(f.body())
	if err != nil {
		data = []byte("{}\n") // never reached: texts can be encoded
	}
	send(w, f.Code, data)
}

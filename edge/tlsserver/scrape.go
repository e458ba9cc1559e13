package tlsserver

import (
	"bytes"
	"net/http"
	"strconv"

	"lockstep/edge/admission"
)

// Scrape answers with metrics. They are made in the turn of the client, and sent when they are complete, so that a client that reads
// slowly keeps no turn. The error is admission.ErrBusy or that of the request; nothing has been written then.
func Scrape(w http.ResponseWriter, r *http.Request, table *admission.Table, metrics http.Handler) error {
	ctx, release, err := table.Turn(r.Context(), admission.Render)
	if err != nil {
		return err
	}
	made := &bufferedAnswer{header: w.Header(), code: http.StatusOK}
	metrics.ServeHTTP(made, r)
	release()
	if err := admission.Take(ctx, made.body.Len()); err != nil {
		return err
	}
	w.Header().Set("Content-Length", strconv.Itoa(made.body.Len()))
	w.WriteHeader(made.code)
	_, _ = w.Write(made.body.Bytes()) // a client that has gone gets no answer
	return nil
}

// bufferedAnswer is an answer that is not sent yet.
type bufferedAnswer struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

// Header returns the headers of the answer, as http.ResponseWriter wants. They are those of the real answer.
func (a *bufferedAnswer) Header() http.Header { return a.header }

// WriteHeader keeps the status of the answer, until it is sent.
func (a *bufferedAnswer) WriteHeader(code int) { a.code = code }

// Write appends to the body of the answer in memory, until it is sent.
func (a *bufferedAnswer) Write(data []byte) (int, error) { return a.body.Write(data) }

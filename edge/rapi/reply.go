package rapi

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strconv"

	"github.com/sirupsen/logrus"
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
	// streamedJSON is JSON too large to be held twice; what goes wrong in the middle
	// of it cuts it off.
	streamedJSON func(io.Writer) error
	// alreadyWritten: the operation has done so itself.
	alreadyWritten struct{}
)

// reply sends what an operation has returned.
func (s *Server) reply(w *responseRecorder, result any, err error) {
	if err != nil {
		f := asFailure(err)
		if f == errInternal {
			s.config.Log.WithFields(logrus.Fields{"op": w.operation, "err": err}).Error("a request over the remote API has failed")
		}
		s.answerFailure(w, f)
		return
	}
	code := http.StatusOK
	switch v := result.(type) {
	case alreadyWritten:
		return
	case streamedJSON:
		s.stream(w, v)
		return
	case created:
		code, result = http.StatusCreated, v.body
		w.Header().Set("Location", v.location)
	}
	data, err := encode(result)
	if err != nil {
		s.config.Log.WithFields(logrus.Fields{"op": w.operation, "err": err}).Error("an answer of the remote API cannot be encoded")
		s.answerFailure(w, errInternal)
		return
	}
	s.send(w, code, data)
}

// encode is JSON as Ganeti's server ends it, without escapes for HTML: job output
// is full of < and &.
func encode(value any) ([]byte, error) {
	if made, is := value.(raw); is {
		return append(bytes.Clone(made), '\n'), nil
	}
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return buffer.Bytes(), err
}

func (s *Server) send(w http.ResponseWriter, code int, data []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	control := http.NewResponseController(w)
	w.WriteHeader(code)
	_, _ = deadlineWriter{w, control}.Write(data) // who is gone is not told
}

func (s *Server) stream(w http.ResponseWriter, write streamedJSON) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	buffer := bufio.NewWriterSize(deadlineWriter{w, http.NewResponseController(w)}, sendChunk)
	err := write(buffer)
	if err == nil {
		err = buffer.Flush()
	}
	if err != nil {
		panic(http.ErrAbortHandler) // half an answer must not look like a whole one
	}
}

func (s *Server) answerFailure(w http.ResponseWriter, f *Failure) {
	if f.Code == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Basic realm="`+Realm+`"`)
	}
	if f.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(f.RetryAfter))
	}
	if f.Allow != "" {
		w.Header().Set("Allow", f.Allow)
	}
	data, err := encode(f.body())
	if err != nil {
		data = []byte("{}\n") // texts have a JSON form
	}
	s.send(w, f.Code, data)
}

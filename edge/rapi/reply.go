package rapi

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strconv"

	"github.com/sirupsen/logrus"

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
	// streamedJSON writes JSON that is too large to be held twice. An error in the middle cuts
	// the answer off.
	streamedJSON func(io.Writer) error
	// alreadyWritten says that the operation has written its answer.
	alreadyWritten struct{}
)

// reply sends the result of an operation.
func (s *Server) reply(w *responseRecorder, result any, err error) {
	if err != nil {
		f := asFailure(err)
		if f == errInternal {
			s.config.Log.WithFields(logrus.Fields{"operation": w.operation, "err": err}).Error("remote API: request failed")
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
		s.config.Log.WithFields(logrus.Fields{"operation": w.operation, "err": err}).Error("remote API: encoding of an answer failed")
		s.answerFailure(w, errInternal)
		return
	}
	s.send(w, code, data)
}

// encode returns JSON with a final newline, as Ganeti's server sends it, without escapes for
// HTML: job output often has < and &.
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
	w.WriteHeader(code)
	_, _ = withDeadline(w).Write(data) // a client that has gone gets no answer
}

func (s *Server) stream(w http.ResponseWriter, write streamedJSON) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	buffer := bufio.NewWriterSize(withDeadline(w), tlsserver.ChunkSize)
	err := write(buffer)
	if err == nil {
		err = buffer.Flush()
	}
	if err != nil {
		panic(http.ErrAbortHandler) // an incomplete answer must not look like a complete one
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
		data = []byte("{}\n") // never reached: texts can be encoded
	}
	s.send(w, f.Code, data)
}

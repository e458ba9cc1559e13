package tlsserver

import (
	"log"
	"net/http"
	"time"

	"github.com/sirupsen/logrus"

	"lockstep/edge/ratelog"
)

// ChunkSize is how much of a stream is written at a time, in bytes.
const ChunkSize = 64 << 10

// StreamWriter writes the messages of a stream, each at once. A client that takes longer than Timeout for a chunk of ChunkSize bytes
// loses the connection.
type StreamWriter struct {
	Response http.ResponseWriter
	Timeout  time.Duration
}

// Write is part of io.Writer. It sends the data in chunks, each within Timeout, and returns how many bytes were sent.
func (w StreamWriter) Write(data []byte) (written int, err error) {
	control := http.NewResponseController(w.Response)
	for len(data) > 0 {
		chunk := data[:min(len(data), ChunkSize)]
		if err := control.SetWriteDeadline(time.Now().Add(w.Timeout)); err != nil {
			return written, err
		}
		n, err := w.Response.Write(chunk)
		written += n
		if err == nil {
			err = control.Flush()
		}
		if err != nil {
			return written, err
		}
		data = data[n:]
	}
	return written, nil
}

// ErrorLog is the log of a http.Server, whose lines strangers can cause: at most one line a second, with this level and message, the latest
// error as the field "err", and their number as "count".
func ErrorLog(to *logrus.Logger, level logrus.Level, message string) *log.Logger {
	return log.New(errorLog{ratelog.New(to, level, message, "count")}, "", 0)
}

type errorLog struct{ lines *ratelog.Log }

func (l errorLog) Write(line []byte) (int, error) {
	l.lines.Record("count", logrus.Fields{"err": string(line)})
	return len(line), nil
}

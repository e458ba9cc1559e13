package tlsserver

import (
	"log"
	"net/http"
	"time"

	"github.com/sirupsen/logrus"
)

// ChunkSize is how much of an answer must be sent within one deadline, in bytes.
const ChunkSize = 64 << 10

// DeadlineWriter writes an answer in chunks of at most ChunkSize bytes, and sets a deadline for
// each chunk. A client may take long for the whole answer, and loses the connection if it takes
// longer than Timeout for one chunk.
type DeadlineWriter struct {
	Response http.ResponseWriter
	Timeout  time.Duration
	// Flush sends each chunk at once instead of when the server's buffer is full.
	Flush bool
}

// Write is part of io.Writer.
func (w DeadlineWriter) Write(data []byte) (written int, err error) {
	control := http.NewResponseController(w.Response)
	for len(data) > 0 {
		if err := control.SetWriteDeadline(time.Now().Add(w.Timeout)); err != nil {
			return written, err
		}
		n, err := w.Response.Write(data[:min(len(data), ChunkSize)])
		written += n
		if err == nil && w.Flush {
			err = control.Flush()
		}
		if err != nil {
			return written, err
		}
		data = data[n:]
	}
	return written, nil
}

// ErrorLog is the log of a http.Server. Each line becomes an entry of log with this level and
// message, and the line as the field "err".
func ErrorLog(to *logrus.Logger, level logrus.Level, message string) *log.Logger {
	return log.New(errorLog{to, level, message}, "", 0)
}

type errorLog struct {
	to      *logrus.Logger
	level   logrus.Level
	message string
}

func (l errorLog) Write(line []byte) (int, error) {
	l.to.WithField("err", string(line)).Log(l.level, l.message)
	return len(line), nil
}

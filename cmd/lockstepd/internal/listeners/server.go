package listeners

import (
	"context"
	"time"

	"github.com/sirupsen/logrus"
)

// httpServer is the remote API or MonD.
type httpServer interface {
	Serve() error
	Stop()
	Shutdown(ctx context.Context) error
}

// server is a HTTP server that runs. A nil server is not open; its methods do nothing.
type server struct {
	http httpServer
	done chan struct{} // closed when it has stopped
}

// serve runs a HTTP server. failed is logged if it ends with an error.
func serve(http httpServer, log *logrus.Logger, failed string) *server {
	s := &server{http: http, done: make(chan struct{})}
	go func() {
		if err := http.Serve(); err != nil {
			log.WithField("err", err).Error(failed)
		}
		close(s.done)
	}()
	return s
}

// stop accepts no more requests. wait returns when the accepted ones are answered, or at end.
func (s *server) stop() {
	if s != nil {
		s.http.Stop()
	}
}

func (s *server) wait(end time.Time) {
	if s == nil {
		return
	}
	ctx, cancel := context.WithDeadline(context.Background(), end)
	defer cancel()
	_ = s.http.Shutdown(ctx) // a client that is cut off sees the end of its connection
	<-s.done
}

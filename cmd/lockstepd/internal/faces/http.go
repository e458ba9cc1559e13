package faces

import (
	"context"
	"time"

	"github.com/sirupsen/logrus"
)

// httpServer is a server of ganeti-rapi or ganeti-mond.
type httpServer interface {
	Serve() error
	Stop()
	Shutdown(ctx context.Context) error
}

// serveFace serves until stop is done, and then gives accepted requests up to endMax. started is called when the server runs. The
// error is that of Serve.
func serveFace(stop context.Context, server httpServer, log *logrus.Logger, endMax time.Duration, started func()) error {
	ended := make(chan error, 1)
	go func() { ended <- server.Serve() }()
	started()
	select {
	case err := <-ended:
		return err
	case <-stop.Done():
	}
	server.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), endMax)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		log.WithField("err", err).Warn("requests were cut off")
	}
	return <-ended
}

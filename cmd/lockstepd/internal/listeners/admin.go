package listeners

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/pprof"
	"runtime"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"lockstep/core/ownership"
	"lockstep/edge/socket"
	"lockstep/persistence"
)

// adminHeaderMax is how long a client may take to send the header of a request.
const adminHeaderMax = 10 * time.Second

// admin serves the profiles of net/http/pprof on a unix socket, to the daemon's own user: a profile
// shows memory, with secrets in it. Between requests it costs
// nothing.
type admin struct {
	server *http.Server
	done   chan struct{} // closed when no more requests are served
}

// openAdmin opens the socket. The caller owns the run directory, so that an existing socket is a
// left-over.
func openAdmin(runDir string, owner ownership.Attributes, log *logrus.Logger) (*admin, error) {
	listener, err := socket.ListenUnix(persistence.SocketPath(runDir, persistence.AdminSocket), owner)
	if err != nil {
		return nil, fmt.Errorf("open the admin socket: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	mux.Handle("/debug/pprof/block", sampleDuringRequest("block", runtime.SetBlockProfileRate, blockRate))
	mux.Handle("/debug/pprof/mutex", sampleDuringRequest("mutex", func(rate int) { runtime.SetMutexProfileFraction(rate) }, mutexFraction))
	a := &admin{server: &http.Server{Handler: mux, ReadHeaderTimeout: adminHeaderMax}, done: make(chan struct{})}
	go func() {
		defer close(a.done)
		if err := a.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.WithField("err", err).Error("admin socket: server failed; no more requests are answered")
		}
	}()
	return a, nil
}

// Rates of sampling: one block event per this many nanoseconds, one of this many contentions.
const (
	blockRate     = 10_000
	mutexFraction = 10
)

// sampleDuringRequest samples only while it serves a request for a profile of some seconds, so
// that it costs nothing otherwise. It serves one such request at a time.
func sampleDuringRequest(profile string, setRate func(rate int), rate int) http.Handler {
	var running sync.Mutex
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("seconds") == "" {
			http.Error(w, "ask for seconds: /debug/pprof/"+profile+"?seconds=10 samples for so long, and not before", http.StatusBadRequest)
			return
		}
		if !running.TryLock() {
			http.Error(w, "somebody is sampling already: ask again when that is over", http.StatusConflict)
			return
		}
		defer running.Unlock()
		setRate(rate)
		defer setRate(0)
		pprof.Handler(profile).ServeHTTP(w, r)
	})
}

// close closes the socket and cuts off open requests: a stopping daemon completes no profile. On
// nil it does nothing.
func (a *admin) close() error {
	if a == nil {
		return nil
	}
	err := a.server.Close()
	<-a.done
	return err
}

package tlsserver_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/sirupsen/logrus"
	"github.com/stretchr/testify/require"

	"lockstep/edge/admission"
	"lockstep/edge/tlsserver"
)

// slowServer is a server that answers a request when the test says so.
type slowServer struct {
	*tlsserver.Server
	begun, release chan struct{}
	ended          chan error  // of Serve
	answers        chan string // to the request; "" if it was cut off
}

// startSlow starts a server with a request that is being answered.
func startSlow(t *testing.T) *slowServer {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &slowServer{begun: make(chan struct{}), release: make(chan struct{}), ended: make(chan error, 1), answers: make(chan string, 1)}
	s.Server = tlsserver.NewServer(tlsserver.Config{Name: "test", CutOff: "requests were cut off", Log: logrus.New(), Listener: listener, Connections: 2,
		Table: admission.NewTable(),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			close(s.begun)
			<-s.release
			_, _ = io.WriteString(w, "answer")
		})})
	go func() { s.ended <- s.Serve() }()
	go func() {
		var body []byte
		if response, err := http.Get("http://" + listener.Addr().String()); err == nil {
			body, _ = io.ReadAll(response.Body)
			_ = response.Body.Close()
		}
		s.answers <- string(body)
	}()
	<-s.begun
	require.Equal(t, 1, s.Connections())
	return s
}

func TestAServerAnswersItsRequestsBeforeItEnds(t *testing.T) {
	s := startSlow(t)
	s.Stop()
	require.NoError(t, <-s.ended)
	close(s.release)
	require.NoError(t, s.Shutdown(t.Context()))
	require.Equal(t, "answer", <-s.answers)
}

func TestAServerCutsOffRequestsWhenItsTimeIsUp(t *testing.T) {
	s := startSlow(t)
	defer close(s.release)
	s.Stop()
	require.NoError(t, <-s.ended)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorContains(t, s.Shutdown(over), "requests were cut off")
	require.Empty(t, <-s.answers)
}

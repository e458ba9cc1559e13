package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// leakStep makes the program of the test leak connections to a socket until it is killed.
const leakStep = "leak"

// leaked is the number of connections that it keeps open.
const leaked = 100

// leak opens connections and sends nothing over them. It opens a connection again when the
// daemon has closed it.
func leak(path string) {
	connections := make(chan struct{}, leaked)
	fmt.Println("leaking")
	for {
		connections <- struct{}{}
		c, err := net.Dial("unix", path)
		if err != nil {
			<-connections
			time.Sleep(time.Millisecond)
			continue
		}
		go func() {
			_, _ = c.Read(make([]byte, 1))
			_ = c.Close()
			<-connections
		}()
	}
}

// A local program that leaks connections to both sockets, more than the limit, blocks neither
// job processes nor clients.
func TestALeakingProgram(t *testing.T) {
	d := newDaemon(t)
	d.start("--max-connections", "30")
	for _, name := range []string{"ganeti-query", "ganeti-wconfd"} {
		program := exec.Command(os.Args[0])
		program.Env = append(os.Environ(), childEnv+"="+leakStep+"|"+d.path("run", "socket", name))
		out, err := program.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, program.Start())
		t.Cleanup(func() {
			_ = program.Process.Kill()
			_ = program.Wait()
		})
		_, err = out.Read(make([]byte, 1))
		require.NoError(t, err)
	}
	c := d.dial()
	for range 3 {
		delay := op{"OP_ID": "OP_TEST_DELAY", "duration": 0.05, "on_master": true}
		j := c.await(c.submit(delay, delay, delay))
		require.Equal(t, "success", j.Status)
	}
}

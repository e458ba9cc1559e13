package outputs_test

import (
	"bufio"
	"io"
	"net"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/budget"
	"lockstep/core/opcode"
	"lockstep/core/outflow"
	"lockstep/edge/outputs/end"
)

// keptBytes is a job that has ended and has kept so much of its standard output.
func keptBytes(n int64) opcode.Kept {
	return opcode.Kept{Ended: true, Surely: true, Parts: []opcode.KeptPart{{Vouched: true, Stdout: n}}}
}

// Files count for a job that says that it has kept output, at each node. For others no node is asked.
func TestWhoIsAskedForKeptOutput(t *testing.T) {
	all := &nodes{master: "n1"}
	master, second, third := all.add(t, "n1"), all.add(t, "n2"), all.add(t, "n3")
	for _, m := range []*node{master, second, third} {
		for job := range int64(30) {
			m.keep(job, outflow.Stderr, []byte("of another job"))
			if m == third {
				m.keep(job, outflow.Stdout, text(1000))
			}
		}
	}
	unsure := opcode.Kept{Parts: []opcode.KeptPart{{}}}
	died := running
	died.Ended = true
	job := int64(10)
	for name, c := range map[string]struct {
		at    *node
		says  *opcode.Kept // nil: nothing
		want  int
		asked []string
	}{
		"it keeps nothing":            {second, &opcode.Kept{Ended: true}, 0, nil},
		"it keeps nothing, and runs":  {second, &opcode.Kept{}, 0, nil},
		"it is unknown":               {master, nil, 0, nil},
		"it is unknown here":          {second, nil, 0, []string{"n1"}},
		"it runs here":                {master, &running, 0, nil},
		"it may keep, and runs there": {second, &unsure, 0, []string{"n1"}},
		"it had kept":                 {second, ptr(keptBytes(1000)), 900, []string{"n1", "n3"}},
		"it had kept less":            {second, ptr(keptBytes(100)), 0, nil},
		"a try ran elsewhere":         {master, ptr(keptBytes(1000)), 900, []string{"n2", "n3"}},
		"it died":                     {second, &died, 900, []string{"n1", "n3"}},
		"it may have kept, and died":  {second, &opcode.Kept{Ended: true, Parts: []opcode.KeptPart{{}}}, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			job++
			if c.says != nil {
				all.says(job, *c.says)
			}
			got, _ := c.at.readKept(job, end.Kept{From: 100, To: 1000})
			require.Len(t, got, c.want)
			require.Equal(t, c.asked, all.asked())
		})
	}
	all.says(8, keptBytes(1000))
	for _, asked := range [][]string{{"n1", "n3"}, {"n3"}, {"n3"}} {
		got, _ := second.readKept(8, end.Kept{From: 999, To: 1000})
		require.Len(t, got, 1)
		require.Equal(t, asked, all.asked(), "the node that had it is asked first")
	}
	all.setMaster("gone")
	all.says(7, running)
	r := end.NewReader(second.dial(end.Hello{Job: 7, Kept: &end.Kept{From: 100, To: 1000}}), outflow.Position{})
	_, _, err := r.Next()
	require.Error(t, err)
	require.False(t, r.Ended, "the node that runs it cannot be asked: the reader asks again")
}

func ptr[T any](v T) *T { return &v }

// A node that is asked for kept output and does not answer holds up neither the end of the daemon nor that of the reader's request.
func TestANodeThatDoesNotAnswer(t *testing.T) {
	for _, answered := range []bool{false, true} {
		for name, ends := range map[string]func(second *node, reader *os.File) error{
			"the daemon ends": func(second *node, _ *os.File) error { return second.server.Close() },
			"the reader ends": func(_ *node, reader *os.File) error { return reader.Close() },
		} {
			t.Run(name+", a part was sent: "+strconv.FormatBool(answered), func(t *testing.T) {
				all := &nodes{master: "n1"}
				second := all.add(t, "n2")
				mute, err := net.Listen("tcp", "127.0.0.1:0")
				require.NoError(t, err)
				all.mu.Lock()
				all.listeners["n1"] = mute
				all.mu.Unlock()
				t.Cleanup(func() { _ = mute.Close() })
				all.says(7, keptBytes(1000))
				reader := second.dial(end.Hello{Job: 7, Kept: &end.Kept{To: 1000}})
				c, err := mute.Accept()
				require.NoError(t, err)
				defer c.Close()
				require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
				hello := bufio.NewReader(c)
				_, err = hello.ReadString('\n')
				require.NoError(t, err)
				if answered {
					f := outflow.Frame{Output: []byte("x")}
					_, err := c.Write(append(f.AppendHeader(nil), f.Output...))
					require.NoError(t, err)
					_, err = io.ReadFull(reader, make([]byte, outflow.HeaderSize+1))
					require.NoError(t, err)
				}
				done := make(chan error, 1)
				go func() { done <- ends(second, reader) }()
				_, err = hello.ReadByte()
				require.ErrorIs(t, err, io.EOF)
				select {
				case err := <-done:
					require.NoError(t, err)
				case <-time.After(patience):
					require.Fail(t, "it does not end")
				}
			})
		}
	}
}

// The master ends the readers of a node that it has lost, and no others. Their connections would go on for long.
func TestReadersOfALostNode(t *testing.T) {
	all := &nodes{master: "n1"}
	master, second, third := all.add(t, "n1"), all.add(t, "n2"), all.add(t, "n3")
	readers, _ := master.process(7)
	second.dial(end.Hello{Job: 7})
	lost := master.take(readers)
	third.dial(end.Hello{Job: 7})
	other := master.take(readers)
	all.mu.Lock()
	all.lost = map[string]bool{"n2": true}
	all.mu.Unlock()
	_, err := lost.conn.Read(make([]byte, 1))
	require.Error(t, err)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NoError(t, other.conn.SetReadDeadline(time.Unix(1, 0)))
	_, err = other.conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded, "it is open")
}

// Readers, however many the daemon's own user has, do not displace the process of a job: one that came later gives way.
func TestProcessesDoNotGiveWayToReaders(t *testing.T) {
	b := newBench(t)
	process := b.dial(end.Hello{Job: 7, Writes: true})
	takeOne := func() {
		reader, err := b.server.Open(budget.Client{Name: "user=other"}, end.Hello{Job: 7})
		require.NoError(t, err)
		defer reader.Close()
		_, passed, err := end.Receive(process, make([]byte, end.HelloMax))
		require.NoError(t, err)
		require.NoError(t, passed.Close())
	}
	takeOne()
	client := budget.Client{Name: "uid=" + strconv.Itoa(os.Geteuid())}
	displaced := make(chan struct{})
	for n := 0; ; n++ {
		c, err := b.server.Open(client, end.Hello{Job: 8})
		require.NoError(t, err)
		defer c.Close()
		if n == 0 {
			go func() {
				defer close(displaced)
				_, _ = c.Read(make([]byte, 1))
			}()
		}
		select {
		case <-displaced:
			takeOne()
			return
		default:
		}
	}
}

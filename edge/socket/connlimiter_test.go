package socket

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func connectionOf(pid int) *streamConn {
	near, far := net.Pipe()
	_ = far.Close()
	return &streamConn{conn: near, peer: peer{known: true, pid: pid}, onEnd: func() {}}
}

// The number of connections never exceeds the limit. The connection that is closed to make
// room is idle, and belongs to the process with the most connections among those with an
// idle one.
func TestTheConnLimiter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(1, 6).Draw(t, "most")
		r := newConnLimiter(most)
		var open []*streamConn // in the order in which they became idle
		busy := map[*streamConn]bool{}
		drop := func(c *streamConn) {
			for i := range open {
				if open[i] == c {
					open = append(open[:i:i], open[i+1:]...)
					return
				}
			}
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if len(open) > 0 && rapid.Bool().Draw(t, "changes") {
				c := open[rapid.IntRange(0, len(open)-1).Draw(t, "which")]
				switch rapid.IntRange(0, 2).Draw(t, "how") {
				case 0:
					r.markBusy(c)
					busy[c] = true
				case 1:
					r.markIdle(c)
					if busy[c] {
						drop(c)
						open = append(open, c)
						busy[c] = false
					}
				default:
					r.connClosed(c)
					r.connClosed(c)
					drop(c)
				}
				continue
			}
			number := map[int]int{}
			for _, c := range open {
				number[c.peer.pid]++
			}
			var victim *streamConn
			for _, c := range open {
				if !busy[c] && (victim == nil || number[c.peer.pid] > number[victim.peer.pid]) {
					victim = c
				}
			}
			c := connectionOf(rapid.IntRange(1, 3).Draw(t, "pid"))
			admitted := r.admit(c)
			require.Equal(t, len(open) < most || victim != nil, admitted)
			if len(open) >= most && victim != nil {
				require.True(t, victim.evicted.Load())
				drop(victim)
			}
			if admitted {
				open = append(open, c)
			}
			require.Len(t, r.open, len(open))
			require.LessOrEqual(t, len(r.open), most)
			for _, c := range open {
				require.False(t, c.evicted.Load())
			}
		}
	})
}

// A program that leaks connections loses its own connections, however many it opens.
func TestAProgramThatLeaksConnections(t *testing.T) {
	r := newConnLimiter(100)
	process, client := connectionOf(1), connectionOf(2)
	require.True(t, r.admit(process))
	require.True(t, r.admit(client))
	for range 10_000 {
		require.True(t, r.admit(connectionOf(3)))
	}
	for range 5 {
		require.True(t, r.admit(connectionOf(1)))
	}
	require.False(t, process.evicted.Load())
	require.False(t, client.evicted.Load())
	require.Equal(t, map[int]int{1: 6, 2: 1, 3: 93}, r.openByPID)
}

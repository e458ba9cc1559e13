package admission_test

import (
	"context"
	"errors"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/budget"
	"lockstep/edge/admission"
)

func as(name string) context.Context {
	return admission.WithClient(context.Background(), admission.User(name))
}

// A connection over loopback belongs to the user who has made it, over both families and for a socket of both.
func TestTheUserOfALoopbackConnection(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0", "[::]:0"} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Logf("%s: %v", address, err) // a machine without IPv6
			continue
		}
		for _, host := range []string{"127.0.0.1", "::1"} {
			_, port, err := net.SplitHostPort(l.Addr().String())
			require.NoError(t, err)
			client, err := net.Dial("tcp", net.JoinHostPort(host, port))
			if err != nil {
				continue // another family
			}
			server, err := l.Accept()
			require.NoError(t, err)
			require.Equal(t, admission.UID(os.Getuid()), admission.Peer(server), "%s to %s", host, address)
			require.NoError(t, errors.Join(client.Close(), server.Close()))
		}
		require.NoError(t, l.Close())
	}
}

func TestAddressesOfOneCustomerAreOneClient(t *testing.T) {
	require.Equal(t, admission.Address("10.0.0.1:5"), admission.Address("::ffff:10.0.0.1"))
	require.Equal(t, admission.Address("[2001:db8::1]:5"), admission.Address("2001:db8::2"))
	require.NotEqual(t, admission.Address("2001:db8::1"), admission.Address("2001:db8:0:1::1"))
	require.NotEqual(t, admission.Address("10.0.0.1"), admission.Address("10.0.0.2"))
}

// A client whose requests fill all turns and the queue delays another one by one turn at most; a request that waits too long is refused.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := admission.NewTable()
		var ends []func()
		for _, name := range []string{"flood", "flood", "flood", "bob"} {
			_, end, err := table.Turn(as(name), admission.Page)
			require.NoError(t, err)
			ends = append(ends, end)
		}
		refused := make(chan error, 2000)
		for range 1500 {
			go func() {
				_, end, err := table.Turn(as("flood"), admission.Page)
				if err == nil {
					end()
				}
				refused <- err
			}()
		}
		synctest.Wait()
		require.Len(t, refused, 500)
		begun := make(chan func(), 1)
		go func() {
			_, end, err := table.Turn(as("ada"), admission.Page)
			require.NoError(t, err)
			begun <- end
		}()
		synctest.Wait()
		require.Empty(t, begun)
		ends[0]()
		synctest.Wait()
		(<-begun)()
		synctest.Wait()
		<-time.After(10 * time.Second)
		ends[1]()
		ends[3]()
		ends[2]()
		ends[2]()
		synctest.Wait()
		require.Len(t, refused, 1500)
		require.Zero(t, table.Active(admission.Page))
		ctx, cancel := context.WithCancelCause(as("ada"))
		cancel(os.ErrClosed)
		_, end, err := table.Turn(ctx, admission.Page)
		require.NoError(t, err, "there is a free one")
		end()
	})
}

// A client with most waits loses one, and learns that it was not the end of the wait.
func TestWaitsGiveWay(t *testing.T) {
	table := admission.NewTable()
	var first context.Context
	for range 1000 {
		working, _, err := table.Turn(as("flood"), admission.Wait)
		require.NoError(t, err)
		if first == nil {
			first = working
		}
	}
	mine, end, err := table.Turn(as("ada"), admission.Wait)
	require.NoError(t, err)
	require.ErrorIs(t, context.Cause(first), admission.ErrBusy)
	require.NoError(t, mine.Err())
	end()
	require.Equal(t, 999, table.Active(admission.Wait))
}

// The client's request that is received for the longest time is interrupted for its next one.
func TestMemory(t *testing.T) {
	table := admission.NewTable()
	interrupted := false
	slow := table.Share(admission.User("flood"), func() { interrupted = true })
	slow.Receive()
	require.NoError(t, slow.Grow(40<<20))
	next := table.Share(admission.User("flood"), func() {})
	next.Receive()
	require.NoError(t, next.Grow(40<<20))
	require.True(t, interrupted)
	require.ErrorIs(t, slow.Add(1), admission.ErrBusy)
	require.ErrorIs(t, slow.Keep(), admission.ErrBusy)
	require.NoError(t, next.Keep())
	slow.Receive()
	require.ErrorIs(t, slow.Grow(40<<20), admission.ErrBusy)
	other := table.Share(admission.User("ada"), func() {})
	require.NoError(t, other.Add(60<<20))
	require.Equal(t, 100<<20, table.Used())
	for _, s := range []*admission.Share{slow, next, other} {
		s.Release()
		s.Release()
	}
	require.Zero(t, table.Used())
	require.NoError(t, admission.Take(context.Background(), 1<<40))
	require.NoError(t, admission.Take(admission.WithShare(context.Background(), other), 5))
	require.Equal(t, 5, table.Used())
}

// What gives way is told once, and is gone by then.
func TestSlots(t *testing.T) {
	s := admission.NewSlots(1)
	ended := 0
	first := s.Admit(admission.User("flood"), func() { ended++ })
	second := s.Admit(admission.User("ada"), func() { ended += 10 })
	require.NotNil(t, second)
	require.Equal(t, 1, ended)
	first.Move(budget.Working)
	first.Close()
	second.Assign(admission.User("bob"))
	require.Equal(t, admission.User("bob"), second.Client())
	second.Move(budget.Working)
	require.Nil(t, s.Admit(admission.User("flood"), func() {}))
	s.EvictOne()
	require.Equal(t, 1, s.Len())
	second.Close()
	second.Close()
	require.Zero(t, s.Len())
}

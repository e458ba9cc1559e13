package raftlog

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLeaseIsShortened(t *testing.T) {
	l, renewals := newTestLease("a", "b", "c")
	const short = 300 * time.Millisecond
	l.begin(7)
	now := bootTime()
	l.acknowledged("b", 7, now)
	l.shorten(6, time.Millisecond)
	require.Equal(t, []time.Duration{now + l.duration}, *renewals, "another term")
	l.shorten(7, short)
	require.Equal(t, now+short, (*renewals)[1], "at once")
	l.shorten(7, time.Hour)
	l.acknowledged("b", 7, now+1)
	require.Equal(t, now+1+short, (*renewals)[2], "until the leadership ends")
	l.end()
	l.begin(7)
	l.acknowledged("b", 7, now+2)
	require.Equal(t, now+2+short, (*renewals)[5], "also after another report of the same election")
	l.begin(8)
	l.acknowledged("b", 8, now+3)
	require.Equal(t, now+3+l.duration, (*renewals)[6], "not in the next term")
}

// The lease ends when it is shortened and this node does not know when a majority has answered last.
func TestLeaseOfNoMajorityIsShortened(t *testing.T) {
	l, renewals := newTestLease("a")
	l.begin(7)
	require.True(t, l.valid())
	other, _ := newTestLease("a", "b", "c")
	l.voters = other.voters
	l.shorten(7, time.Millisecond)
	require.False(t, l.valid())
	require.Zero(t, (*renewals)[1])
}

// A lease that is renewed after its end has lapsed.
func TestLapsesAreReported(t *testing.T) {
	l, _ := newTestLease("a", "b", "c")
	var lapses []time.Duration
	l.onLapsed = func(lasted time.Duration) { lapses = append(lapses, lasted) }
	l.begin(1)
	l.acknowledged("b", 1, bootTime())
	require.Empty(t, lapses)
	l.until = bootTime() - time.Second
	l.acknowledged("b", 1, bootTime())
	require.Len(t, lapses, 1)
	require.GreaterOrEqual(t, lapses[0], time.Second)
}

package kit

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

const second = time.Second

func TestFailuresNext(t *testing.T) {
	type event struct {
		at      time.Duration
		restart bool // the restart was ordered before this failure
		want    Directive
		attempt int
		delay   time.Duration
	}
	backoff := Policy{Backoff: second, BackoffMax: 5 * second, Limit: 5, Window: 60 * second}
	for _, tc := range []struct {
		name   string
		policy Policy
		events []event
	}{
		{"no restart at all", Policy{}, []event{{want: Stop, attempt: 1}, {at: second, want: Ignore, attempt: 1}}},
		{"escalate at once", Policy{OnGiveUp: Escalate}, []event{{want: Escalate, attempt: 1}}},
		{"doubles, capped, gives up", backoff, []event{
			{want: Restart, attempt: 1, delay: 1 * second},
			{at: 2 * second, restart: true, want: Restart, attempt: 2, delay: 2 * second},
			{at: 5 * second, restart: true, want: Restart, attempt: 3, delay: 4 * second},
			{at: 10 * second, restart: true, want: Restart, attempt: 4, delay: 5 * second},
			{at: 20 * second, restart: true, want: Restart, attempt: 5, delay: 5 * second},
			{at: 30 * second, restart: true, want: Stop, attempt: 6},
			{at: 300 * second, want: Ignore, attempt: 6},
		}},
		{"does not count while a restart is due", backoff, []event{
			{want: Restart, attempt: 1, delay: second},
			{want: Ignore, attempt: 1},
			{at: second / 2, want: Ignore, attempt: 1},
			{at: second, restart: true, want: Restart, attempt: 2, delay: 2 * second},
		}},
		{"window slides", Policy{Backoff: second, BackoffMax: 8 * second, Limit: 2, Window: 10 * second}, []event{
			{at: 0, want: Restart, attempt: 1, delay: second},
			{at: 6 * second, restart: true, want: Restart, attempt: 2, delay: 2 * second},
			{at: 10 * second, restart: true, want: Restart, attempt: 2, delay: 2 * second},
			{at: 15 * second, restart: true, want: Stop, attempt: 3},
		}},
		{"window of one failure", Policy{Limit: 1, Window: 10 * second}, []event{
			{at: 0, want: Restart, attempt: 1},
			{at: 10 * second, restart: true, want: Restart, attempt: 1},
			{at: 20*second - 1, restart: true, want: Stop, attempt: 2},
		}},
		{"no window: never forgets", Policy{Backoff: second, Limit: 1}, []event{
			{at: 0, want: Restart, attempt: 1, delay: second},
			{at: 1e6 * second, restart: true, want: Stop, attempt: 2},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := failures{policy: tc.policy}
			start := time.Unix(0, 0)
			for i, e := range tc.events {
				if e.restart {
					f.restarted()
				}
				got := f.next(start.Add(e.at))
				require.Equal(t, step{directive: e.want, attempt: e.attempt, delay: e.delay}, got, "event %d", i)
			}
		})
	}
}

func TestPolicyDelay(t *testing.T) {
	constant := Policy{Backoff: second}
	require.Equal(t, second, constant.delay(1))
	require.Equal(t, second, constant.delay(100))
	require.Zero(t, Policy{BackoffMax: second}.delay(100))
	require.Equal(t, time.Duration(math.MaxInt64), Policy{Backoff: 3, BackoffMax: math.MaxInt64}.delay(1000))
}

func TestFailuresAreBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Policy{
			Backoff:    time.Duration(rapid.Int64Range(0, int64(second)).Draw(t, "backoff")),
			BackoffMax: time.Duration(rapid.Int64Range(0, int64(10*second)).Draw(t, "max")),
			Limit:      rapid.IntRange(0, 5).Draw(t, "limit"),
			Window:     time.Duration(rapid.Int64Range(1, int64(20*second)).Draw(t, "window")),
		}
		f := failures{policy: p}
		now := time.Unix(0, 0)
		for range 30 {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(5*second)).Draw(t, "gap")))
			s := f.next(now)
			if s.attempt > p.Limit+1 || len(f.times) > p.Limit+1 {
				t.Fatalf("attempt %d with limit %d", s.attempt, p.Limit)
			}
			if s.directive == Restart && (s.delay < p.Backoff || s.delay > max(p.Backoff, p.BackoffMax)) {
				t.Fatalf("delay %v", s.delay)
			}
			if s.directive == Restart {
				f.restarted()
			}
		}
	})
}

func TestJitter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, math.MaxInt64).Draw(t, "d"))
		got := jitter(d, rapid.Uint64().Draw(t, "random"))
		if got < d/2 || got > d {
			t.Fatalf("jitter(%v) = %v", d, got)
		}
	})
	require.Equal(t, 5*second, jitter(10*second, 0))
	require.Equal(t, 10*second, jitter(10*second, uint64(5*second)), "both ends are reached")
}

func TestPolicyValidate(t *testing.T) {
	require.NoError(t, Policy{}.Validate())
	for field, p := range map[string]Policy{
		"Scope":      {Scope: 2},
		"OnGiveUp":   {OnGiveUp: Restart},
		"Limit":      {Limit: -1},
		"Backoff ":   {Backoff: -1},
		"BackoffMax": {BackoffMax: -1},
		"Window":     {Window: -1},
	} {
		require.ErrorContains(t, p.Validate(), field)
		require.Panics(t, func() { New(Options{}).Strategy(p) })
	}
}

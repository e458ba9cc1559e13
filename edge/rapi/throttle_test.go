package rapi_test

import (
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lockstep/edge/rapi"
)

// login is a checked login.
type login struct {
	address, name string
	right         bool
	at            time.Time
}

// refusedFor computes how long a login is refused, from all earlier checked logins.
func refusedFor(past []login, address, name string, now time.Time) time.Duration {
	known := func(until int, l login) bool {
		var last time.Time
		for _, earlier := range past[:until] {
			if earlier.right && earlier.address == l.address && earlier.name == l.name {
				last = earlier.at
			}
		}
		return !last.IsZero() && l.at.Sub(last) <= rapi.TrustedFor
	}
	pause := func(counts func(i int, l login) (failed, reset bool), free int, first, most time.Duration) time.Duration {
		failures, last := 0, time.Time{}
		for i, l := range past {
			failed, reset := counts(i, l)
			switch {
			case reset:
				failures = 0
			case failed && l.at.Sub(last) > rapi.ForgetAfter:
				failures, last = 1, l.at
			case failed:
				failures, last = failures+1, l.at
			}
		}
		if failures <= free || now.Sub(last) > rapi.ForgetAfter {
			return 0
		}
		length := first
		for range failures - free - 1 {
			length = min(2*length, most)
		}
		return max(0, min(length, most)-now.Sub(last))
	}
	if known(len(past), login{address, name, false, now}) {
		return pause(func(i int, l login) (bool, bool) {
			mine := l.address == address && l.name == name
			return mine && !l.right && known(i, l), mine && l.right
		}, rapi.FreeFailures, rapi.PauseFirst, rapi.PauseMax)
	}
	here := pause(func(i int, l login) (bool, bool) {
		return l.address == address && !l.right && !known(i, l), false
	}, rapi.FreeFailures, rapi.PauseFirst, rapi.PauseMax)
	everywhere := pause(func(_ int, l login) (bool, bool) { return l.name == name && !l.right, false },
		rapi.FreeNameFailures, rapi.NamePause, rapi.NamePause)
	return max(here, everywhere)
}

// The throttle decides as its description says. Few guesses from one address are checked,
// whatever names they are for.
func TestTheThrottleDecidesAsDescribed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		throttle := rapi.NewThrottle(1000)
		now := time.Unix(1, 0)
		var past []login
		for range rapid.IntRange(1, 120).Draw(t, "logins") {
			now = now.Add(rapid.SampledFrom([]time.Duration{0, time.Millisecond, 90 * time.Millisecond, time.Second, 5 * time.Second,
				2 * time.Minute, 2 * time.Hour}).Draw(t, "passes"))
			address := rapid.SampledFrom([]string{"10.0.0.1", "10.0.0.2", "2001:db8::1"}).Draw(t, "address")
			name := rapid.SampledFrom([]string{"ada", "bob"}).Draw(t, "name")
			right := rapid.IntRange(0, 5).Draw(t, "right") == 0
			want := refusedFor(past, address, name, now)
			require.Equal(t, want, throttle.Login(address, name, right, now))
			if want == 0 {
				past = append(past, login{address, name, right, now})
			}
		}
	})
}

// At any rate of guesses from an address, for any number of names, few guesses are checked.
// A name that has logged in from that address before can log in meanwhile.
func TestGuessesFromOneAddressAreFew(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		throttle := rapi.NewThrottle(1000)
		begin := time.Unix(1, 0)
		require.Zero(t, throttle.Login("10.0.0.1", "neighbour", true, begin))
		names := rapid.IntRange(1, 50).Draw(t, "names")
		length := time.Duration(rapid.IntRange(1, 120).Draw(t, "seconds")) * time.Second
		step := time.Duration(rapid.IntRange(20, 400).Draw(t, "step")) * time.Millisecond
		checked := 0
		for passed, i := time.Duration(0), 0; passed < length; passed, i = passed+step, i+1 {
			if throttle.Login("10.0.0.1", "name"+strconv.Itoa(i%names), false, begin.Add(passed)) == 0 {
				checked++
			}
			require.Zero(t, throttle.Login("10.0.0.1", "neighbour", true, begin.Add(passed)))
		}
		require.LessOrEqual(t, checked, rapi.FreeFailures+6+int(length/rapi.PauseMax))
	})
}

// Failures of one address for a name do not lock out the user of that name at another
// address: the user can log in after the announced wait.
func TestAUserIsNotLockedOutByGuessesElsewhere(t *testing.T) {
	throttle := rapi.NewThrottle(1000)
	now := time.Unix(1, 0)
	for range 60_000 {
		now = now.Add(time.Millisecond)
		throttle.Login("10.0.0.1", "ada", false, now)
	}
	wait := throttle.Login("10.0.0.2", "ada", true, now)
	require.LessOrEqual(t, wait, rapi.NamePause)
	require.Zero(t, throttle.Login("10.0.0.2", "ada", true, now.Add(wait)))
	for range 60_000 {
		now = now.Add(time.Millisecond)
		throttle.Login("10.0.0.1", "ada", false, now)
		require.Zero(t, throttle.Login("10.0.0.2", "ada", true, now), "known there")
	}
}

// Guesses from many addresses for a name are slow, and take no more memory than the bound.
func TestGuessesFromManyAddresses(t *testing.T) {
	throttle := rapi.NewThrottle(100)
	now := time.Unix(1, 0)
	checked := 0
	for i := range 10_000 {
		now = now.Add(time.Millisecond)
		if throttle.Login(fmt.Sprintf("2001:db8:%x::1", i), "ada", false, now) == 0 {
			checked++
		}
		throttle.Login(fmt.Sprintf("10.1.%d.%d", i/256, i%256), "other"+strconv.Itoa(i), false, now)
		require.LessOrEqual(t, throttle.Size(), 100)
	}
	require.Less(t, checked, 120, "about ten a second")
}

// A client that hangs up gets no information earlier: of simultaneous guesses those above
// the bound are refused before their check, also the correct one.
func TestGuessesAreRefusedBeforeTheCheck(t *testing.T) {
	t.Parallel()
	b := newTestServer(t, authenticate)
	now := time.Now()
	b.server.SetLoginClock(func() time.Time { return now })
	codes := make(chan int, 400)
	var guesses sync.WaitGroup
	for thread := range 20 {
		guesses.Go(func() {
			for i := range 20 {
				a := b.do("GET", "/2/jobs", fmt.Sprintf("peer:guess-%d-%d", thread, i), "")
				if a.code == 429 && a.header.Get("Retry-After") == "" {
					a.code = 0
				}
				codes <- a.code
			}
		})
	}
	guesses.Wait()
	close(codes)
	number := map[int]int{}
	for code := range codes {
		number[code]++
	}
	require.Equal(t, 400, number[401]+number[429], "%v", number)
	require.LessOrEqual(t, number[401], 12)
	require.Contains(t, b.failure(429, b.do("GET", "/2/jobs", "peer:secret", "")), "try again later")
	require.Equal(t, 200, b.do("GET", "/healthz", "", "").code)
	lines := 0
	for _, e := range b.logs.AllEntries() {
		if e.Message == "remote API: login failed" {
			lines++
		}
	}
	require.LessOrEqual(t, lines, 10)
	later := now.Add(time.Minute)
	b.server.SetLoginClock(func() time.Time { return later })
	require.Equal(t, 200, b.do("GET", "/2/jobs", "peer:secret", "").code)
}

package login_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	logrustest "github.com/sirupsen/logrus/hooks/test"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lockstep/edge/login"
)

// failure is a checked login that has failed.
type failure struct {
	address, name string
	at            time.Time
}

// waitsFor computes how long the check of a login has to wait, from all earlier failures.
func waitsFor(failed []failure, address, name string, now time.Time) time.Duration {
	pause := func(counts func(l failure) bool, free int, first, most time.Duration) (length time.Duration, any bool) {
		failures, last := 0, time.Time{}
		for _, l := range failed {
			switch {
			case !counts(l):
			case l.at.Sub(last) > login.ForgetAfter:
				failures, last = 1, l.at
			default:
				failures, last = failures+1, l.at
			}
		}
		if failures == 0 || now.Sub(last) > login.ForgetAfter {
			return 0, false
		}
		if failures <= free {
			return 0, true
		}
		length = first
		for range failures - free - 1 {
			length = min(2*length, most)
		}
		return max(0, min(length, most)-now.Sub(last)), true
	}
	mine, any := pause(func(l failure) bool { return l.address == address && l.name == name }, login.FreeFailures, login.PauseFirst, login.PauseMax)
	if !any {
		return 0
	}
	here, _ := pause(func(l failure) bool { return l.address == address }, login.FreeNameFailures, login.PauseFirst, login.PauseMax)
	everywhere, _ := pause(func(l failure) bool { return l.name == name }, login.FreeNameFailures, login.NamePause, login.NamePause)
	return max(mine, here, everywhere)
}

// The throttle decides as its description says.
func TestTheThrottleDecidesAsDescribed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		throttle := login.NewThrottle(1000)
		now := time.Unix(1, 0)
		var failed []failure
		for range rapid.IntRange(1, 120).Draw(t, "logins") {
			now = now.Add(rapid.SampledFrom([]time.Duration{0, time.Millisecond, 90 * time.Millisecond, time.Second, 5 * time.Second,
				2 * time.Minute, 2 * time.Hour}).Draw(t, "passes"))
			address := rapid.SampledFrom([]string{"10.0.0.1", "10.0.0.2", "2001:db8::1"}).Draw(t, "address")
			name := rapid.SampledFrom([]string{"ada", "bob"}).Draw(t, "name")
			right := rapid.IntRange(0, 5).Draw(t, "right") == 0
			want := waitsFor(failed, address, name, now)
			require.Equal(t, want, throttle.Login(address, name, right, now))
			if want == 0 && !right {
				failed = append(failed, failure{address, name, now})
			}
		}
	})
}

// At any rate of guesses from an address, few guesses for a name are checked, also beside a program that logs in there with the right
// password all the time. Another name is checked at once there.
func TestGuessesFromOneAddressAreFew(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		throttle := login.NewThrottle(1000)
		begin := time.Unix(1, 0)
		names := rapid.IntRange(1, 50).Draw(t, "names")
		length := time.Duration(rapid.IntRange(1, 55).Draw(t, "seconds")) * time.Second
		step := time.Duration(rapid.IntRange(20, 400).Draw(t, "step")) * time.Millisecond
		checked := 0
		for passed, i := time.Duration(0), 0; passed < length; passed, i = passed+step, i+1 {
			if throttle.Login("10.0.0.1", "name"+strconv.Itoa(i%names), false, begin.Add(passed)) == 0 {
				checked++
			}
			throttle.Login("10.0.0.1", "name0", true, begin.Add(passed))
			require.Zero(t, throttle.Login("10.0.0.1", "neighbour", true, begin.Add(passed)))
		}
		require.LessOrEqual(t, checked, names+login.FreeNameFailures+6+int(length/login.PauseMax))
	})
}

// Failures of one address for a name do not delay the user of that name at another address.
func TestAUserDoesNotWaitForGuessesElsewhere(t *testing.T) {
	throttle := login.NewThrottle(1000)
	now := time.Unix(1, 0)
	for range 60_000 {
		now = now.Add(time.Millisecond)
		throttle.Login("10.0.0.1", "ada", false, now)
		require.Zero(t, throttle.Login("10.0.0.2", "ada", true, now))
	}
}

// Guesses from many addresses for a name are slow after the first of each, and take no more memory than the bound.
func TestGuessesFromManyAddresses(t *testing.T) {
	throttle := login.NewThrottle(2000)
	now := time.Unix(1, 0)
	checked := 0
	const addresses = 100
	for i := range 10_000 {
		now = now.Add(time.Millisecond)
		if throttle.Login(fmt.Sprintf("2001:db8:%x::1", i%addresses), "ada", false, now) == 0 {
			checked++
		}
		throttle.Login(fmt.Sprintf("10.1.%d.%d", i/256, i%256), "other"+strconv.Itoa(i), false, now)
		require.LessOrEqual(t, throttle.Size(), 2000)
	}
	require.Less(t, checked, addresses+120, "about ten a second")
}

// A client that guesses one password after the other is told that there were too many. Its right password is accepted after the pause.
func TestAGuesserIsToldThatThereWereTooMany(t *testing.T) {
	users := filepath.Join(t.TempDir(), "users")
	require.NoError(t, os.WriteFile(users, []byte("peer secret write\n"), 0o600))
	synctest.Test(t, func(t *testing.T) {
		log, _ := logrustest.NewNullLogger()
		logins := login.New(users, log)
		r := httptest.NewRequest(http.MethodGet, "/2/jobs", nil)
		for guess := range 12 {
			_, err := logins.CheckPassword(r, "peer", "wrong")
			if guess < 8 {
				require.ErrorIs(t, err, login.ErrWrong)
				continue
			}
			var many *login.TooManyError
			require.ErrorAs(t, err, &many)
			require.Equal(t, 3, many.RetryAfter)
		}
		began := time.Now()
		_, err := logins.CheckPassword(r, "peer", "secret")
		require.NoError(t, err)
		require.Equal(t, 3*time.Second, time.Since(began))
	})
}

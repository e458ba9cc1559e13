package retry_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lockstep/core/retry"
)

const (
	exit1   = `["OpExecError", ["command exited with status 1", {"exit_status": 1}]]`
	exit75  = `["OpExecError", ["command exited with status 75", {"exit_status": 75}]]`
	killed  = `["OpExecError", ["command was killed by SIGKILL", {"signal": "SIGKILL"}]]`
	timeout = `["OpExecError", ["command ran longer than 60 s", {"timeout": 60}]]`
	noLock  = `["LockError", ["no"]]`
)

func TestWhatIsTriedAgain(t *testing.T) {
	for _, test := range []struct {
		policy string
		again  []string
		not    []string
	}{
		{`2`, []string{exit1, exit75, killed, timeout}, []string{noLock, `"Job canceled by request"`, `null`, ``}},
		{`{"times": 2, "on": ["failure"]}`, []string{exit1, exit75, killed, timeout}, []string{noLock}},
		{`{"times": 2, "on": [75, "timeout"]}`, []string{exit75, timeout}, []string{exit1, killed, noLock}},
		{`{"times": 2, "on": ["lost"]}`, nil, []string{exit1, exit75, killed, timeout, noLock}},
		{`null`, nil, []string{exit1}},
	} {
		p, err := retry.Parse([]byte(test.policy))
		require.NoError(t, err)
		for _, result := range test.again {
			require.True(t, p.Again(1, []byte(result)), "%s after %s", test.policy, result)
			require.True(t, p.Again(2, []byte(result)))
			require.False(t, p.Again(3, []byte(result)), "the third try is the last one")
		}
		for _, result := range test.not {
			require.False(t, p.Again(1, []byte(result)), "%s after %s", test.policy, result)
		}
	}
}

// A lost try counts only if the policy names it: failure does not contain it.
func TestALostTryIsRepeatedOnlyIfItIsNamed(t *testing.T) {
	for text, want := range map[string]bool{`3`: false, `{"times": 3, "on": ["failure"]}`: false, `{"times": 3, "on": [1, "lost"]}`: true, `null`: false} {
		p, err := retry.Parse([]byte(text))
		require.NoError(t, err)
		require.Equal(t, want, p.AgainIfLost(3), text)
		require.False(t, p.AgainIfLost(4), text)
	}
}

func TestPolicies(t *testing.T) {
	for text, want := range map[string]retry.Policy{
		`null`: {}, ` null `: {}, `1`: {Times: 1}, `5`: {Times: 5},
		`{"times": 3}`: {Times: 3},
		`{"times": 3, "delay": 0.5, "max_delay": 60, "on": [75, "timeout", "lost", "failure", "8"]}`: {
			Times: 3, Delay: 0.5, MaxDelay: 60, On: []retry.Cause{"75", retry.Timeout, retry.Lost, retry.Failure, "8"}},
	} {
		p, err := retry.Parse([]byte(text))
		require.NoError(t, err, text)
		require.Equal(t, want, p, text)
		require.Equal(t, want, retry.Of([]byte(`{"OP_ID": "OP_RUN_COMMAND", "retry": `+text+`}`)))
	}
	require.Equal(t, 4, retry.Policy{Times: 3}.Tries())
	for _, input := range []string{`{}`, `{"argv": ["retry"]}`, `{"retry": 9}`, `7`, ``} {
		require.Equal(t, retry.Policy{}, retry.Of([]byte(input)), input)
	}
}

func TestMistakesOfAPolicyNameTheMember(t *testing.T) {
	for text, member := range map[string]string{
		`0`: "", `6`: "", `-1`: "", `1.5`: "", `"3"`: "", `[3]`: "", `true`: "",
		`{}`: "times", `{"times": 0}`: "times", `{"times": 6}`: "times", `{"times": "3"}`: "times", `{"delay": 1}`: "times",
		`{"times": 1, "delay": 0}`: "delay", `{"times": 1, "delay": -1}`: "delay", `{"times": 1, "delay": 1e10}`: "delay", `{"times": 1, "delay": "1s"}`: "delay",
		`{"times": 1, "max_delay": 0}`: "max_delay", `{"times": 1, "delay": 9, "max_delay": 8}`: "max_delay", `{"times": 1, "max_delay": 9}`: "max_delay",
		`{"times": 1, "on": []}`: "on", `{"times": 1, "on": [0]}`: "on", `{"times": 1, "on": [256]}`: "on", `{"times": 1, "on": ["01"]}`: "on",
		`{"times": 1, "on": ["signal"]}`: "on", `{"times": 1, "on": "lost"}`: "on", `{"times": 1, "on": [1.5]}`: "on",
		`{"times": 1, "tries": 2}`: "tries",
	} {
		_, err := retry.Parse([]byte(text))
		var mistake *retry.Mistake
		require.ErrorAs(t, err, &mistake, text)
		require.Equal(t, member, mistake.Member, "%s: %v", text, err)
	}
}

func TestCausesOfAPerson(t *testing.T) {
	causes, err := retry.ParseCauses("1, 75,timeout,lost,failure")
	require.NoError(t, err)
	require.Equal(t, []retry.Cause{"1", "75", retry.Timeout, retry.Lost, retry.Failure}, causes)
	encoded, err := json.Marshal(causes)
	require.NoError(t, err)
	require.JSONEq(t, `[1, 75, "timeout", "lost", "failure"]`, string(encoded))
	for _, text := range []string{"", "1,", "0", "256", "+1", "01", "signal", "Lost", "1;2"} {
		_, err := retry.ParseCauses(text)
		require.ErrorContains(t, err, "want an exit status from 1 to 255", text)
	}
}

// The pause doubles up to the longest one, differs by at most 20 percent, and is the same each time it is computed.
func TestThePauseDoubles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := retry.Policy{Times: 5, Delay: rapid.Float64Range(0.001, 1e6).Draw(t, "delay")}
		if rapid.Bool().Draw(t, "bounded") {
			p.MaxDelay = p.Delay * rapid.Float64Range(1, 50).Draw(t, "factor")
		}
		id, try := rapid.Int64Min(1).Draw(t, "job"), rapid.IntRange(1, 5).Draw(t, "try")
		longest := p.MaxDelay
		if longest == 0 {
			longest = max(p.Delay, 600)
		}
		want := min(p.Delay*float64(int(1)<<(try-1)), longest)
		pause := p.Pause(id, try)
		require.InDelta(t, want, pause.Seconds(), 0.2*want+1e-6)
		require.Equal(t, pause, p.Pause(id, try))
	})
	require.InDelta(t, 10, retry.Policy{Times: 1}.Pause(7, 1).Seconds(), 2, "without a delay it is 10 s")
}

// Jobs that fail together are not tried again together.
func TestPausesOfJobsDiffer(t *testing.T) {
	pauses := map[time.Duration]bool{}
	for id := range int64(100) {
		pauses[retry.Policy{Times: 1, Delay: 100}.Pause(id, 1)] = true
	}
	require.Greater(t, len(pauses), 90)
	require.NotEqual(t, fmt.Sprint(retry.Policy{Times: 2, Delay: 10, MaxDelay: 10}.Pause(1, 1)), fmt.Sprint(retry.Policy{Times: 2, Delay: 10, MaxDelay: 10}.Pause(1, 2)))
}

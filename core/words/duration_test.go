package words

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFormatDuration(t *testing.T) {
	for text, d := range map[string]time.Duration{
		"0s": 0, "30s": 30 * time.Second, "1m30s": 90 * time.Second, "500ms": time.Second / 2, "30d": 30 * day, "1d2h3m4s5ms": day + 2*time.Hour + 3*time.Minute + 4005*time.Millisecond,
	} {
		require.Equal(t, text, FormatDuration(d))
		read, err := ParseDuration(text)
		require.NoError(t, err)
		require.Equal(t, d, read)
	}
}

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0s": 0, "90s": 90 * time.Second, "1h30m": 90 * time.Minute, "1.5h": 90 * time.Minute,
		"7d": 7 * day, "2w": 14 * day, "250ms": 250 * time.Millisecond, "1d12h": 36 * time.Hour,
	} {
		got, err := ParseDuration(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "5", "5.5", "-5s", "5x", "s", "5 s", "5s ", "1h-5m", "99999999999w"} {
		_, err := ParseDuration(text)
		assert.Error(t, err, text)
	}
	_, err := ParseDuration("5")
	assert.EqualError(t, err, "5 has no unit; write 5s, 5m, 5h or 5d")
}

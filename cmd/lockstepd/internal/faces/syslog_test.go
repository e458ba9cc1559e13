package faces

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/cmd/lockstepd/internal/settings"
)

// Log lines go to syslog too, or to syslog alone. A daemon that cannot reach syslog does not start.
func TestSyslog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	syslogd, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	require.NoError(t, err)
	defer syslogd.Close()
	none, err := openSyslog(syslogNo, "")
	require.NoError(t, err)
	require.Nil(t, none)
	for use, inFile := range map[string]bool{syslogYes: true, syslogOnly: false} {
		output, err := openSyslog(use, path)
		require.NoError(t, err)
		file, err := os.Create(filepath.Join(t.TempDir(), "file"))
		require.NoError(t, err)
		log := (&options{}).newLog(settings.Config{LogLevel: "info"})
		log.SetOutput(file)
		output.apply(log)
		log.WithField("job", 12).Error("a line")
		line := make([]byte, 1<<10)
		require.NoError(t, syslogd.SetReadDeadline(time.Now().Add(time.Minute)))
		n, err := syslogd.Read(line)
		require.NoError(t, err)
		require.Contains(t, string(line[:n]), "<27>", "facility daemon, severity error")
		require.Contains(t, string(line[:n]), `msg="a line" job=12`)
		content, err := os.ReadFile(file.Name())
		require.NoError(t, err)
		require.Equal(t, inFile, len(content) > 0, use)
		require.NoError(t, file.Close())
	}
	_, err = openSyslog(syslogYes, path+"-absent")
	require.ErrorContains(t, err, "--syslog=yes: no syslog daemon can be reached")
}

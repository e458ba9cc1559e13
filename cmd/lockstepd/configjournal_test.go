package main

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/config/journal"
	"lockstep/core/config/model"
	"lockstep/core/paths"
)

// twoRecords returns the lines of two changes of the cluster's tags, which apply to the content of config.data.
func twoRecords(t *testing.T, content []byte) (lines [2][]byte, serial int64) {
	c, _, err := journal.DecodeConfig(content)
	require.NoError(t, err)
	for i := range lines {
		e := c.Edit()
		cluster := c.Cluster.Value
		cluster.Tags = append(cluster.Tags[:0:0], fmt.Sprintf("tag%d", i+1))
		e.SetCluster(cluster)
		next, touched := e.Commit(model.Time(i))
		record := journal.NewRecord(uint64(i+1), journal.State{Config: c}, journal.State{Config: next}, touched, 1, journal.Author{})
		line, err := journal.Encode(record, true)
		require.NoError(t, err)
		lines[i], c = line.Bytes, next
	}
	return lines, c.Serial - 2
}

// ofVersion returns a line with another version and its checksum.
func ofVersion(line []byte, version string) []byte {
	rest := bytes.TrimSuffix(bytes.Replace(line[9:], []byte(`"v":1`), []byte(`"v":`+version), 1), []byte("\n"))
	return fmt.Appendf(nil, "%08x %s\n", crc32.Checksum(rest, crc32.MakeTable(crc32.Castagnoli)), rest)
}

// A journal that is torn in its last record is cut there. One that is damaged before, or of a newer version, stops the start with the
// file, the last good serial number and the command that goes on.
func TestTheConfigurationsJournalAtTheStart(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	require.Zero(t, d.stop())
	content, err := os.ReadFile(d.path("lib", paths.ConfigPath))
	require.NoError(t, err)
	lines, serial := twoRecords(t, content)
	file := d.path("lib", paths.ConfigJournalPath)
	stops := func(journal []byte, good int64, why string) {
		t.Helper()
		require.NoError(t, os.WriteFile(file, journal, 0o600))
		d.launch()
		select {
		case <-d.done:
		case <-time.After(patience):
			t.Fatal("the daemon runs")
		}
		require.NotZero(t, d.cmd.ProcessState.ExitCode())
		d.cmd = nil
		require.Contains(t, d.logged(), fmt.Sprintf("%s is damaged after serial number %d", paths.ConfigJournalPath, good))
		require.Contains(t, d.logged(), why)
		require.Contains(t, d.logged(), "lockstep config fold --discard-rest --data-dir "+d.path("lib"))
		kept, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, journal, kept)
	}
	damaged := bytes.Clone(lines[0])
	damaged[len(damaged)/2] ^= 1
	stops(append(damaged, lines[1]...), serial, "the line is damaged")
	stops(append(bytes.Clone(lines[0]), ofVersion(lines[1], "2")...), serial+1, "has version 2")

	require.NoError(t, os.WriteFile(file, append(bytes.Clone(lines[0]), lines[1][:len(lines[1])/2]...), 0o600))
	d.start()
	require.Contains(t, d.logged(), "ends in an incomplete record")
	require.Zero(t, d.stop())
	content, err = os.ReadFile(d.path("lib", paths.ConfigPath))
	require.NoError(t, err)
	require.Contains(t, string(content), `"tag1"`)
	require.NotContains(t, string(content), `"tag2"`)
	require.NoFileExists(t, file)
}

package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFieldsOfAProcess(t *testing.T) {
	const status = "Name:\tlockstepd\nVmRSS:\t   23180 kB\nRssAnon:\t    9000 kB\nvoluntary_ctxt_switches:\t1500\nnonvoluntary_ctxt_switches:\t7\n"
	for name, want := range map[string]int64{"VmRSS": 23180, "voluntary_ctxt_switches": 1500, "nonvoluntary_ctxt_switches": 7} {
		value, err := statusField(status, name)
		require.NoError(t, err)
		require.Equal(t, want, value, name)
	}
	_, err := statusField(status, "VmSwap")
	require.EqualError(t, err, "there is no VmSwap")
	_, err = statusField("VmRSS:\n", "VmRSS")
	require.Error(t, err)
	_, err = statusField("VmRSS:\tmuch\n", "VmRSS")
	require.Error(t, err)
}

// Switches of ended threads do not count; all switches of new threads do.
func TestSwitchesBetween(t *testing.T) {
	before := map[string]int64{"1": 10, "2": 500}
	require.Equal(t, int64(5+3), switchesBetween(before, map[string]int64{"1": 15, "3": 3}))
	require.Zero(t, switchesBetween(before, before))
}

func TestWhereAPathIsMounted(t *testing.T) {
	const mounts = `22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
31 27 0:28 / /srv rw shared:5 master:2 - tmpfs none rw,size=4k
32 27 254:1 / /srv rw,noatime - xfs /dev/vdb rw
33 27 254:2 / /my\040disk rw - ext4 /dev/vdc rw
broken
`
	for path, want := range map[string]mount{
		"/home/x":      {point: "/", kind: "ext4", source: "/dev/vda", options: "rw,relatime,rw,discard", device: "254:0"},
		"/srv/lib":     {point: "/srv", kind: "xfs", source: "/dev/vdb", options: "rw,noatime,rw", device: "254:1"}, // the later mount hides the earlier one
		"/srvx":        {point: "/", kind: "ext4", source: "/dev/vda", options: "rw,relatime,rw,discard", device: "254:0"},
		"/my disk/var": {point: "/my disk", kind: "ext4", source: "/dev/vdc", options: "rw,rw", device: "254:2"},
	} {
		found, ok := mountOf(mounts, path)
		require.True(t, ok)
		require.Equal(t, want, found, path)
	}
	_, ok := mountOf("", "/")
	require.False(t, ok)
}

func TestSyncsToMemoryAreReportedAsFree(t *testing.T) {
	require.Contains(t, journal(mount{kind: "tmpfs"}), "syncs are free")
}

package cgroup

import (
	"testing"

	"github.com/stretchr/testify/require"
)

const hybrid = `24 1 8:1 / / rw,relatime - ext4 /dev/vda rw
30 24 0:26 / /sys/fs/cgroup rw shared:4 - tmpfs tmpfs rw,mode=755
31 30 0:27 / /sys/fs/cgroup/unified rw,nosuid shared:5 - cgroup2 cgroup2 rw
32 30 0:28 / /sys/fs/cgroup/memory rw shared:6 - cgroup cgroup rw,memory
`

// On a machine with both versions the mount of version 2 is looked up.
func TestTheMountOfVersion2(t *testing.T) {
	require.Equal(t, "/sys/fs/cgroup/unified", mountOf(hybrid))
	require.Empty(t, mountOf("30 24 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\nbroken\n"))
	const group = "/sys/fs/cgroup/lockstep.slice/lockstep-jobs.service/jobs"
	require.Equal(t, "/sys/fs/cgroup/unified/lockstep.slice/lockstep-jobs.service/jobs", resolve(group, "/sys/fs/cgroup/unified"))
	require.Equal(t, group, resolve(group, ""), "version 2 is not mounted")
	require.Equal(t, "/sys/fs/cgroup/unified/x", resolve("/sys/fs/cgroup/unified/x", "/sys/fs/cgroup/unified"))
	require.Equal(t, "/mnt/x", resolve("/mnt/x", "/sys/fs/cgroup/unified"))
}

// A process leaves the group of a command of one job, also from a group below it, and no other group.
func TestTheGroupOutsideACommands(t *testing.T) {
	const job = "job_000007_1_2_3"
	for own, want := range map[string]string{
		"9:name=systemd:/\n0::/lockstep.slice/jobs/job_000007_1_2_3.0\n": "/lockstep.slice/jobs",
		"0::/jobs/job_000007_1_2_3.12/nested/deeper\n":                   "/jobs",
		"0::/job_000007_1_2_3.12\n":                                      "/",
		"0::/jobs/job_000008_1_2_3.0\n":                                  "",
		"0::/unit/jobs.limited/job_000007_1_2_3.0\n":                     "/unit/jobs",
		"0::/\n":                              "",
		"4:memory:/jobs/job_000007_1_2_3.0\n": "",
		"":                                    "",
	} {
		require.Equal(t, want, outside(own, job), own)
	}
}

package jobprocess

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"lockstep/actors/jobs"
	"lockstep/core/job"
	"lockstep/core/paths"
	"lockstep/edge/reaper"
	"lockstep/messages"
	"lockstep/persistence"
)

// otherBoot is the boot that the lock file of another machine's boot names.
const otherBoot = "01234567-89ab-cdef-0123-456789abcdef"

// A real process has the mark until it begins, and revokes it before its first command.
func TestAProcessRevokesItsMark(t *testing.T) {
	r := newFixture(t, jobProgram)
	r.port.Start(1, jobs.Job{ID: 7, Start: 3}, r.receiver)
	named := expect[*messages.ProcessNamed](r)
	require.EqualValues(t, 3, paths.StartOfLivelock(named.Livelock))
	marked, err := persistence.ReadOwnerInfo(named.Livelock)
	require.NoError(t, err)
	require.True(t, reaper.ProvesNotBegun(marked))
	r.file(7, named.Livelock, named.Pid)
	r.port.Abandon(1)
	expect[*messages.HandshakeFailed](r)
	require.True(t, expect[*messages.ProcessGone](r).NeverActed)

	r = newFixture(t, jobProgram)
	read := filepath.Join(r.dir, "read")
	require.NoError(t, unix.Mkfifo(read, 0o600))
	_, livelock := r.command("read word < " + read)
	content, err := persistence.ReadOwnerInfo(livelock)
	require.NoError(t, err)
	require.False(t, reaper.ProvesNotBegun(content))
	require.NoError(t, os.WriteFile(read, []byte("word\n"), 0o600))
	require.False(t, expect[*messages.ProcessGone](r).NeverActed)
}

// A process that nobody saw end: only the mark in its lock file, of this boot, proves that it did not begin.
func TestWhatTheLockFileOfADeadProcessProves(t *testing.T) {
	self, err := reaper.Self()
	require.NoError(t, err)
	other := reaper.Leader{Boot: otherBoot + ".1", PID: self.PID, StartTime: self.StartTime}
	for name, c := range map[string]struct {
		content    []byte // nil: the file is missing
		neverBegan bool
	}{
		"the mark":                 {self.EncodeNotBegun(), true},
		"revoked":                  {self.Encode(), false},
		"the mark of another boot": {other.EncodeNotBegun(), false},
		"not readable":             {[]byte("~"), false},
		"empty":                    {[]byte{}, false},
		"missing":                  {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newFixture(t, jobProgram)
			livelock := filepath.Join(persistence.LivelockDir(r.runDir()), "job_000007_1700000000_999999999_0123abcd")
			if c.content != nil {
				require.NoError(t, os.WriteFile(livelock, c.content, 0o600))
			}
			r.file(7, livelock, 999999999)
			for range 2 { // a daemon may die before the job is queued again
				r.port.Adopt(1, jobs.Job{ID: 7}, 999999999, livelock, r.receiver)
				require.Equal(t, c.neverBegan, expect[*messages.ProcessGone](r).NeverActed)
			}
		})
	}
}

// Of Ganeti's process a wholly queued file is the proof, in the boot that its note names, whether or not its lock file is there.
func TestWhatProvesThatGanetisProcessHasNotBegun(t *testing.T) {
	boot, err := persistence.BootID()
	require.NoError(t, err)
	const base = "job_000007_1700000000"
	for name, c := range map[string]struct {
		note       string // "": none
		status     job.Status
		neverBegan bool
	}{
		"queued":                 {boot + " " + base + "\n", job.Queued, true},
		"waiting":                {boot + " " + base + "\n", job.Waiting, false},
		"another boot":           {otherBoot + " " + base + "\n", job.Queued, false},
		"of another process":     {boot + " job_000007_1600000000\n", job.Queued, false},
		"a daemon without notes": {"", job.Queued, false},
	} {
		for _, left := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, lock file %t", name, left), func(t *testing.T) {
				r := newFixture(t, jobProgram)
				c2 := r.port.config
				c2.Ganeti = &Ganeti{Python: "/usr/bin/python3", Share: r.dir}
				r.port = New(c2)
				t.Cleanup(r.port.Close)
				livelock := filepath.Join(persistence.LivelockDir(r.runDir()), base)
				if left {
					require.NoError(t, os.WriteFile(livelock, nil, 0o600))
				}
				if c.note != "" {
					require.NoError(t, os.WriteFile(persistence.BootNotePath(r.runDir(), 7), []byte(c.note), 0o600))
				}
				r.ganetiFile(7, livelock, c.status)
				r.port.Adopt(1, ganetiJob(7), 999999999, livelock, r.receiver)
				require.Equal(t, c.neverBegan, expect[*messages.ProcessGone](r).NeverActed)
				if !c.neverBegan {
					require.NoFileExists(t, persistence.BootNotePath(r.runDir(), 7))
				}
			})
		}
	}
}

// ganetiFile writes the file of a job as Ganeti's process does that has come to the status.
func (r *fixture) ganetiFile(id int64, livelock string, status job.Status) {
	r.file(id, livelock, 999999999)
	content, err := r.files.Read("test", paths.JobPath(id))
	require.NoError(r.t, err)
	j, err := job.Decode(content)
	require.NoError(r.t, err)
	if status == job.Waiting {
		j.Ops[0].Status, j.Start = job.Waiting, job.Timestamp{Sec: 2}
	}
	require.NoError(r.t, r.files.Replace("test", paths.JobPath(id), job.Encode(j)))
}

// Ganeti's program logs an exception before it makes the job waiting, removes its lock file, and ends with status 0.
func TestGanetisProcessEndsInOrderWithoutHavingBegun(t *testing.T) {
	g := newGanetiFixture(t)
	require.NoError(t, os.WriteFile(filepath.Join(g.dir, "lib", "raises-12"), nil, 0o600))
	named := g.begin(1, 12)
	g.confirm(1)
	gone := g.gone()
	require.Equal(t, "exit status 0", gone.Text)
	require.True(t, gone.NeverActed)
	require.NoFileExists(t, named.Livelock)
}

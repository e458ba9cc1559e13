package main

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// smallDataDisk mounts a separate disk of a size like "4m" for the whole data directory, and returns a function that fills one of 4 MB, and
// one that frees it.
func (d *daemon) smallDataDisk(size string) (fill, free func()) {
	d.t.Helper()
	require.NoError(d.t, os.MkdirAll(d.path("lib"), 0o750))
	out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size="+size+",mode=0700", "tmpfs", d.path("lib")).CombinedOutput()
	if err != nil {
		d.t.Logf("NOT TESTED: a full disk, which needs root and tmpfs: %v: %s", err, out)
		d.t.Skip("NOT RUN: it needs a tmpfs, which root can mount")
	}
	d.t.Cleanup(func() {
		d.kill()
		d.endJobs()
		_ = exec.Command("umount", d.path("lib")).Run()
	})
	ballast := d.path("lib", "ballast")
	return func() { _ = os.WriteFile(ballast, make([]byte, 8<<20), 0o600) }, func() { require.NoError(d.t, os.Remove(ballast)) }
}

// A daemon that starts on a full disk answers questions, and refuses changes with the reason before the client gives up.
func TestARestartOnAFullDisk(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	fill, free := d.smallDataDisk("4m")
	d.start()
	c := d.dial()
	done := c.submit(command("true"))
	require.Equal(t, "success", c.await(done).Status)
	work, open := d.gate("gate")
	id := c.submit(work)
	c.awaitStatus(id, "running")
	c.call("LockstepSetSettings", nil, map[string]any{"max_running_jobs": 5}) // the journal of the configuration has a record
	fill()
	for range 3 {
		began := time.Now()
		require.Equal(t, "success", c.query(done).Status)
		require.Equal(t, "running", c.query(id).Status)
		var status any
		c.call("LockstepStatus", &status)
		err := c.Call(context.Background(), "LockstepSetSettings", []any{map[string]any{"keep_last": 3}}, nil)
		require.ErrorContains(t, err, "no space left on device")
		err = c.Call(context.Background(), "LockstepSetSettings", []any{map[string]any{"max_running_jobs": 6}}, nil)
		if err != nil { // the last block of the journal may have room
			require.Regexp(t, "no space left on device|short write|the lock manager is not ready", err.Error())
		}
		t.Logf("a change of a parameter: %v", err)
		err = c.Call(context.Background(), "SubmitJob", []any{[]op{command("true")}}, nil)
		require.ErrorContains(t, err, "no space left on device")
		t.Logf("answers after %v", time.Since(began))
		d.kill()
		d.start()
		c = d.dial()
	}
	free()
	open()
	require.Equal(t, "success", c.await(id).Status)
	c.call("LockstepSetSettings", nil, map[string]any{"keep_last": 3})
	require.Equal(t, "success", c.await(c.submit(command("true"))).Status)
}

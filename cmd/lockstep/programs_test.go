package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/cmd/lockstep/internal/demo"
	"lockstep/sim/longtest"
)

// realPatience bounds waits for real processes, generously.
const realPatience = time.Minute

var built struct {
	once sync.Once
	dir  string
	err  error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if built.dir != "" {
		_ = os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

// program is the path of a built program; all are in one directory.
func program(t *testing.T, name string) string {
	t.Helper()
	longtest.Skip(t)
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "lockstep-programs"); built.err != nil {
			return
		}
		out, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", built.dir,
			"lockstep/cmd/lockstep", "lockstep/cmd/lockstepd", "lockstep/cmd/lockstep-job").CombinedOutput()
		if err != nil {
			built.err = errors.New(string(out) + err.Error())
		}
	})
	require.NoError(t, built.err)
	return filepath.Join(built.dir, name)
}

// realDaemon starts a daemon with its own directories and returns the path of its socket.
func realDaemon(t *testing.T) (socket string) {
	t.Helper()
	root := shortTempDir(t)
	d := demo.NewDaemon(root)
	d.Program = program(t, "lockstepd")
	t.Cleanup(func() {
		_ = d.Stop()
		require.NoError(t, demo.Clear(root, d))
	})
	ctx, cancel := context.WithTimeout(t.Context(), realPatience)
	defer cancel()
	require.NoError(t, d.Start(ctx))
	return d.Socket
}

// ran is the result of a program.
type ran struct {
	out, err []byte
	code     int
}

func runProgram(t *testing.T, socket string, args ...string) ran {
	t.Helper()
	cmd := exec.Command(program(t, "lockstep"), args...)
	cmd.Env = append(os.Environ(), "LOCKSTEP_SOCKET="+socket)
	// Files, as in a shell: they contain the whole output.
	var files [2]*os.File
	for i := range files {
		file, err := os.Create(filepath.Join(t.TempDir(), "stream"))
		require.NoError(t, err)
		defer file.Close()
		files[i] = file
	}
	cmd.Stdout, cmd.Stderr = files[0], files[1]
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil {
		require.ErrorAs(t, err, &exit)
	}
	var texts [2][]byte
	for i, file := range files {
		texts[i], err = os.ReadFile(file.Name())
		require.NoError(t, err)
	}
	return ran{texts[0], texts[1], cmd.ProcessState.ExitCode()}
}

// leftBelow are the processes that use a directory.
func leftBelow(t *testing.T, dir string) []string {
	t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*")
	require.NoError(t, err)
	var left []string
	for _, path := range paths {
		if filepath.Base(path) == strconv.Itoa(os.Getpid()) {
			continue
		}
		line, _ := os.ReadFile(filepath.Join(path, "cmdline"))
		cwd, _ := os.Readlink(filepath.Join(path, "cwd"))
		if bytes.Contains(line, []byte(dir+"/")) || strings.HasPrefix(cwd, dir) {
			left = append(left, path+": "+string(bytes.ReplaceAll(line, []byte{0}, []byte(" "))))
		}
	}
	return left
}

// demonstration is a `lockstep demo` whose output is read.
type demonstration struct {
	t      *testing.T
	tmp    string
	cmd    *exec.Cmd
	stdout io.ReadCloser
	lines  *bufio.Scanner
	stderr bytes.Buffer
}

func startDemonstration(t *testing.T, args ...string) *demonstration {
	t.Helper()
	d := &demonstration{t: t, tmp: shortTempDir(t)}
	d.cmd = exec.Command(program(t, "lockstep"), append([]string{"demo"}, args...)...)
	d.cmd.Env = append(os.Environ(), "TMPDIR="+d.tmp)
	d.cmd.Stderr = &d.stderr
	var err error
	d.stdout, err = d.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, d.cmd.Start())
	d.lines = bufio.NewScanner(d.stdout)
	t.Cleanup(func() {
		for _, line := range leftBelow(t, d.tmp) { // of a test that has failed
			path, _, _ := strings.Cut(line, ":")
			if pid, err := strconv.Atoi(filepath.Base(path)); err == nil {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	})
	return d
}

// until reads lines up to the first that contains text.
func (d *demonstration) until(text string) {
	d.t.Helper()
	for d.lines.Scan() {
		if strings.Contains(d.lines.Text(), text) {
			return
		}
	}
	d.t.Fatalf("the demonstration did not say %q", text)
}

// ends expects the exit code, and no remaining process or file.
func (d *demonstration) ends(code int) {
	d.t.Helper()
	go func() {
		for d.lines.Scan() { // so that it can continue to write
		}
	}()
	late := time.AfterFunc(realPatience, func() { _ = d.cmd.Process.Kill() })
	defer late.Stop()
	_ = d.cmd.Wait()
	require.Equal(d.t, code, d.cmd.ProcessState.ExitCode(), "%s", d.stderr.String())
	require.Empty(d.t, leftBelow(d.t, d.tmp))
	var files []string
	require.NoError(d.t, filepath.WalkDir(d.tmp, func(path string, _ fs.DirEntry, err error) error {
		if path != d.tmp {
			files = append(files, path)
		}
		return err
	}))
	require.Empty(d.t, files)
}

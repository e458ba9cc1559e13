package jobs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/core/progress"
)

// NewProgressCommand is the command progress.
func NewProgressCommand(globals *cli.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "progress [PERCENT] [TEXT]...",
		Short: "Say how far the command of a job is, from within it",
		Long: fmt.Sprintf(`Say how far the command of a job is. Commands and their children use it within a job.
"lockstep list", "top", "why", the console and the remote API show a bar, the text and
when the command may end, until its opcode ends or it says something else.

PERCENT is a number from 0 to 100, such as 40, 12.5 or 40%%, or - if it is not known. TEXT
is cut after %d bytes; what is not printable becomes a space. - alone takes back what
was said.

It writes a line such as "40 copying disk 2" to the pipe that $%s names. A
command may do the same by itself: echo '40 copying disk 2' > "$%s". Nobody
waits for that, and nothing is written to a disk. The queue hears of it at most twice a
second.

Exit code: 0; 1 outside a job, and after its command has ended.`, progress.TextMax, progress.EnvName, progress.EnvName),
		Example: `  lockstep progress 40 'copying disk 2'
  lockstep progress 'waiting for the tape'
  lockstep progress - '2 disks are left'`,
		Args: cli.WantArgs(1, -1, "say a percentage, a text or both"),
		RunE: func(_ *cobra.Command, args []string) error {
			line, ok := progress.Parse(strings.Join(args, " "))
			if !ok {
				return cli.Usagef("say a percentage, a text or both")
			}
			path, _ := globals.Streams.LookupEnv(progress.EnvName)
			if path == "" {
				return fmt.Errorf("this is not the command of a job: $%s is not set", progress.EnvName)
			}
			return say(path, line)
		},
	}
}

// say writes a line to the pipe. It does not wait: if the pipe is full, others have said enough.
func say(path string, line progress.Line) error {
	pipe, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENXIO):
		return errors.New("the command of this job has ended, and its progress is not shown any more")
	case err != nil:
		return fmt.Errorf("the progress cannot be said: %w", err)
	}
	defer pipe.Close()
	if info, err := pipe.Stat(); err != nil || info.Mode().Type() != fs.ModeNamedPipe {
		return fmt.Errorf("$%s is no pipe: %s", progress.EnvName, path)
	}
	raw, err := pipe.SyscallConn()
	if err != nil {
		return err
	}
	var written error
	err = raw.Control(func(fd uintptr) { _, written = syscall.Write(int(fd), []byte(line.String()+"\n")) })
	if errors.Is(written, syscall.EAGAIN) {
		written = nil
	}
	return errors.Join(err, written)
}

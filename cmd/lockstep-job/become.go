package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"

	"lockstep/core/jobproc"
)

// A command of another user than the daemon's starts in two steps. The job process executes its own program again, with becomeArgument.
// That process gives up the rights of the daemon, and then looks for directory and program with the rights of the user. So a directory of
// the user that does not answer holds up this process only, which is ended like the command. Go's SysProcAttr.Credential is not used: its
// child shares the memory of the job process while it has the user's uid.
//
// The process gets its orders in a file of memory and none of the user's environment before it executes the command. It has the
// streams of the command, and no other descriptor that stays open at the execution.
const (
	becomeArgument = "--become"
	becomeOrders   = 3 // descriptor of the file with the orders
	becomeReport   = 4 // descriptor of the pipe for the failure; it closes by the execution
)

// become is the orders for such a process.
type become struct {
	Account jobproc.Account `json:"account"`
	Argv    []string        `json:"argv"`
	Env     []string        `json:"env"`
	Cwd     string          `json:"cwd"`
	DryRun  bool            `json:"dry_run"` // look for directory and program, and execute nothing
}

// becomeFailure is why such a process has not executed the command.
type becomeFailure struct {
	Step    string        `json:"step"` // what it could not do; "": execute the program
	Errno   syscall.Errno `json:"errno"`
	Missing bool          `json:"missing"` // no directory of PATH has the program
}

// Error is without the name of the program, which couldNotStart adds.
func (f *becomeFailure) Error() string {
	switch {
	case f.Missing:
		return "no such program in the command's PATH"
	case f.Step == "":
		return f.Errno.Error()
	}
	return f.Step + ": " + f.Errno.Error()
}

func (f *becomeFailure) Unwrap() error {
	if f.Missing {
		return exec.ErrNotFound
	}
	return f.Errno
}

// runBecome is the process with becomeArgument. It returns only if the command cannot be executed, or after a dry run.
func runBecome() int {
	// Nothing that this process has open by mistake stays open in the command. An old kernel cannot do that, and Go opens nothing so.
	_ = unix.CloseRange(becomeOrders, ^uint(0), unix.CLOSE_RANGE_CLOEXEC)
	report := os.NewFile(becomeReport, "report")
	failure := obey()
	if failure == nil {
		return 0
	}
	_ = json.NewEncoder(report).Encode(failure) // without a reader the failure is not needed
	return 1
}

func obey() *becomeFailure {
	// Other processes of the user must not look into this one, nor change what it executes.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return failedTo("forbid a look into the process", err)
	}
	var b become
	orders := os.NewFile(becomeOrders, "orders")
	if err := json.NewDecoder(orders).Decode(&b); err != nil {
		return failedTo("read what to run", syscall.EINVAL)
	}
	_ = orders.Close()
	if failure := b.takeIdentity(); failure != nil {
		return failure
	}
	unix.Umask(0o022)
	if err := os.Chdir(b.Cwd); err != nil {
		return failedTo("cannot change to "+b.Cwd, err)
	}
	path, err := lookPath(b.Argv[0], b.Env)
	if err != nil {
		return &becomeFailure{Missing: true}
	}
	if b.DryRun {
		if err := executable(path); err != nil {
			return failedTo("", err)
		}
		return nil
	}
	return failedTo("", syscall.Exec(path, b.Argv, b.Env))
}

// takeIdentity gives up the rights of the daemon for those of the account, in all threads of the process.
func (b *become) takeIdentity() *becomeFailure {
	a := &b.Account
	text := "cannot become " + a.Name
	if a.UID < 0 || a.UID > jobproc.UIDMax || a.GID < 0 || a.GID > jobproc.UIDMax {
		return failedTo(text, syscall.EINVAL)
	}
	for _, err := range []error{
		syscall.Setgroups(a.Groups), syscall.Setresgid(a.GID, a.GID, a.GID), syscall.Setresuid(a.UID, a.UID, a.UID), // in this order
	} {
		if err != nil {
			return failedTo(text, err)
		}
	}
	// The change of the uid has made it dumpable again if the machine is set so.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return failedTo(text, err)
	}
	if os.Getuid() != a.UID || os.Geteuid() != a.UID || os.Getgid() != a.GID || os.Getegid() != a.GID {
		return failedTo(text, syscall.EPERM)
	}
	return nil
}

func failedTo(step string, err error) *becomeFailure {
	errno := syscall.EIO
	errors.As(err, &errno)
	return &becomeFailure{Step: step, Errno: errno}
}

// executable returns the error with which the execution of a file would fail because of its kind or mode.
func executable(path string) error {
	if _, err := os.Stat(path); err != nil {
		return err
	}
	if !isFile(path) || unix.Access(path, unix.X_OK) != nil {
		return syscall.EACCES
	}
	return nil
}

// becoming is a command of another user that is being started, with the files that only the start needs.
type becoming struct {
	cmd    *exec.Cmd
	report *os.File   // end for reading
	files  []*os.File // of the process
}

// newBecoming makes the process of the command, which can be started once. The streams of out become the user's; nil: it has none.
// orphanMark is the variable of its environment by which processes of the job are found.
func (c *command) newBecoming(account *jobproc.Account, env []string, out *output, orphanMark string, dryRun bool) (*becoming, error) {
	b := &becoming{}
	err := b.open(c, become{Account: *account, Argv: c.Argv, Env: env, Cwd: c.directory(), DryRun: dryRun}, out)
	if err != nil {
		b.close()
		return nil, err
	}
	b.cmd.Args = []string{"lockstep-job", becomeArgument}
	b.cmd.Env = []string{orphanMark, "GOMAXPROCS=1"}
	return b, nil
}

func (b *becoming) open(c *command, orders become, out *output) error {
	encoded, err := json.Marshal(orders)
	if err != nil {
		return err
	}
	b.cmd = &exec.Cmd{Path: "/proc/self/exe", Dir: "/", SysProcAttr: &syscall.SysProcAttr{Setpgid: true}, WaitDelay: outputGrace}
	own := []*os.File{}
	if out != nil {
		b.cmd.Stdout, b.cmd.Stderr = out.stdout(), out.stderr()
		own = append(own, out.stdout(), out.stderr())
	}
	if c.Stdin != nil {
		stdin, err := inMemory("stdin", []byte(*c.Stdin))
		if err != nil {
			return err
		}
		b.files, b.cmd.Stdin, own = append(b.files, stdin), stdin, append(own, stdin)
	}
	for _, stream := range own { // so that the command can open /dev/stdout
		if err := stream.Chown(orders.Account.UID, orders.Account.GID); err != nil {
			return err
		}
	}
	file, err := inMemory("orders", encoded)
	if err != nil {
		return err
	}
	b.files = append(b.files, file)
	report, end, err := os.Pipe()
	if err != nil {
		return err
	}
	b.report, b.files, b.cmd.ExtraFiles = report, append(b.files, end), []*os.File{file, end}
	return nil
}

// inMemory returns a file in memory with this content, to be read from its beginning.
func inMemory(name string, content []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make a file in memory: %w", err)
	}
	file := os.NewFile(uintptr(fd), name)
	if _, err := file.WriteAt(content, 0); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// closeProcessEnds closes what the process has inherited.
func (b *becoming) closeProcessEnds() {
	for _, f := range b.files {
		_ = f.Close()
	}
	b.files = nil
}

func (b *becoming) close() {
	b.closeProcessEnds()
	_ = b.report.Close() // a nil file is no problem
}

// failure is why the ended process has not executed the command; nil: it has, or was killed before. It closes the report.
func (b *becoming) failure() error {
	defer b.close()
	var f becomeFailure
	if err := json.NewDecoder(io.LimitReader(b.report, 64<<10)).Decode(&f); err != nil {
		return nil //nolint:nilerr // there is no report
	}
	return &f
}

// directory is where the command runs.
func (c *command) directory() string {
	if c.Cwd != nil {
		return *c.Cwd
	}
	return "/"
}

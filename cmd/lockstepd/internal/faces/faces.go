// Package faces runs lockstepd in the place of Ganeti's daemons, under their names: ganeti-luxid, ganeti-wconfd, ganeti-rapi, ganeti-confd
// and ganeti-mond. They have the options, the exit codes, the pid files, the logs and the users of Ganeti's.
//
// ganeti-wconfd has the actors. ganeti-luxid holds the socket of the queue, and has ganeti-wconfd serve it. The other three only read what
// these two have written, or speak to their sockets.
package faces

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sirupsen/logrus"

	"lockstep/cmd/lockstepd/internal/service"
	"lockstep/cmd/lockstepd/internal/settings"
	"lockstep/core/config"
	"lockstep/core/ownership"
)

// Names under which lockstepd takes the place of a daemon of Ganeti.
const (
	luxidName  = "ganeti-luxid"
	wconfdName = "ganeti-wconfd"
	rapiName   = "ganeti-rapi"
	confdName  = "ganeti-confd"
	mondName   = "ganeti-mond"
)

// faces are the daemons of Ganeti in whose place lockstepd runs when it is started under their names.
var faces = map[string]face{
	luxidName:  {name: luxidName, logFile: "luxi-daemon.log", run: runLuxid, onMaster: true},
	wconfdName: {name: wconfdName, logFile: "wconf-daemon.log", run: runWconfd, onMaster: true, mayForce: true},
	rapiName:   {name: rapiName, logFile: "rapi-daemon.log", run: runRapi, owners: rapiOwners, listens: rapiPort},
	confdName:  {name: confdName, logFile: "conf-daemon.log", run: runConfd, owners: confdOwners, listens: confdFacePort},
	mondName:   {name: mondName, logFile: "monitoring-daemon.log", run: runMond, owners: mondOwners, listens: mondFacePort},
}

// face is one of Ganeti's daemons in whose place lockstepd runs.
type face struct {
	name     string
	logFile  string // in the log directory
	onMaster bool   // runs on the master only, and owns files of the data directory
	mayForce bool   // has --force-node
	listens  facePort
	// owners are the rules for its files; nil: those of Ganeti's data directory.
	owners func(c settings.Config) (ownership.Rules, error)
	// run runs the daemon until stop ends. It calls ready when clients can connect.
	run func(stop context.Context, c settings.Config, o options, ready func()) error
}

// options are what a daemon of Ganeti is started with.
type options struct {
	startActors                     Start // for ganeti-wconfd
	foreground, debug, noUserChecks bool
	syslog                          string // syslogNo, syslogYes or syslogOnly
	output                          *syslogOutput
	noVoting, yesDoIt, forceNode    bool
	help, version, completion       bool
	listen                          listenOptions
	rapi                            rapiOptions
}

// newLog returns the log of the daemon, which goes to syslog, too, if the options say so.
func (o *options) newLog(c settings.Config) *logrus.Logger {
	log := c.NewLog()
	o.output.apply(log)
	return log
}

// Exit codes of Ganeti's daemons.
const (
	exitFailed    = 1
	exitUsage     = 2
	exitNotMaster = 11
)

// errNotMaster is the error of a daemon that is started on a node that is not the master.
var errNotMaster = errors.New("Not master, exiting.")

// flags are the names that the command line may have, the short ones too.
func (f face) flags(o *options) *flag.FlagSet {
	flags := flag.NewFlagSet(f.name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	both := func(into *bool, short, long, usage string) {
		flags.BoolVar(into, short, false, usage)
		flags.BoolVar(into, long, false, usage)
	}
	both(&o.foreground, "f", "foreground", "don't detach from the current terminal")
	both(&o.debug, "d", "debug", "increase the verbosity")
	both(&o.help, "h", "help", "show help")
	both(&o.version, "V", "version", "show the version of the program")
	flags.BoolVar(&o.noUserChecks, "no-user-checks", false, "ignore user checks")
	flags.StringVar(&o.syslog, "syslog", syslogNo,
		"no; yes: log lines go to syslog too; only: to syslog alone, and not to the log file, or with -f to standard error")
	flags.BoolVar(&o.completion, "help-completion", false, "show completion info")
	if f.onMaster {
		flags.BoolVar(&o.noVoting, "no-voting", false, "skip the agreement of the nodes about the master")
		flags.BoolVar(&o.yesDoIt, "yes-do-it", false, "confirm --no-voting")
	} else {
		o.listen.flags(flags, f.listens)
	}
	if f.name == rapiName {
		o.rapi.flags(flags)
	}
	if f.mayForce {
		flags.BoolVar(&o.forceNode, "force-node", false, "start on a node that is not the master")
	}
	return flags
}

// Known reports whether a program of that name is a face.
func Known(name string) bool {
	_, known := faces[name]
	return known
}

// Start runs the actors of the daemon while this process holds the locks of the run directory and of the data directory, until stop ends.
type Start func(c settings.Config, log *logrus.Logger, stop context.Context, reload <-chan os.Signal, p *service.Phase) error

// Run is main under the name of a daemon of Ganeti. It returns the exit code.
func Run(name string, args []string, stdout, stderr io.Writer, start Start) int {
	f, o := faces[name], options{startActors: start}
	flags := f.flags(&o)
	err := flags.Parse(args)
	if err == nil && flags.NArg() > 0 {
		err = fmt.Errorf("this program takes no arguments, and got %s", strings.Join(flags.Args(), " "))
	}
	if err == nil && !slices.Contains([]string{syslogNo, syslogYes, syslogOnly}, o.syslog) {
		err = fmt.Errorf("--syslog: %q is none of no, yes and only", o.syslog)
	}
	if err == nil && !f.onMaster {
		err = errors.Join(o.listen.check(), o.rapi.check())
	}
	switch {
	case err != nil:
		fmt.Fprintf(stderr, "%s: %v\n", f.name, err)
		return exitUsage
	case o.help:
		fmt.Fprintf(stdout, "%s of lockstep\nUsage: %s [OPTION...]\n", f.name, f.name)
		flags.VisitAll(func(option *flag.Flag) { fmt.Fprintf(stdout, "  %-18s %s\n", dashed(option.Name), option.Usage) })
		return 0
	case o.version:
		fmt.Fprintf(stdout, "%s %s\nlockstep %s\n", f.name, config.VCSVersion, version())
		return 0
	case o.completion:
		flags.VisitAll(func(option *flag.Flag) { fmt.Fprintf(stdout, "%s none\n", dashed(option.Name)) })
		return 0
	}
	if err := f.start(o, stderr); errors.Is(err, errNotMaster) {
		fmt.Fprintln(stdout, err)
		return exitNotMaster
	} else if err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", f.name, err)
		return exitFailed
	}
	return 0
}

func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// start makes the checks of a start, and then runs the daemon, or starts the process that does. The error is errNotMaster for a daemon of
// the master on another node.
func (f face) start(o options, stderr io.Writer) error {
	c, err := faceConfig(o)
	if err == nil && f.owners != nil {
		c.Owners, err = f.owners(c)
	}
	if err == nil {
		o.output, err = openSyslog(o.syslog, "")
	}
	if err != nil {
		return err
	}
	self := ownName()
	c.Ganeti.Node = self
	if isDaemonProcess() {
		return f.runDaemon(c, o)
	}
	if f.onMaster && !o.forceNode {
		if err := checkMaster(c, self); err != nil {
			return err
		}
	}
	if err := f.checkUser(c, o); err != nil {
		return err
	}
	if o.noVoting && !o.yesDoIt {
		return errors.New("The no-voting option is dangerous and cannot be given without providing yes-do-it as well.")
	}
	if f.onMaster && !o.noVoting {
		if err := vote(c, self, stderr); err != nil {
			return err
		}
	}
	if o.foreground {
		return f.runForeground(c, o)
	}
	return startDaemonProcess(f)
}

// checkUser returns an error unless the process has the user of Ganeti's daemons.
func (f face) checkUser(c settings.Config, o options) error {
	if o.noUserChecks {
		return nil
	}
	for _, owner := range c.Owners.UIDs() {
		if uid := os.Geteuid(); uid != owner {
			return fmt.Errorf("%s started using wrong user ID (%d), expected %d", f.name, uid, owner)
		}
	}
	return nil
}

// faceSettingsFile has settings of lockstepd for the daemons of Ganeti, in the form of --config. It may be missing.
const faceSettingsFile = "/etc/ganeti/lockstep.yaml"

// faceConfig are the settings: Ganeti's directories, below GANETI_ROOTDIR if that is set, as for Ganeti's programs.
func faceConfig(o options) (settings.Config, error) {
	root := os.Getenv("GANETI_ROOTDIR")
	args := []string{
		"--ganeti",
		"--data-dir", filepath.Join("/", root, settings.GanetiDataDir),
		"--run-dir", filepath.Join("/", root, settings.GanetiRunDir),
		"--log-dir", filepath.Join("/", root, settings.GanetiLogDir),
	}
	if o.debug {
		args = append(args, "--log-level", "debug", "--ganeti-debug")
	}
	file := filepath.Join("/", root, faceSettingsFile)
	if _, err := os.Stat(file); err == nil {
		args = append(args, "--config", file)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return settings.Config{}, err
	}
	return settings.Parse(args, io.Discard)
}

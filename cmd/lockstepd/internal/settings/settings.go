// Package settings has what an operator can set of lockstepd: the flags, which are also the keys of the configuration file, with their
// help and manual pages.
//
// Config is what the rest of the daemon is given. It is valid, and its defaults are set: those of a system's daemon, of a user without
// root, or of a node of a Ganeti cluster.
package settings

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/sirupsen/logrus"
	"go.yaml.in/yaml/v3"

	"lockstep/actors/queue"
	"lockstep/cmd/internal/accounts"
	"lockstep/cmd/internal/buildinfo"
	"lockstep/cmd/internal/places"
	"lockstep/cmd/internal/term"
	"lockstep/core/ownership"
	"lockstep/edge/cgroup"
	"lockstep/persistence"
	"lockstep/supervisor"
)

// Config are the settings that an operator can choose. Every field is a flag, and a key of the
// configuration file with the same name.
type Config struct {
	DataDir     string
	RunDir      string
	LogDir      string
	SocketDir   string // RunDir/socket, or a directory that it is a link to
	OpcodesDir  string
	ClusterName string
	NodeName    string
	JobProgram  string
	JobCgroup   string // "": job processes start in the daemon's
	LogLevel    string
	MaxFrame    int // bytes
	MaxConns    int // per socket
	MaxStarts   int
	Writers     int
	Limits      queue.Limits
	// ArchiveAfter is the time after which ended jobs are archived, unless a setting says another; 0: never.
	ArchiveAfter time.Duration
	ArchiveDays  int    // days after which archived jobs are removed; 0: never
	SocketGroup  string // whose members may use the sockets, by name or number; "": the daemon's own
	RunAs        RunAs
	NodeListen   string // of a node of a cluster; "": where it is reached
	LeaveJobs    bool   // running jobs continue when this node is no longer the master
	Rapi         RapiConfig
	Ganeti       GanetiConfig
	Confd        ConfdConfig
	Mond         MondConfig

	Owners ownership.Rules // of files and sockets
}

const usageText = `lockstepd runs a job queue: it accepts jobs over its socket, stores them as files, and
starts a process for each. It stays in the foreground. SIGTERM stops it; running
jobs continue, and the next daemon adopts them.

Usage: lockstepd [flags]

Examples:
  lockstepd --data-dir ./var/lib --run-dir ./var/run --log-dir ./var/log
  lockstepd --config /etc/lockstep/lockstepd.yaml
  lockstepd --ganeti

A user without root gets a daemon with directories of the user: queue, logs and lock
files are below $XDG_STATE_HOME/lockstep, or ~/.local/state/lockstep, and sockets in
$XDG_RUNTIME_DIR/lockstep. It listens on no TCP or UDP port unless a flag names one.
This holds without --data-dir, and unless the user owns /var/lib/lockstep/queue.

The configuration file is YAML, with the names of the flags as keys:
  data-dir: /srv/lockstep
  log-level: debug
A flag on the command line wins over the file.

Flags:
`

// Parse reads flags, and the configuration file that they name. Flags take precedence. Errors name the field. It returns flag.ErrHelp
// after it has printed the help or the version.
func Parse(args []string, output io.Writer) (Config, error) {
	var c Config
	var file string
	var version bool
	var page string // of the manual
	flags := flag.NewFlagSet("lockstepd", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.BoolVar(&version, "version", false, "print the version and exit")
	flags.StringVar(&page, manualFlag, "", "")
	flags.StringVar(&file, "config", "",
		"YAML `file` to read settings from. A file named "+places.SystemConfig+", or $XDG_CONFIG_HOME/lockstep/lockstepd.yaml, may be missing")
	c.flags(flags)
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			printUsage(flags, output)
		}
		return c, err
	}
	if version {
		fmt.Fprintf(output, "lockstepd %s\n", buildinfo.Read())
		return c, flag.ErrHelp
	}
	if page != "" {
		text, err := manual(flags, page)
		if err != nil {
			return c, err
		}
		fmt.Fprint(output, text)
		return c, flag.ErrHelp
	}
	if flags.NArg() > 0 {
		return c, fmt.Errorf("unexpected argument %q; see lockstepd --help", flags.Arg(0))
	}
	if file != "" {
		if err := readConfigFile(flags, file); err != nil {
			return c, err
		}
	}
	given := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	c.Rapi.AddressGiven, c.Confd.AddressGiven, c.Mond.AddressGiven = given[RapiAddressFlag], given[ConfdAddressFlag], given[MondAddressFlag]
	if err := c.applyGaneti(given); err != nil {
		return c, err
	}
	if err := c.applyUser(given, places.Current(), flags); err != nil {
		return c, err
	}
	if err := c.RunAs.apply(os.Geteuid(), c.Ganeti.Enabled, c.SocketGroup); err != nil {
		return c, err
	}
	return c, c.normalize()
}

// flags adds the flags that are settings, with their defaults, which set c.
func (c *Config) flags(flags *flag.FlagSet) {
	hostname, err := os.Hostname()
	if err != nil {
		hostname = "localhost"
	}
	flags.StringVar(&c.DataDir, "data-dir", places.System().Data, "`directory` of the queue and the configuration")
	flags.StringVar(&c.RunDir, "run-dir", places.System().Run, "`directory` of lock files, and of sockets without socket-dir")
	flags.StringVar(&c.SocketDir, "socket-dir", "",
		"`directory` of the sockets; socket in run-dir is then a link to it (default: socket in run-dir)")
	flags.StringVar(&c.LogDir, "log-dir", places.System().Log, "`directory` of logs")
	flags.StringVar(&c.OpcodesDir, "opcodes-dir", "",
		"`directory` of declared opcodes, *.yaml; SIGHUP reloads them (default: opcodes.d in data-dir)")
	flags.StringVar(&c.ClusterName, "cluster-name", "lockstep", "`name` of a new cluster")
	flags.StringVar(&c.NodeName, "node-name", hostname, "`name` of this node in a new cluster")
	flags.StringVar(&c.JobProgram, "job-program", "", "`path` of lockstep-job (default: beside lockstepd, or in ../lib/lockstep)")
	flags.StringVar(&c.JobCgroup, "job-cgroup", "",
		"`directory` of the control group, version 2, in which job processes start, and below which each command has its own; "+
			"without its parent directory, and if empty, they start in the daemon's")
	flags.StringVar(&c.LogLevel, "log-level", "info", "least severe `level` that is logged: debug, info, warn, error")
	flags.IntVar(&c.MaxFrame, "max-frame", 64<<20, "largest request, in `bytes`")
	flags.IntVar(&c.MaxConns, "max-connections", 8192, "`number` of connections that may be open at a time, for each socket")
	flags.StringVar(&c.SocketGroup, "socket-group", "",
		"`group` whose members may submit jobs: it owns the sockets, and may search the run directory (default: the daemon's own group)")
	c.RunAs.flags(flags)
	flags.IntVar(&c.MaxStarts, "max-starts", 2*runtime.NumCPU(), "`number` of job processes being started at a time")
	flags.IntVar(&c.Writers, "writers", 32, "`number` of disk operations at a time")
	limits := supervisor.DefaultLimits()
	flags.IntVar(&c.Limits.Unfinished, "max-unfinished", limits.Unfinished, "`number` of jobs that may be queued or running")
	flags.IntVar(&c.Limits.Ops, "max-job-ops", limits.Ops, "`number` of opcodes that a job may have")
	flags.IntVar(&c.Limits.JobBytes, "max-job-bytes", limits.JobBytes, "`bytes` that a job may have when it is submitted")
	c.Rapi.flags(flags)
	c.Confd.flags(flags)
	c.Mond.flags(flags)
	c.Ganeti.flags(flags)
	flags.StringVar(&c.NodeListen, "node-listen", "",
		"`address` at which this node listens for other nodes of the cluster (default: the node's own, see lockstep node)")
	flags.BoolVar(&c.LeaveJobs, "leave-jobs", false, "in a cluster: let running jobs continue when this node is no longer the master")
	flags.Var(term.DurationFlag{Value: &c.ArchiveAfter}, "archive-after",
		"archive jobs this `DURATION` after their end, like 7d; the setting archive_after wins (default never)")
	flags.IntVar(&c.ArchiveDays, "archive-days", 0,
		"`days` after which archived jobs are removed; 0: never; the setting remove_archived_after wins")
}

// printUsage prints the flags with two dashes, as users write them.
func printUsage(flags *flag.FlagSet, output io.Writer) {
	fmt.Fprint(output, usageText)
	flags.VisitAll(func(f *flag.Flag) {
		if f.Name == manualFlag {
			return
		}
		kind, usage := flag.UnquoteUsage(f)
		fmt.Fprintf(output, "  --%-24s %s", f.Name+" "+kind, usage)
		if f.DefValue != "" {
			fmt.Fprintf(output, " (default %s)", f.DefValue)
		}
		fmt.Fprintln(output)
	})
}

// readConfigFile sets every flag that the file names and the command line does not.
func readConfigFile(flags *flag.FlagSet, file string) error {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) && places.Current().ConfigMayBeMissing(file) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("config: %w", err)
	}
	var settings map[string]yaml.Node
	if err := yaml.NewDecoder(bytes.NewReader(data)).Decode(&settings); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("decode config %s: %w", file, err)
	}
	given := map[string]bool{"config": true}
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	names := make([]string, 0, len(settings))
	for name := range settings {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		node := settings[name]
		switch {
		case flags.Lookup(name) == nil || name == "config" || name == manualFlag:
			return fmt.Errorf("config %s, line %d: there is no setting %q; see lockstepd --help", file, node.Line, name)
		case node.Kind != yaml.ScalarNode:
			return fmt.Errorf("config %s, line %d: %s must be a single value", file, node.Line, name)
		case given[name]:
		default:
			if err := flags.Set(name, node.Value); err != nil {
				return fmt.Errorf("config %s, line %d: %s: %w", file, node.Line, name, err)
			}
		}
	}
	return nil
}

// normalize sets the fields that depend on others, makes paths absolute, and validates.
func (c *Config) normalize() error {
	if c.JobProgram == "" {
		self, err := os.Executable()
		if err != nil {
			return fmt.Errorf("job-program: %w", err)
		}
		c.JobProgram = places.JobProgram(filepath.Dir(self))
	}
	if c.SocketDir == "" && c.RunDir != "" {
		c.SocketDir = persistence.SocketDir(c.RunDir)
	}
	if c.OpcodesDir == "" && c.DataDir != "" {
		c.OpcodesDir = filepath.Join(c.DataDir, "opcodes.d")
	}
	c.Rapi.normalize(c.DataDir)
	if err := c.Mond.normalize(); err != nil {
		return err
	}
	for _, path := range []*string{
		&c.DataDir, &c.RunDir, &c.LogDir, &c.SocketDir, &c.OpcodesDir, &c.JobProgram, &c.JobCgroup,
		&c.Rapi.Users, &c.Rapi.Certificate, &c.Rapi.Key,
	} {
		if *path == "" {
			continue // validate reports this error
		}
		absolute, err := filepath.Abs(*path)
		if err != nil {
			return err
		}
		*path = absolute
	}
	if c.JobCgroup != "" {
		c.JobCgroup = cgroup.Resolve(c.JobCgroup)
	}
	return c.validate()
}

// RemoveArchivedAfter is the age from which archived jobs are removed, unless a setting of the queue says another; 0: never.
func (c *Config) RemoveArchivedAfter() time.Duration {
	const day = 24 * time.Hour
	return time.Duration(c.ArchiveDays) * day
}

// socketPathMax is the longest path of a unix socket, in bytes.
const socketPathMax = 107

// validate returns an error that names the first invalid field. It resolves the owners of files, too.
func (c *Config) validate() error {
	for _, check := range []struct {
		bad  bool
		text string
	}{
		{c.DataDir == "", "data-dir: must not be empty"},
		{c.RunDir == "", "run-dir: must not be empty"},
		{c.LogDir == "", "log-dir: must not be empty"},
		{c.ClusterName == "" || strings.ContainsAny(c.ClusterName, " \t\n"), fmt.Sprintf("cluster-name: %q is not a name", c.ClusterName)},
		{c.NodeName == "" || strings.ContainsAny(c.NodeName, " \t\n"), fmt.Sprintf("node-name: %q is not a name", c.NodeName)},
		{c.MaxFrame < 1024 || c.MaxFrame > 1<<30, fmt.Sprintf("max-frame: %d is not between 1024 and 1073741824 bytes", c.MaxFrame)},
		{c.MaxConns < 1, fmt.Sprintf("max-connections: %d is less than 1", c.MaxConns)},
		{c.MaxStarts < 1 || c.MaxStarts > 1000, fmt.Sprintf("max-starts: %d is not between 1 and 1000", c.MaxStarts)},
		{c.Writers < 1 || c.Writers > 1000, fmt.Sprintf("writers: %d is not between 1 and 1000", c.Writers)},
		{c.Limits.Unfinished < 1, fmt.Sprintf("max-unfinished: %d is less than 1", c.Limits.Unfinished)},
		{c.Limits.Ops < 1, fmt.Sprintf("max-job-ops: %d is less than 1", c.Limits.Ops)},
		{c.Limits.JobBytes < 1, fmt.Sprintf("max-job-bytes: %d is less than 1", c.Limits.JobBytes)},
		{c.ArchiveDays < 0, fmt.Sprintf("archive-days: %d is less than 0", c.ArchiveDays)},
		{
			len(c.longestSocket()) > socketPathMax,
			fmt.Sprintf("run-dir: the socket's path %s is longer than the %d bytes that a socket's path may have",
				c.longestSocket(), socketPathMax),
		},
	} {
		if check.bad {
			return errors.New(check.text)
		}
	}
	if _, err := logrus.ParseLevel(c.LogLevel); err != nil {
		return fmt.Errorf("log-level: %q is none of debug, info, warn and error", c.LogLevel)
	}
	if _, err := c.SocketGroupID(); err != nil {
		return fmt.Errorf("socket-group: %w", err)
	}
	if err := c.resolveOwners(); err != nil {
		return err
	}
	if err := c.Confd.validate(); err != nil {
		return err
	}
	if err := c.Mond.validate(); err != nil {
		return err
	}
	return c.Rapi.validate()
}

// SocketGroupID returns the id of the sockets' group; nil if none was chosen.
func (c *Config) SocketGroupID() (*int, error) {
	if c.SocketGroup == "" {
		return nil, nil
	}
	group, err := accounts.GroupNumber(c.SocketGroup)
	if err != nil {
		return nil, fmt.Errorf("%w; groupadd makes one", err)
	}
	return &group, nil
}

func (c *Config) longestSocket() string {
	return persistence.SocketPath(c.RunDir, persistence.WconfSocket)
}

// NewLog returns the log of the daemon: lines on standard error, from the level of the settings.
func (c *Config) NewLog() *logrus.Logger {
	log := logrus.New()
	log.SetOutput(os.Stderr)
	log.SetFormatter(&logrus.TextFormatter{FullTimestamp: true, TimestampFormat: "2006-01-02 15:04:05.000"})
	level, err := logrus.ParseLevel(c.LogLevel)
	if err == nil {
		log.SetLevel(level)
	}
	return log
}

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v3"

	"lockstep/cmd/internal/buildinfo"
	"lockstep/cmd/internal/places"
	"lockstep/edge/cgroup"
)

// config is what the guard needs of the daemon's settings, as keys of the daemon's configuration file.
type config struct {
	DataDir   string `yaml:"data-dir"`
	RunDir    string `yaml:"run-dir"`
	JobCgroup string `yaml:"job-cgroup"`
}

const usageText = `lockstep-guard runs beside lockstepd. It kills what a killed job process has left in
the control groups of its commands, and, on a node of a cluster, all commands a second
after the node has lost its mastership. It needs no lockstepd.

Usage: lockstep-guard [flags]

It finds lock files and control groups as lockstepd does: give it the same --config,
--run-dir and --job-cgroup. Start it again when they change.

Flags:
`

// parse reads the flags and the configuration file of the daemon. Flags take precedence. It returns flag.ErrHelp after it has printed the
// help or the version.
func parse(args []string, output io.Writer) (config, error) {
	var given, c config
	flags := flag.NewFlagSet("lockstep-guard", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	version := flags.Bool("version", false, "print the version and exit")
	file := flags.String("config", "", "configuration `file` of lockstepd")
	flags.StringVar(&given.DataDir, "data-dir", "", "`directory` of the queue: with it, a user's lockstepd has the system's run-dir")
	flags.StringVar(&given.RunDir, "run-dir", "", "`directory` of lock files (default: as lockstepd)")
	flags.StringVar(&given.JobCgroup, "job-cgroup", "", "`directory` of the control group of job processes")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprint(output, usageText)
			flags.SetOutput(output)
			flags.PrintDefaults()
		}
		return c, err
	}
	if *version {
		fmt.Fprintln(output, "lockstep-guard", buildinfo.Read())
		return c, flag.ErrHelp
	}
	if flags.NArg() > 0 {
		return c, fmt.Errorf("unexpected argument %q; see lockstep-guard --help", flags.Arg(0))
	}
	if err := c.read(*file); err != nil {
		return c, err
	}
	for _, f := range []struct{ to, given *string }{
		{&c.DataDir, &given.DataDir}, {&c.RunDir, &given.RunDir}, {&c.JobCgroup, &given.JobCgroup},
	} {
		if *f.given != "" {
			*f.to = *f.given
		}
	}
	return c, c.complete(places.Current())
}

// read reads the configuration file. Keys of the daemon alone are left out.
func (c *config) read(file string) error {
	if file == "" {
		return nil
	}
	content, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) && places.Current().ConfigMayBeMissing(file) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("config: %w", err)
	}
	if err := yaml.Unmarshal(content, c); err != nil {
		return fmt.Errorf("decode config %s: %w", file, err)
	}
	return nil
}

// complete sets the run directory that lockstepd has by default.
func (c *config) complete(environment places.Environment) error {
	if c.JobCgroup == "" {
		return errors.New("job-cgroup: without it commands have no control groups, and a guard finds nothing")
	}
	if c.RunDir == "" {
		c.RunDir = places.System().Run
		if c.DataDir == "" && environment.UserMode() {
			dirs, err := environment.User()
			if err != nil {
				return fmt.Errorf("run-dir: %w", err)
			}
			c.RunDir = dirs.Run
		}
	}
	var err error
	if c.RunDir, err = filepath.Abs(c.RunDir); err != nil {
		return fmt.Errorf("run-dir: %w", err)
	}
	if c.JobCgroup, err = filepath.Abs(c.JobCgroup); err != nil {
		return fmt.Errorf("job-cgroup: %w", err)
	}
	c.JobCgroup = cgroup.Resolve(c.JobCgroup)
	return nil
}

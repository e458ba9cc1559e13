package submit

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/completion"
	"lockstep/core/limits"
)

// limitOptions are the flags about what a command may use of its node.
type limitOptions struct {
	flags  *pflag.FlagSet // of the command
	memory string
	limits limits.Limits
}

func (o *limitOptions) register(command *cobra.Command) {
	flags := command.Flags()
	o.flags = flags
	flags.StringVar(&o.memory, "memory", "", "end the command if its processes need more memory than `SIZE`, like 2G or 512MiB")
	flags.Float64Var(&o.limits.CPUs, "cpus", 0, "give the command the time of `N` processors at most, like 1.5")
	flags.Int64Var(&o.limits.Tasks, "tasks", 0, "let the command have `N` processes and threads at most, like 200")
	flags.IntVar(&o.limits.IOWeight, "io-weight", 0,
		"give the command a share of the disks in proportion to `WEIGHT`, 1 to 10000, where others have 100; "+
			"it needs the scheduler BFQ or io.cost")
	flags.IntVar(&o.limits.Nice, "nice", 0, "run the command with this `NICENESS`, 0 to 19 (default 0)")
	for _, name := range []string{"memory", "cpus", "tasks", "io-weight", "nice"} {
		completion.Flag(command, name, completion.Nothing)
	}
}

// given are the limits that the flags of the command set; nil: there are none. The error is a *cli.UsageError.
func (o *limitOptions) given() (*limits.Limits, error) {
	for _, flag := range []struct {
		name, member string
		value        any
	}{
		{"memory", "memory", o.memory}, {"cpus", "cpus", o.limits.CPUs}, {"tasks", "tasks", o.limits.Tasks},
		{"io-weight", "io_weight", o.limits.IOWeight}, {"nice", "nice", o.limits.Nice},
	} {
		if !o.flags.Changed(flag.name) {
			continue
		}
		if want := limits.Check(flag.member, flag.value); want != "" {
			return nil, cli.Usagef("--%s %v: want %s", flag.name, flag.value, want)
		}
	}
	l := o.limits
	l.Memory, _ = limits.ParseSize(o.memory) // it was checked; zero without the flag
	if l == (limits.Limits{}) {
		return nil, nil
	}
	return &l, nil
}

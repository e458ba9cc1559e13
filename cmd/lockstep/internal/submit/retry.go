package submit

import (
	"time"

	"github.com/spf13/cobra"

	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/completion"
	"lockstep/core/retry"
)

// retryOptions are the flags about further tries of a command.
type retryOptions struct {
	Times    int
	Delay    time.Duration
	MaxDelay time.Duration
	On       string
}

func (o *retryOptions) register(command *cobra.Command) {
	flags := command.Flags()
	flags.IntVar(&o.Times, "retry", 0, "if the command fails, try it again up to `N` times, at most 5 (default 0)")
	flags.Var(term.DurationFlag{Value: &o.Delay}, "retry-delay",
		"wait for `DURATION` before the second try, and twice as long before each further one (default 10s)")
	flags.Var(term.DurationFlag{Value: &o.MaxDelay}, "retry-max-delay", "wait for `DURATION` at most before a try (default 10m)")
	flags.StringVar(&o.On, "retry-on", "",
		"try again only after one of `CAUSES`: exit statuses, timeout, failure (each of these), and lost "+
			"(the job's process died, or its node; default failure)")
	for _, name := range []string{"retry", "retry-delay", "retry-max-delay"} {
		completion.Flag(command, name, completion.Nothing)
	}
	completion.Flag(command, "retry-on", completion.Causes)
}

// policy is nil if the command is not tried again. The error is a *cli.UsageError.
func (o *retryOptions) policy() (*retry.Policy, error) {
	switch {
	case o.Times == 0 && (o.Delay != 0 || o.MaxDelay != 0 || o.On != ""):
		return nil, cli.Usagef("--retry-delay, --retry-max-delay and --retry-on need --retry N, which says how often the command is tried again")
	case o.Times == 0:
		return nil, nil
	case o.Times < 0 || o.Times > retry.TimesMax:
		return nil, cli.Usagef("--retry %d: a command is tried again 1 to %d times", o.Times, retry.TimesMax)
	}
	p := &retry.Policy{Times: o.Times, Delay: o.Delay.Seconds(), MaxDelay: o.MaxDelay.Seconds()}
	if o.On != "" {
		var err error
		if p.On, err = retry.ParseCauses(o.On); err != nil {
			return nil, cli.Usagef("--retry-on: %v", err)
		}
	}
	if err := p.Check(); err != nil {
		return nil, cli.Usagef("--retry: %v", err)
	}
	return p, nil
}

package submit

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/cmd/lockstep/internal/jobfile"
	"lockstep/cmd/lockstep/internal/selection"
	"lockstep/core/lock"
	"lockstep/core/record"
)

// constraintOptions are the conditions of a command's start: ends of other jobs, locks, and rate
// limits.
type constraintOptions struct {
	After      []string
	Locks      []string
	AnyLocks   []string
	AnyCount   int
	RateLimits []string
}

// registerAfter adds the flag about jobs that exist.
func (o *constraintOptions) registerAfter(flags *pflag.FlagSet) {
	flags.StringArrayVar(&o.After, "after", nil,
		"start when the job `ID|NAME[:STATUS,...]` has ended with one of these statuses: success (the default), error, canceled (repeatable)")
}

// register adds the other flags.
func (o *constraintOptions) register(flags *pflag.FlagSet) {
	flags.StringArrayVar(&o.Locks, "lock", nil, "hold the lock `NAME[:shared]` while the command runs (repeatable)")
	flags.StringArrayVar(&o.AnyLocks, "any-lock", nil,
		"hold the lock `NAME[:shared]` if it is free (repeatable); see --any-count")
	flags.IntVar(&o.AnyCount, "any-count", 0, "wait until `N` of the --any-lock locks are free (default 1)")
	flags.StringArrayVar(&o.RateLimits, "rate-limit", nil,
		"run while fewer than N jobs with the same `N:LABEL` are running (repeatable)")
}

// constraintsHelp is their part of the help of run.
const constraintsHelp = `--after, --lock, --any-lock and --rate-limit are conditions of the start.
A name in --after stands for the newest job that has it now; its id is printed. If a
job of --after ends with another status, the job fails; if it is canceled, the
job is canceled. A lock is any name, like deploy or db/main, whose full name is
lock/deploy or lock/db/main; or one of Ganeti's: cluster/BGL, or one of instance/,
nodegroup/, node/, node-res/ and network/ with a name, or with [lockset] for all names.
It is held exclusively, unless :shared is added. "lockstep why ID" shows what the job
waits for.`

// dependency is [id, [status...]] on the wire (queue.md 1.5).
type dependency [2]any

// apply adds the constraints to an opcode. It checks them, because errors of the daemon would not
// name the flags.
func (o constraintOptions) apply(opcode *commandOpcode, now time.Time, resolve func(name string) (int64, error)) error {
	var err error
	if opcode.Depends, err = parseAfter(o.After, resolve); err != nil {
		return err
	}
	if opcode.Locks, err = parseLocks("--lock", o.Locks); err != nil {
		return err
	}
	if opcode.AnyLocks, err = parseLocks("--any-lock", o.AnyLocks); err != nil {
		return err
	}
	if err := o.checkOpportunity(opcode.Locks, opcode.AnyLocks); err != nil {
		return err
	}
	opcode.AnyCount = o.AnyCount
	limits, err := rateLimits(o.RateLimits, now)
	// The trail ends with the name of this program.
	end := len(opcode.Reason) - 1
	opcode.Reason = slices.Concat(opcode.Reason[:end], limits, opcode.Reason[end:])
	return err
}

// resolveAfter returns the id of the newest job with a name, and prints it: later jobs with that name do not count.
func resolveAfter(ctx context.Context, streams cli.Streams, daemon client.Querier) func(name string) (int64, error) {
	return func(name string) (int64, error) {
		ids, err := selection.Newest(ctx, daemon, []string{name})
		if err != nil {
			return 0, err
		}
		fmt.Fprintf(streams.Err, "after job %d (%s)\n", ids[0], name)
		return ids[0], nil
	}
}

// parseAfter reads ID[:STATUS,...] or NAME[:STATUS,...]; resolve returns the id for a name. Without a status the job must succeed.
func parseAfter(flags []string, resolve func(name string) (int64, error)) ([]dependency, error) {
	var depends []dependency
	met := map[int64]bool{}
	for _, flag := range flags {
		number, list, given := strings.Cut(flag, ":")
		id, err := strconv.ParseInt(number, 10, 64)
		switch {
		case err != nil && record.CheckName(number) == nil:
			if id, err = resolve(number); err != nil {
				return nil, fmt.Errorf("--after: %w", err)
			}
		case err != nil || id < 1:
			return nil, cli.Usagef("--after wants the id or name of a job, like 12, nightly or 12:success,error, not %q", flag)
		}
		if met[id] {
			return nil, cli.Usagef("--after names job %d twice; write --after %d:STATUS,STATUS", id, id)
		}
		met[id] = true
		statuses := []string{client.StatusSuccess}
		if given {
			statuses = strings.Split(list, ",")
		}
		for _, status := range statuses {
			if !client.Final(status) {
				return nil, cli.Usagef("--after %d: a job ends with success, error or canceled, not with %q", id, status)
			}
		}
		depends = append(depends, dependency{id, statuses})
	}
	return depends, nil
}

// parseLocks reads the locks of a flag. The error is a *UsageError.
func parseLocks(flag string, texts []string) ([]jobfile.Lock, error) {
	var locks []jobfile.Lock
	for _, text := range texts {
		one, err := jobfile.ParseLock(flag, text)
		if err != nil {
			return nil, cli.Usagef("%v", err)
		}
		if slices.ContainsFunc(locks, func(other jobfile.Lock) bool { return other.Lock == one.Lock }) {
			return nil, cli.Usagef("%s names %s twice", flag, one.Lock)
		}
		locks = append(locks, one)
	}
	return locks, nil
}

// checkOpportunity checks that the --any-lock locks are a choice of one level, large enough for --any-count.
func (o constraintOptions) checkOpportunity(needed, anyOf []jobfile.Lock) error {
	switch {
	case o.AnyCount < 0:
		return cli.Usagef("--any-count must not be negative")
	case len(anyOf) == 0 && o.AnyCount > 0:
		return cli.Usagef("--any-count needs --any-lock")
	case o.AnyCount > len(anyOf):
		return cli.Usagef("--any-lock names %d locks; --any-count %d is more", len(anyOf), o.AnyCount)
	}
	for _, item := range anyOf {
		level := anyOf[0].Lock.Level()
		switch {
		case item.Lock == lock.BGL || item.Lock.IsGroup():
			return cli.Usagef("--any-lock %s is no choice; give it as --lock", item.Lock)
		case item.Lock.Level() != level:
			return cli.Usagef("--any-lock: %s and %s are of different kinds; a choice must be of one kind", anyOf[0].Lock, item.Lock)
		}
		for _, fixed := range needed {
			if fixed.Lock.Level() == level {
				return cli.Usagef("--lock %s and --any-lock %s are of one kind; use only one of the flags for a kind", fixed.Lock, item.Lock)
			}
		}
	}
	return nil
}

// rateLimits returns the reasons that put the job under rate limits (queue.md 4.4.1).
func rateLimits(flags []string, now time.Time) ([][]any, error) {
	var reasons [][]any
	for _, flag := range flags {
		if !regexp.MustCompile(`^[1-9][0-9]{0,8}:.+$`).MatchString(flag) {
			return nil, cli.Usagef("--rate-limit wants a number of jobs and a label, like 2:backup, not %q", flag)
		}
		reasons = append(reasons, []any{"gnt:user", "rate-limit:" + flag, now.UnixNano()})
	}
	return reasons, nil
}

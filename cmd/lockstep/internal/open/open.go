// Package open has the command open, which prints the address of the console.
package open

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/core/answer"
)

// printed is the output with --json.
type printed struct {
	URL     string `json:"url"`
	Seconds int64  `json:"seconds"` // for which the login link is valid; 0: it is no login link
}

var errNoConsole = errors.New(`the daemon has no console. To turn it on, start the daemon again with
  --rapi-address 127.0.0.1:5080
or another port, if that one is in use: the log of the daemon says so. In the
settings of its unit (~/.config/lockstep/lockstepd.yaml of a user,
/etc/lockstep/lockstepd.yaml of the system) the line is
  rapi-address: 127.0.0.1:5080`)

// NewCommand is the command open.
func NewCommand(globals *cli.Globals) *cobra.Command {
	withoutLogin := false
	command := &cobra.Command{
		Use:   "open [flags] [ID]",
		Short: "Print the address of the web console, with a link that logs in once",
		Long: `Print the address of this node's console, or of the page of one job. The address logs one
browser in, by a button, with all rights of the daemon's socket. It works once, within a
minute, on this machine only.

Exit code: 0; 1 if the daemon has no console.
With --json: {"url", "seconds"}, seconds being the time for which the link logs in`,
		Example: `  lockstep open
  lockstep open 12 --without-login
  xdg-open "$(lockstep open --without-login)"`,
		Args: cli.WantArgs(0, 1, "name at most one job, by its id"),
		RunE: func(command *cobra.Command, args []string) error {
			return run(command.Context(), globals, args, withoutLogin)
		},
	}
	command.Flags().BoolVar(&withoutLogin, "without-login", false, "print the address only; the console asks for a name and a password")
	return command
}

func run(ctx context.Context, globals *cli.Globals, args []string, withoutLogin bool) error {
	page := ""
	if len(args) == 1 {
		id, err := strconv.ParseInt(args[0], 10, 64)
		if err != nil || id < 1 {
			return cli.Usagef("%q is not a job id", args[0])
		}
		page = fmt.Sprintf("jobs/%d", id)
	}
	daemon := globals.Connect()
	defer daemon.Close()
	var nodes answer.Nodes // every node answers for itself
	if err := daemon.Query(ctx, "LockstepNodes", []any{}, &nodes); err != nil {
		return err
	}
	if nodes.Console == "" {
		return errNoConsole
	}
	result := printed{URL: nodes.Console + page}
	if !withoutLogin {
		var link answer.LoginLink
		if err := daemon.Call(ctx, "LockstepLoginLink", []any{}, &link); err != nil {
			return err
		}
		result = printed{URL: nodes.Console + "open?token=" + link.Token, Seconds: link.Seconds}
		if page != "" {
			result.URL += "&next=" + strings.ReplaceAll("/ui/"+page, "/", "%2F")
		}
	}
	if globals.JSON {
		return cli.PrintJSON(globals.Streams.Out, result)
	}
	fmt.Fprintln(globals.Streams.Out, result.URL)
	if result.Seconds > 0 && globals.Streams.ErrTerminal {
		cli.PrintError(globals.Streams.Err, fmt.Sprintf("the link logs one browser in, within %v", time.Duration(result.Seconds)*time.Second))
	}
	return nil
}

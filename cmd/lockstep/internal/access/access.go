// Package access is the command lockstep access: who the caller is to the daemon, and the roles that were granted. It owns nothing.
package access

import (
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/core/access"
	"lockstep/core/answer"
)

const needsCommand = "access needs a command: whoami, list, grant or revoke"

// NewCommand makes the command access.
func NewCommand(globals *cli.Globals) *cobra.Command {
	command := &cobra.Command{
		Use:   "access",
		Short: "Show your role, and grant roles to users and groups",
		Long: `A role says what a user may do, each one all that those before it may:

  read     see everything
  submit   submit commands, and change own jobs
  operate  change all jobs, filter rules and the drain flag
  admin    change settings, the configuration, nodes and grants

Root and the daemon's user are admin, members of the socket's group (--socket-group
of lockstepd) have submit. A grant raises the role of a user or group and never
lowers it. Users of the remote API have the role that its users file says.`,
		Example: `  lockstep access whoami
  lockstep access grant operate group:ops
  lockstep access list
  lockstep access revoke operate group:ops`,
		Args: cli.WantArgs(0, 0, needsCommand),
		RunE: func(*cobra.Command, []string) error { return cli.Usagef("%s", needsCommand) },
	}
	command.AddCommand(newWhoAmICommand(globals), newListCommand(globals), newGrantCommand(globals), newRevokeCommand(globals))
	return command
}

func newWhoAmICommand(globals *cli.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "whoami",
		Short: "Show who you are to the daemon, and your role",
		Long: `Show who you are to the daemon, your role, and where the role comes from.

With --json: {"user": text, "uid": number or null, "groups": [name, ...], "role": name,
"why": text, "node": name of the node whose client you are, if it is not the master}`,
		Example: `  lockstep access whoami`,
		Args:    cli.WantArgs(0, 0, "access whoami takes no arguments"),
		RunE: func(command *cobra.Command, _ []string) error {
			var who answer.WhoAmI
			if err := call(globals, command, "LockstepWhoAmI", []any{}, &who); err != nil {
				return err
			}
			if globals.JSON {
				return cli.PrintJSON(globals.Streams.Out, who)
			}
			uid := ""
			if who.UID != nil && who.User != "uid "+strconv.Itoa(*who.UID) {
				uid = fmt.Sprintf(" (uid %d)", *who.UID)
			}
			fmt.Fprintf(globals.Streams.Out, "%s%s has the role %s: %s\n", who.User, uid, who.Role, who.Why)
			return nil
		},
	}
}

func newListCommand(globals *cli.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the granted roles",
		Long: `List the roles that were granted, the highest role first.

With --json: {"grants": [{"role": name, "who": "user:alice", "group:ops", "uid:1000" or "gid:100"}, ...]}`,
		Example: `  lockstep access list`,
		Args:    cli.WantArgs(0, 0, "access list takes no arguments"),
		RunE: func(command *cobra.Command, _ []string) error {
			var list answer.Grants
			if err := call(globals, command, "LockstepListGrants", []any{}, &list); err != nil {
				return err
			}
			out := globals.Streams.Out
			switch {
			case globals.JSON:
				return cli.PrintJSON(out, list)
			case len(list.Grants) == 0:
				fmt.Fprintln(out, "No role was granted. Root and the daemon's user are admin, members of the socket's group have submit.")
				return nil
			}
			table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
			fmt.Fprintln(table, "ROLE\tWHO")
			for _, g := range list.Grants {
				fmt.Fprintf(table, "%s\t%s\n", g.Role, strings.TrimPrefix(g.Who, "user:"))
			}
			return table.Flush()
		},
	}
}

func newGrantCommand(globals *cli.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "grant ROLE WHO",
		Short: "Give a role to a user or group",
		Long: `Give a role to a user or group of the machine: alice, group:ops, uid:1000 or gid:100. The
name counts on the node whose socket the client uses. The client must be able to
open the socket: add the user to its group, too. The role is in force at once, also on
open connections, and on all nodes of a cluster.

A grant is refused while a node of the cluster has a version that does not know grants.
A Ganeti cluster has no grants: there the modes of the sockets decide.

Exit code: 0, also if the role was granted before; 1 if it was not granted.
With --json: {"changed": bool}`,
		Example: `  lockstep access grant operate group:ops
  lockstep access grant admin alice`,
		Args:              cli.WantArgs(2, 2, "access grant needs a role, and a user or group"),
		ValidArgsFunction: completeRole,
		RunE: func(command *cobra.Command, args []string) error {
			return change(globals, command, "LockstepGrant", args, "%s has the role %s.\n", "%s has had the role %s before.\n")
		},
	}
}

func newRevokeCommand(globals *cli.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "revoke ROLE WHO",
		Short: "Take a granted role",
		Long: `Take a role that was granted. The user keeps what other grants and the socket's group
give. Jobs that the user has submitted stay.

Exit code: 0, also if the role was not granted; 1 if it was not taken.
With --json: {"changed": bool}`,
		Example:           `  lockstep access revoke operate group:ops`,
		Args:              cli.WantArgs(2, 2, "access revoke needs a role, and a user or group"),
		ValidArgsFunction: completeRole,
		RunE: func(command *cobra.Command, args []string) error {
			return change(globals, command, "LockstepRevoke", args,
				"%s has no grant of the role %s any longer.\n", "%s had no grant of the role %s.\n")
		},
	}
}

// change makes a call that changes the grants, and says what it has done: done or not in words.
func change(globals *cli.Globals, command *cobra.Command, method string, args []string, done, not string) error {
	role, err := access.ParseRole(args[0])
	if err != nil {
		return cli.Usagef("%v", err)
	}
	who, err := access.ParseWho(args[1])
	if err != nil {
		return cli.Usagef("%v", err)
	}
	var changed bool
	if err := call(globals, command, method, []any{role.String(), who}, &changed); err != nil {
		return err
	}
	if globals.JSON {
		return cli.PrintJSON(globals.Streams.Out, map[string]bool{"changed": changed})
	}
	text := not
	if changed {
		text = done
	}
	fmt.Fprintf(globals.Streams.Out, text, strings.TrimPrefix(who, "user:"), role)
	return nil
}

func call(globals *cli.Globals, command *cobra.Command, method string, args []any, result any) error {
	daemon := globals.Connect()
	defer daemon.Close()
	return daemon.Call(command.Context(), method, args, result)
}

func completeRole(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return []string{"group:"}, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
	var roles []string
	for r := access.Read; r <= access.Admin; r++ {
		roles = append(roles, r.String())
	}
	return roles, cobra.ShellCompDirectiveNoFileComp
}

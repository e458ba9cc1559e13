// Package monitor has the command monitor: what MonD reports about nodes. It is a client of MonD over HTTP. The daemon says over its
// socket where its own MonD is; for other nodes neither socket nor files are needed.
package monitor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/core/answer"
)

const (
	portDefault = "1815"
	timeout     = 10 * time.Second
	answerMax   = 64 << 20 // bytes
)

type options struct {
	Nodes       []string
	User        string
	Password    string // file
	TLS         bool
	Certificate string
}

// NewCommand is the command monitor.
func NewCommand(globals *cli.Globals) *cobra.Command {
	opts := options{}
	command := &cobra.Command{
		Use:   "monitor [flags] [COLLECTOR...]",
		Short: "Show what the collectors of nodes report",
		Long: `Show the reports of the daemon's MonD, or of MonD on the nodes of --node: one line for each
collector with its status, the age of its report, and a summary. A node answers at
once from its last reports, also while another node is the master or there is none.

The status is ok, repairing (temporarily wrong), unknown (treat it as dangerous) or
wrong (a person must act). A collector of Ganeti's kind "performance" has no status.

A COLLECTOR is a name, such as queue, locks, replication, processes, lockstepd,
config, cpu-avg-load, diskstats, drbd or lv. Without any, all active ones are shown.

Ids of jobs, names of nodes and pids are shown to users of the remote API only: give
--user, and the password in a file or at the terminal. To another machine the
password is sent over TLS only (--tls).

Exit code: 0 if every status is ok or repairing, 1 if one is unknown or wrong, or if a
node does not answer; 2 for wrong usage.
With --json: [{"node": string, "error": string, "reports": [REPORT]}], with the
reports as MonD sends them: {"name", "version", "format_version", "timestamp",
"category", "kind", "data"}. "error" is empty if the node has answered.`,
		Example: `  lockstep monitor
  lockstep monitor --node n1.example --node n2.example replication config
  lockstep monitor --user reader --password-file ~/.lockstep-password locks
  lockstep monitor --json queue | jq '.[0].reports[0].data.jobs'`,
		RunE: func(command *cobra.Command, args []string) error {
			return run(command.Context(), opts, globals, args)
		},
	}
	flags := command.Flags()
	flags.StringSliceVarP(&opts.Nodes, "node", "n", nil,
		"`address` of a node's MonD; the port is 1815 if it has none; repeatable (default the MonD of the daemon)")
	flags.StringVarP(&opts.User, "user", "u", "", "`name` of a user of the remote API")
	flags.StringVar(&opts.Password, "password-file", "", "`file` with the password of --user in its first line")
	flags.BoolVar(&opts.TLS, "tls", false, "speak TLS")
	flags.StringVar(&opts.Certificate, "certificate", "",
		"`file` with the certificate to trust, such as rapi/cert.pem of the node; implies --tls")
	return command
}

// report is a report of a collector. Its JSON form is kept for --json.
type report struct {
	Name      string          `json:"name"`
	Timestamp int64           `json:"timestamp"`
	Kind      int             `json:"kind"`
	Data      json.RawMessage `json:"data"`
	raw       json.RawMessage
}

// nodeReports are the answer of a node, or why there is none.
type nodeReports struct {
	Node    string            `json:"node"`
	Error   string            `json:"error"`
	Reports []json.RawMessage `json:"reports"`
	reports []report
}

func run(ctx context.Context, opts options, globals *cli.Globals, names []string) error {
	if err := opts.checkSecrecy(); err != nil {
		return err
	}
	client, err := newClient(opts)
	if err != nil {
		return err
	}
	password, err := opts.password(globals)
	if err != nil {
		return err
	}
	if len(opts.Nodes) == 0 {
		own, secure, err := ownMonitor(ctx, globals)
		if err != nil {
			return err
		}
		opts.Nodes, opts.TLS = []string{own}, opts.TLS || secure
		if err := opts.checkSecrecy(); err != nil {
			return err
		}
	}
	all := make([]nodeReports, len(opts.Nodes))
	done := make(chan int)
	for i, node := range opts.Nodes {
		go func() {
			all[i] = fetch(ctx, client, opts, node, password, names)
			done <- i
		}()
	}
	for range opts.Nodes {
		<-done
	}
	if globals.JSON {
		err = cli.PrintJSON(globals.Streams.Out, all)
	} else {
		printTable(globals, all)
	}
	if err != nil {
		return err
	}
	for _, n := range all {
		if n.Error != "" || slices.ContainsFunc(n.reports, func(r report) bool { return statusOf(r).code >= codeUnknown }) {
			return &cli.ExitError{Code: 1}
		}
	}
	return nil
}

// ownMonitor asks the daemon for the address of its MonD, and whether it speaks TLS. A daemon without MonD is an error.
func ownMonitor(ctx context.Context, globals *cli.Globals) (address string, secure bool, err error) {
	daemon := globals.Connect()
	defer daemon.Close()
	var nodes answer.Nodes // every node answers for itself
	if err := daemon.Query(ctx, "LockstepNodes", []any{}, &nodes); err != nil {
		return "", false, err
	}
	if address, is := strings.CutPrefix(nodes.Monitor, "https://"); is {
		return address, true, nil
	}
	if address, is := strings.CutPrefix(nodes.Monitor, "http://"); is {
		return address, false, nil
	}
	return "", false, errors.New("the daemon reports nothing: it was started without --mond-address, " +
		"or the default address is in use by another program; its log says which. " +
		"--node asks the MonD at an address, which may be another daemon's")
}

// checkSecrecy refuses to send a password in clear to another machine. The error is a *UsageError.
func (o options) checkSecrecy() error {
	if o.User == "" || o.TLS || o.Certificate != "" {
		return nil
	}
	for _, node := range o.Nodes {
		host, _, err := net.SplitHostPort(node)
		if err != nil {
			host = strings.Trim(node, "[]")
		}
		if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return cli.Usagef("--user needs --tls or --certificate: the password would be sent in clear to %s", node)
		}
	}
	return nil
}

// password returns the password of the user, from the file or from the terminal; "" without a user.
func (o options) password(globals *cli.Globals) (string, error) {
	switch {
	case o.User == "" && o.Password != "":
		return "", cli.Usagef("--password-file needs --user")
	case o.User == "":
		return "", nil
	case o.Password != "":
		text, err := os.ReadFile(o.Password)
		if err != nil {
			return "", fmt.Errorf("read the password: %w", err)
		}
		line, _, _ := strings.Cut(string(text), "\n")
		return strings.TrimSuffix(line, "\r"), nil
	case !globals.Streams.InTerminal:
		return "", cli.Usagef("--user needs --password-file, since the input is no terminal")
	}
	fmt.Fprintf(globals.Streams.Err, "Password of %s: ", o.User)
	secret, err := globals.Streams.ReadSecret()
	fmt.Fprintln(globals.Streams.Err)
	return secret, err
}

func newClient(opts options) (*http.Client, error) {
	transport := &http.Transport{Proxy: nil, DisableKeepAlives: true}
	if opts.Certificate != "" {
		trusted, err := os.ReadFile(opts.Certificate)
		if err != nil {
			return nil, fmt.Errorf("read the certificate: %w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(trusted) {
			return nil, fmt.Errorf("the file %s has no certificate", opts.Certificate)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	noRedirects := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &http.Client{Timeout: timeout, Transport: transport, CheckRedirect: noRedirects}, nil
}

// fetch gets the reports with the given names from one node, without names all. A failure is in the answer, because the other nodes are
// shown all the same.
func fetch(ctx context.Context, client *http.Client, opts options, node, password string, names []string) nodeReports {
	answer := nodeReports{Node: node, Reports: []json.RawMessage{}}
	fail := func(err error) nodeReports {
		answer.Error = err.Error()
		return answer
	}
	address := node
	if _, _, err := net.SplitHostPort(address); err != nil {
		address = net.JoinHostPort(strings.Trim(node, "[]"), portDefault)
	}
	scheme := "http"
	if opts.TLS || opts.Certificate != "" {
		scheme = "https"
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+address+"/1/report/all", http.NoBody)
	if err != nil {
		return fail(err)
	}
	if opts.User != "" {
		request.SetBasicAuth(opts.User, password)
	}
	response, err := client.Do(request)
	if err != nil {
		return fail(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, answerMax))
	if err != nil {
		return fail(err)
	}
	if response.StatusCode != http.StatusOK {
		return fail(fmt.Errorf("%s: %.200s", response.Status, strings.TrimSpace(string(body))))
	}
	var raw []json.RawMessage
	if err := json.Unmarshal(body, &raw); err != nil {
		return fail(errors.New("the answer is not one of MonD"))
	}
	for _, text := range raw {
		r := report{raw: text}
		if err := json.Unmarshal(text, &r); err != nil {
			return fail(errors.New("the answer is not one of MonD"))
		}
		if len(names) == 0 || slices.Contains(names, r.Name) {
			answer.Reports, answer.reports = append(answer.Reports, text), append(answer.reports, r)
		}
	}
	for _, name := range names {
		if !slices.ContainsFunc(answer.reports, func(r report) bool { return r.Name == name }) {
			answer.Error = fmt.Sprintf("there is no active collector %q", name)
		}
	}
	return answer
}

// printTable prints a line for each report, and on standard error what has failed.
func printTable(globals *cli.Globals, all []nodeReports) {
	p := globals.Palette()
	header := table.Row{"Collector", "Status", "Age", "Summary"}
	several := len(all) > 1
	if several {
		header = append(table.Row{"Node"}, header...)
	}
	var rows []table.Row
	for _, n := range all {
		for _, r := range n.reports {
			s := statusOf(r)
			age := max(0, globals.Streams.Now().Sub(time.Unix(0, r.Timestamp)))
			row := table.Row{term.Visible(r.Name), s.paint(p), term.Span(age), term.Visible(summary(r, s))}
			if several {
				row = append(table.Row{term.Visible(n.Node)}, row...)
			}
			rows = append(rows, row)
		}
	}
	if len(rows) > 0 {
		fmt.Fprintln(globals.Streams.Out, term.TextTable(header, rows, []int{len(header) - 1}, globals.Streams.Width))
	}
	for _, n := range all {
		if n.Error != "" {
			cli.PrintError(globals.Streams.Err, fmt.Sprintf("%s: %s", n.Node, n.Error))
		}
	}
}

// Package cli has what all commands of lockstep share: the streams, the common flags, exit
// codes, usage errors, JSON output, and texts about jobs. It has no command and calls no daemon;
// Connect returns a session of package client for this.
package cli

import (
	"os"

	"lockstep/cmd/internal/places"
	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/edge/reaper"
)

// Globals are the common flags and the streams of a command.
type Globals struct {
	Socket string
	Daemon string // "user", "system" or ""
	JSON   bool
	Color  string

	Streams Streams
}

// Validate checks the common flags. The error is a *UsageError.
func (g *Globals) Validate() error {
	switch g.Color {
	case "auto", "always", "never":
	default:
		return Usagef("--color is auto, always or never, not %q", g.Color)
	}
	switch whose := client.Whose(g.Daemon); {
	case whose != client.Unnamed && g.Socket != "":
		return Usagef("--socket and --daemon both choose a daemon: give one of them")
	case whose == client.Users && g.userless():
		return Usagef("--daemon user: %v", places.ErrNoHome)
	case whose == client.Unnamed, whose == client.Users, whose == client.Systems:
		return nil
	}
	return Usagef("--daemon is user or system, not %q", g.Daemon)
}

// Palette returns the colours for Out. A non-empty $NO_COLOR turns them off (no-color.org), as
// does a terminal without colours.
func (g *Globals) Palette() term.Palette {
	switch g.Color {
	case "always":
		return term.Palette{On: true}
	case "never":
		return term.Palette{}
	}
	noColor, _ := g.Streams.LookupEnv("NO_COLOR")
	terminal, _ := g.Streams.LookupEnv("TERM")
	return term.Palette{On: g.Streams.OutTerminal && noColor == "" && terminal != "dumb"}
}

// Connect returns a session with the daemon. Nothing is sent before its first call.
func (g *Globals) Connect() *client.Session {
	path, whose := client.Choice{Socket: g.Socket, Daemon: client.Whose(g.Daemon), Environment: g.environment()}.Find()
	_, inJob := g.Streams.LookupEnv(reaper.EnvName)
	s := &client.Session{Path: path, Whose: whose, After: g.Streams.After, InJob: inJob}
	if g.Streams.ErrTerminal {
		s.Notice = func(text string) { PrintError(g.Streams.Err, text) }
	}
	return s
}

// environment is what the choice of a daemon depends on.
func (g *Globals) environment() places.Environment {
	return places.Environment{UID: os.Geteuid(), Lookup: g.Streams.LookupEnv}
}

// userless reports whether there is no place for the directories of a user's daemon.
func (g *Globals) userless() bool {
	_, err := g.environment().User()
	return err != nil
}

// SayWhose tells a user on a terminal which daemon has the new jobs, if the user may have a daemon
// beside the system's and has not named a socket.
func (g *Globals) SayWhose(s *client.Session) {
	if !g.Streams.ErrTerminal || g.JSON || !g.environment().UserMode() {
		return
	}
	switch s.Whose {
	case client.Users:
		PrintError(g.Streams.Err, "submitted to your own daemon")
	case client.Systems:
		PrintError(g.Streams.Err, "submitted to the system's daemon")
	case client.Unnamed:
	}
}

// ShowsProgress reports whether the command shows progress on a terminal.
func (g *Globals) ShowsProgress() bool { return g.Streams.ErrTerminal && !g.JSON }

// StartProgress starts a bar with a text and a maximum, or an empty bar if ShowsProgress is false.
func (g *Globals) StartProgress(text string, total int) *term.Bar {
	if !g.ShowsProgress() {
		return &term.Bar{}
	}
	return term.StartText(g.Streams.Err, text, total)
}

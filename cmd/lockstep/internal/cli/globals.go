// Package cli has what all commands of lockstep share: the streams, the common flags, exit
// codes, usage errors, JSON output, and texts about jobs. It has no command and calls no daemon;
// Connect returns a session of package client for this.
package cli

import (
	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/client"
)

// Globals are the common flags and the streams of a command.
type Globals struct {
	Socket string
	JSON   bool
	Color  string

	Streams Streams
}

// Validate checks the common flags.
func (g *Globals) Validate() error {
	switch g.Color {
	case "auto", "always", "never":
		return nil
	}
	return Usagef("--color is auto, always or never, not %q", g.Color)
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
	s := &client.Session{Path: client.SocketPath(g.Socket, g.Streams.LookupEnv), After: g.Streams.After}
	if g.Streams.ErrTerminal {
		s.Notice = func(text string) { PrintError(g.Streams.Err, text) }
	}
	return s
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

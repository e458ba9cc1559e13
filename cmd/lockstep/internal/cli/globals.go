// Package cli is what every command of lockstep works with: its streams, the flags that
// all commands have, exit codes, errors of usage, JSON for programs, and the words for
// jobs. It owns no command and makes no call to a daemon: Connect returns a session, of
// package client.
package cli

import (
	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/client"
)

// Globals are the flags that every command has, and the streams it works on.
type Globals struct {
	Socket string
	JSON   bool
	Color  string

	Streams Streams
}

// Validate checks the flags that every command has.
func (g *Globals) Validate() error {
	switch g.Color {
	case "auto", "always", "never":
		return nil
	}
	return Usagef("--color is auto, always or never, not %q", g.Color)
}

// Palette returns the colours for what is printed on Out. $NO_COLOR, if not empty,
// turns them off (no-color.org), as does a terminal that has none.
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

// ShowsProgress tells whether a person sees how far a command is.
func (g *Globals) ShowsProgress() bool { return g.Streams.ErrTerminal && !g.JSON }

// StartProgress starts a bar with a text and its end, or an empty bar if no person sees it.
func (g *Globals) StartProgress(text string, total int) *term.Bar {
	if !g.ShowsProgress() {
		return &term.Bar{}
	}
	return term.StartText(g.Streams.Err, text, total)
}

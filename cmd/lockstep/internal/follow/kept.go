package follow

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"lockstep/cmd/lockstep/internal/client"
	"lockstep/core/outflow"
	"lockstep/core/outflow/delivery"
	"lockstep/core/wire"
	"lockstep/edge/outputs/end"
	"lockstep/persistence"
)

const (
	// keptSilence is how long the daemon may send nothing of a part.
	keptSilence = 30 * time.Second
	// keptPatience is how long a reader tries to connect to a daemon that has ended.
	keptPatience = time.Minute
	keptPause    = 200 * time.Millisecond
	// keptTries is how many connections in a row may end without a byte and without an end: the daemon ends or starts at that moment, the
	// master changes, or a file cannot be read.
	keptTries = 50
)

// KeptOf reads the kept output of a job over the daemon's socket for output, where package end describes it. A daemon that ends
// or starts interrupts the reading only.
func KeptOf(ctx context.Context, daemon *client.Session, id int64) delivery.ReadKept {
	path := filepath.Join(filepath.Dir(daemon.Path), persistence.OutputSocket)
	known := false // the daemon has that socket, while it runs
	return func(part end.Kept, take func([]byte) bool) int64 {
		waited, tries := time.Duration(0), 0
		for {
			began := part.From
			c, err := end.Dial(ctx, path, end.Hello{Job: id, Kept: &part})
			switch {
			case err == nil:
				known = true
				if readPart(ctx, c, &part, take) {
					return part.From
				}
				if tries++; part.From > began {
					waited, tries = 0, 0
				}
			case !known && errors.Is(err, unix.ENOENT):
				var runs bool
				if runs, known = servesOutput(ctx, daemon); runs && !known {
					return part.From
				}
			}
			if waited += keptPause; ctx.Err() != nil || waited > keptPatience || tries >= keptTries {
				return part.From
			}
			select {
			case <-ctx.Done():
				return part.From
			case <-daemon.After(keptPause):
			}
		}
	}
}

// servesOutput asks whether a daemon runs, and whether it has a socket for output: one of an earlier version has none, nor the settings
// for output. That the socket is not there says nothing: it is away for a moment while a daemon starts or ends.
func servesOutput(ctx context.Context, daemon *client.Session) (runs, serves bool) {
	other := daemon.Other() // the session may wait for an answer
	defer other.Close()
	var settings map[string]json.RawMessage
	err := other.Call(ctx, "LockstepGetSettings", []any{}, &settings)
	var unknown *wire.RequestError
	_, serves = settings["keep_output"]
	return err == nil || errors.As(err, &unknown), serves
}

// readPart reads a part over one connection, and moves the part's beginning on. It reports whether there is no more of it; not if the
// connection has ended before.
func readPart(ctx context.Context, c *os.File, part *end.Kept, take func([]byte) bool) (over bool) {
	defer c.Close()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	frames, buffer := bufio.NewReaderSize(c, outflow.FrameMax+outflow.HeaderSize), make([]byte, outflow.FrameMax)
	for {
		if err := c.SetReadDeadline(time.Now().Add(keptSilence)); err != nil {
			return false
		}
		f, err := outflow.ReadFrame(frames, buffer)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return true
		case err != nil:
			return false
		case f.Ends() || f.Stream != part.Stream || f.At.Of(part.Stream) != part.From || part.From+int64(len(f.Output)) > part.To:
			return true // after the end, or a frame that was not asked for, nothing can be believed
		}
		part.From += int64(len(f.Output))
		if !take(f.Output) {
			return true
		}
		if part.From == part.To {
			return true
		}
	}
}

package objects

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/luxi/call"
	"lockstep/core/queuecopy"
	"lockstep/core/wire"
	"lockstep/messages"
)

// pausePath is the file that pauses ganeti-watcher: the end of the pause in whole seconds since 1970, and a newline
// (queue.md 1.7).
const pausePath = queuecopy.PausePath

// setWatcherPause takes [time], the end of the pause in seconds since 1970. Any other value ends the pause now. The
// answer is the time, or null.
func setWatcherPause(c *call.Call, ctx actor.Context, args []json.RawMessage) error {
	var until json.RawMessage
	if err := wire.Arguments(args, &until); err != nil {
		return fmt.Errorf("SetWatcherPause: %w", err)
	}
	seconds, isNumber := number(until)
	if !isNumber {
		c.Begin(ctx)
		c.Store.Remove(ctx, &messages.RemoveFiles{Op: "watcher-pause", Paths: []string{pausePath}}, pauseWritten(c, nil))
		return nil
	}
	if math.Abs(seconds) > 1<<53 {
		c.Fail(ctx, messages.ParameterFailure("The watcher cannot be paused until "+string(until)))
		return nil
	}
	content := append(strconv.AppendInt(nil, int64(seconds), 10), '\n')
	c.Begin(ctx)
	c.Store.Write(ctx, &messages.WriteFiles{Durable: true, Files: []*messages.FileWrite{
		{Op: "watcher-pause", Path: pausePath, Content: content}}}, pauseWritten(c, seconds))
	return nil
}

func number(raw json.RawMessage) (n float64, isNumber bool) {
	var pointer *float64
	if json.Unmarshal(raw, &pointer) != nil || pointer == nil {
		return 0, false
	}
	return *pointer, true
}

// pauseWritten answers with result when the file is changed. To remove a file that does not exist is no failure.
func pauseWritten(c *call.Call, result any) func(actor.Context, *messages.ChangeFilesResult) {
	return func(ctx actor.Context, m *messages.ChangeFilesResult) {
		if c.Ended() {
			return
		}
		for _, f := range m.Failures {
			if !f.Missing {
				c.Fail(ctx, f.Failure)
				return
			}
		}
		c.SucceedCopied(ctx, result, queuecopy.Pause)
	}
}

// readWatcherPause reads the end of the pause in seconds since 1970. nil means that the watcher is not paused.
func readWatcherPause(c *call.Call, ctx actor.Context, then func(ctx actor.Context, until any)) {
	c.Begin(ctx)
	c.Read(ctx, "watcher-pause", pausePath, func(ctx actor.Context, m *messages.ReadFileResult) {
		switch {
		case m.Missing:
			then(ctx, nil)
		case m.Failure != nil:
			c.Fail(ctx, m.Failure)
		default:
			until, err := strconv.ParseInt(strings.TrimSpace(string(m.Content)), 10, 64)
			if err != nil {
				c.Fail(ctx, messages.Generic(errors.New(pausePath+": "+err.Error())))
			} else if until > c.Config.Env.Clock().Now().Unix() {
				then(ctx, until)
			} else {
				then(ctx, nil)
			}
		}
	})
}

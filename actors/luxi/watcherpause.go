package luxi

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/messages"
)

// pausePath is the file that keeps ganeti-watcher from doing anything: a whole
// number of seconds since 1970, and a newline (queue.md 1.7).
const pausePath = "watcher.pause"

// setWatcherPause takes [time], until which the watcher sleeps; what is no
// number wakes it up. The answer is the time, or null.
func (c *connection) setWatcherPause(ctx actor.Context, args []json.RawMessage) error {
	var until json.RawMessage
	if err := arguments(args, &until); err != nil {
		return fmt.Errorf("SetWatcherPause: %w", err)
	}
	seconds, isNumber := number(until)
	if !isNumber {
		c.withStore(ctx, func(ctx actor.Context, isCurrent func() bool) {
			c.store.Remove(ctx, &messages.RemoveFiles{Op: "watcher-pause", Paths: []string{pausePath}}, c.answerPause(isCurrent, nil))
		})
		return nil
	}
	if math.Abs(seconds) > 1<<53 {
		c.fail(ctx, messages.ParameterFailure("The watcher cannot be paused until "+string(until)))
		return nil
	}
	content := append(strconv.AppendInt(nil, int64(seconds), 10), '\n')
	c.withStore(ctx, func(ctx actor.Context, isCurrent func() bool) {
		c.store.Write(ctx, &messages.WriteFiles{Durable: true, Files: []*messages.FileWrite{
			{Op: "watcher-pause", Path: pausePath, Content: content}}}, c.answerPause(isCurrent, seconds))
	})
	return nil
}

func number(raw json.RawMessage) (n float64, isNumber bool) {
	var pointer *float64
	if json.Unmarshal(raw, &pointer) != nil || pointer == nil {
		return 0, false
	}
	return *pointer, true
}

// answerPause answers when the file is as it is to be. That there was none to be
// removed is no failure.
func (c *connection) answerPause(isCurrent func() bool, result any) func(actor.Context, *messages.ChangeFilesResult) {
	return func(ctx actor.Context, m *messages.ChangeFilesResult) {
		if !isCurrent() {
			return
		}
		for _, f := range m.Failures {
			if !f.Missing {
				c.fail(ctx, f.Failure)
				return
			}
		}
		c.succeed(ctx, result)
	}
}

// watcherPause is until when the watcher sleeps, nil if it does not.
func (c *connection) watcherPause(ctx actor.Context, answer func(actor.Context, any)) {
	c.withStore(ctx, func(ctx actor.Context, isCurrent func() bool) {
		c.store.Read(ctx, "watcher-pause", pausePath, func(ctx actor.Context, m *messages.ReadFileResult) {
			switch {
			case !isCurrent():
			case m.Missing:
				answer(ctx, nil)
			case m.Failure != nil:
				c.fail(ctx, m.Failure)
			default:
				until, err := strconv.ParseInt(strings.TrimSpace(string(m.Content)), 10, 64)
				if err != nil {
					c.fail(ctx, messages.Generic(errors.New(pausePath+": "+err.Error())))
				} else if until > c.config.Env.Clock().Now().Unix() {
					answer(ctx, until)
				} else {
					answer(ctx, nil)
				}
			}
		})
	})
}

// withStore begins a conversation with the store, which repeats its part of it by
// itself. isCurrent tells whether it is still the current conversation.
func (c *connection) withStore(ctx actor.Context, question func(ctx actor.Context, isCurrent func() bool)) {
	c.ask(ctx, repeatable, func(actor.Context, uint64) {}, func(actor.Context, any) {})
	number := c.request
	question(ctx, func() bool { return number == c.request })
}

package kit

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"
	logrustest "github.com/sirupsen/logrus/hooks/test"
	"github.com/stretchr/testify/require"
)

type secret struct{ Password string }

type panickyError struct{}

func (panickyError) Error() string { panic("no text") }

func TestSlogOverLogrus(t *testing.T) {
	log, hook := logrustest.NewNullLogger()
	log.SetLevel(logrus.DebugLevel)
	l := slog.New(&slogHandler{log: log}).With("lib", "protoactor")

	l.WithGroup("g").With("a", 1).Warn("text",
		slog.Group("h", slog.String("b", "x"), slog.Duration("c", time.Second)),
		slog.Any("pid", actor.NewPID("nonhost", "daemon/core")),
		slog.Any("err", errors.New("oops")),
		slog.Any("bad", panickyError{}),
		slog.Any("directive", actor.StopDirective),
		slog.Any("message", &secret{"hunter2"}),
		slog.Any("", slog.GroupValue(slog.Bool("inline", true))),
		slog.Attr{},
	)
	entry := hook.LastEntry()
	require.Equal(t, logrus.WarnLevel, entry.Level)
	require.Equal(t, "text", entry.Message)
	require.Equal(t, logrus.Fields{
		"lib":         "protoactor",
		"g.a":         int64(1),
		"g.h.b":       "x",
		"g.h.c":       time.Second,
		"g.pid":       "daemon/core",
		"g.err":       "oops",
		"g.bad":       "kit.panickyError",
		"g.directive": "StopDirective",
		"g.message":   "*kit.secret",
		"g.inline":    true,
	}, entry.Data)

	l.Info("next")
	require.Equal(t, logrus.Fields{"lib": "protoactor"}, hook.LastEntry().Data, "handlers share nothing")
}

func TestSlogTime(t *testing.T) {
	log, hook := logrustest.NewNullLogger()
	at := time.Date(2020, 1, 2, 3, 4, 5, 6, time.UTC)
	h := &slogHandler{log: log}
	require.NoError(t, h.Handle(t.Context(), slog.NewRecord(at, slog.LevelInfo, "then", 0)))
	require.Equal(t, at, hook.LastEntry().Time)
}

func TestSlogLevels(t *testing.T) {
	log, hook := logrustest.NewNullLogger()
	l := slog.New(&slogHandler{log: log})
	for slogLevel, want := range map[slog.Level]logrus.Level{
		slog.LevelDebug - 4: logrus.TraceLevel,
		slog.LevelDebug:     logrus.DebugLevel,
		slog.LevelInfo:      logrus.InfoLevel,
		slog.LevelInfo + 1:  logrus.InfoLevel,
		slog.LevelWarn:      logrus.WarnLevel,
		slog.LevelError:     logrus.ErrorLevel,
		slog.LevelError + 4: logrus.ErrorLevel,
	} {
		log.SetLevel(want)
		hook.Reset()
		l.Log(t.Context(), slogLevel, "x")
		require.Equal(t, want, hook.LastEntry().Level)
		log.SetLevel(want - 1)
		require.False(t, l.Enabled(t.Context(), slogLevel), "%v", slogLevel)
	}
}

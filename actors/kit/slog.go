package kit

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"
)

// slogHandler passes the library's log to logrus. Groups become prefixes, "group.key".
type slogHandler struct {
	log    *logrus.Logger
	fields logrus.Fields // immutable
	prefix string        // "" or ending in a dot
}

func (h *slogHandler) Enabled(_ context.Context, level slog.Level) bool {
	return h.log.IsLevelEnabled(logrusLevel(level))
}

func (h *slogHandler) Handle(_ context.Context, r slog.Record) error {
	fields := h.copyFields(r.NumAttrs())
	r.Attrs(func(a slog.Attr) bool {
		addAttr(fields, h.prefix, a)
		return true
	})
	entry := h.log.WithFields(fields)
	if !r.Time.IsZero() {
		entry = entry.WithTime(r.Time)
	}
	entry.Log(logrusLevel(r.Level), r.Message)
	return nil
}

func (h *slogHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	fields := h.copyFields(len(attrs))
	for _, a := range attrs {
		addAttr(fields, h.prefix, a)
	}
	return &slogHandler{log: h.log, fields: fields, prefix: h.prefix}
}

func (h *slogHandler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	return &slogHandler{log: h.log, fields: h.fields, prefix: h.prefix + name + "."}
}

func (h *slogHandler) copyFields(more int) logrus.Fields {
	fields := make(logrus.Fields, len(h.fields)+more)
	for k, v := range h.fields {
		fields[k] = v
	}
	return fields
}

func addAttr(fields logrus.Fields, prefix string, a slog.Attr) {
	v := a.Value.Resolve()
	if v.Kind() == slog.KindGroup {
		if a.Key != "" {
			prefix += a.Key + "."
		}
		for _, inner := range v.Group() {
			addAttr(fields, prefix, inner)
		}
		return
	}
	if a.Equal(slog.Attr{}) {
		return
	}
	fields[prefix+a.Key] = fieldValue(v)
}

// fieldValue reduces values of other types to the name of the type, because a message must
// not be logged.
func fieldValue(v slog.Value) any {
	if v.Kind() != slog.KindAny {
		return v.Any()
	}
	switch x := v.Any().(type) {
	case nil:
		return nil
	case *actor.PID:
		return x.GetId()
	case actor.Directive:
		return x.String()
	case error:
		return reasonText(x)
	case time.Time, time.Duration:
		return x
	default:
		return fmt.Sprintf("%T", x)
	}
}

func logrusLevel(level slog.Level) logrus.Level {
	switch {
	case level < slog.LevelDebug:
		return logrus.TraceLevel
	case level < slog.LevelInfo:
		return logrus.DebugLevel
	case level < slog.LevelWarn:
		return logrus.InfoLevel
	case level < slog.LevelError:
		return logrus.WarnLevel
	default:
		return logrus.ErrorLevel
	}
}

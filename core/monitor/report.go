// Package monitor decides what MonD reports about its node (mond.md): the collectors, the formats of their reports, how the
// texts of the kernel and of programs are read, which collectors are active and how often they gather, and what a client
// without a login may see. Pure.
//
// It owns no state: trackers such as Queue, Locks and CPU are values of their user, the actor monitor. They are in memory only,
// and start empty after a crash.
package monitor

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// Kind is the kind of a report (mond.md 3).
type Kind int

// Kinds of reports. A report about a status has a Status in its data.
const (
	Performance Kind = 0
	State       Kind = 1
)

// Code says how well something is. Codes are bits; a report has the greatest of its parts (mond.md 3).
type Code int

// Codes.
const (
	Fine     Code = 0
	Repairs  Code = 1 // temporarily wrong, and being repaired without a person
	Unknown  Code = 2 // treated as dangerous
	NeedsYou Code = 4 // wrong until a person acts
)

// Status is the state of what a collector watches.
type Status struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
}

// worsen adds a part: the code becomes the greater one, the messages are lines.
func (s *Status) worsen(code Code, format string, args ...any) {
	s.Code = max(s.Code, code)
	if s.Message != "" {
		s.Message += "\n"
	}
	s.Message += fmt.Sprintf(format, args...)
}

// Report is the last report of a collector. It never changes.
type Report struct {
	Collector Collector
	Gathered  time.Time
	Code      Code // of a report about a status; of another one Unknown if the collector has failed, else Fine
	// Full is the report as JSON for a client with a login, Public for all others. They may be the same slice.
	Full, Public []byte
}

// Data is what a collector has gathered, as JSON. Public is for clients without a login; nil: Full is for all.
type Data struct {
	Full, Public any
	Code         Code
}

// For returns the report as a client with or without a login may see it.
func (r *Report) For(login bool) []byte {
	if login {
		return r.Full
	}
	return r.Public
}

// NewReport encodes what a collector has gathered at a time. Without a part of d for clients without a login they see the whole.
func NewReport(c Collector, gathered time.Time, d Data) *Report {
	r := &Report{Collector: c, Gathered: gathered, Code: d.Code}
	r.Full = encodeReport(c, gathered, d.Full)
	r.Public = r.Full
	if d.Public != nil {
		r.Public = encodeReport(c, gathered, d.Public)
	}
	return r
}

// errorData is the data of a report about performance whose collector has failed.
type errorData struct {
	Error string `json:"error"`
}

// failedStatus is the data of a report about a status whose collector has failed.
type failedStatus struct {
	Status Status `json:"status"`
}

// Failed returns the report of a collector that cannot do its work (mond.md 3). detail is for clients with a login if the
// collector is lockstep's own, since it may have names.
func Failed(c Collector, now time.Time, reason, detail string) *Report {
	text := reason
	if detail != "" {
		text += ": " + detail
	}
	data := func(text string) any {
		if c.Kind == State {
			return failedStatus{Status{Unknown, text}}
		}
		return errorData{text}
	}
	d := Data{Full: data(text), Code: Unknown}
	if c.Own {
		d.Public = data(reason)
	}
	return NewReport(c, now, d)
}

// encodeReport returns the seven keys in Ganeti's order.
func encodeReport(c Collector, gathered time.Time, data any) []byte {
	b := append([]byte(`{"name":`), quoted(c.Name)...)
	b = append(b, `,"version":"B","format_version":1,"timestamp":`...)
	b = strconv.AppendInt(b, gathered.UnixMicro()*1000, 10)
	b = append(b, `,"category":`...)
	if c.Category == "" {
		b = append(b, "null"...)
	} else {
		b = append(b, quoted(c.Category)...)
	}
	b = append(b, `,"kind":`...)
	b = strconv.AppendInt(b, int64(c.Kind), 10)
	b = append(b, `,"data":`...)
	return append(append(b, encode(data)...), '}')
}

// encode returns compact JSON without escapes for HTML. The values of this package can all be encoded.
func encode(value any) []byte {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic(fmt.Errorf("a report cannot be encoded: %w", err))
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

func quoted(text string) []byte { return encode(text) }

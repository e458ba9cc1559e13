package monitor

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"lockstep/cmd/internal/term"
	"lockstep/core/monitor"
)

const codeUnknown = int(monitor.Unknown)

// status is the status of a report as people read it.
type status struct {
	code int
	text string
	// message is what the collector says; empty: nothing is wrong.
	message string
}

// statusOf returns the status of a report. Without one it is "-" with code 0, and the error of the collector as the message if that has
// failed.
func statusOf(r report) status {
	var data struct {
		Status *monitor.Status `json:"status"`
		Error  string          `json:"error"`
	}
	_ = json.Unmarshal(r.Data, &data) // a list has neither
	switch {
	case data.Status != nil:
		message := strings.ReplaceAll(strings.TrimSpace(data.Status.Message), "\n", "; ")
		texts := map[monitor.Code]string{monitor.Fine: "ok", monitor.Repairs: "repairing", monitor.Unknown: "unknown", monitor.NeedsYou: "wrong"}
		if text, known := texts[data.Status.Code]; known {
			return status{int(data.Status.Code), text, message}
		}
		return status{int(data.Status.Code), fmt.Sprintf("code %d", data.Status.Code), message}
	case data.Error != "":
		return status{0, "-", data.Error}
	}
	return status{0, "-", ""}
}

func (s status) paint(p term.Palette) string {
	switch {
	case s.code >= int(monitor.NeedsYou):
		return p.Paint("31", s.text)
	case s.code > 0:
		return p.Paint("33", s.text)
	}
	return s.text
}

// summary returns what is most worth knowing of a report: the message of its status, and values; "-": neither.
func summary(r report, s status) string {
	parts := []string{}
	if s.message != "" {
		parts = append(parts, s.message)
	}
	if values := valuesOf(r); values != "" {
		parts = append(parts, values)
	}
	if len(parts) == 0 {
		return "-"
	}
	return strings.Join(parts, "; ")
}

// valuesOf returns the values of a report in short; "" if its form is not known.
func valuesOf(r report) string {
	switch r.Name {
	case monitor.QueueName:
		return values(r, func(d *monitor.QueueReport) string {
			if d.Jobs == nil {
				return string(d.Role)
			}
			return fmt.Sprintf("%d queued, %d waiting, %d running", d.Jobs.Queued, d.Jobs.Waiting, d.Jobs.Running)
		})
	case monitor.Replication:
		return values(r, func(d *monitor.ReplicationReport) string {
			if d.Role == monitor.Alone {
				return "no cluster"
			}
			leader := ""
			if d.Leader != nil {
				leader = ", leader " + *d.Leader
			}
			return fmt.Sprintf("%s%s, term %d, %d nodes, applied %d of %d", d.Role, leader, d.Term, len(d.Members), d.Applied, d.Committed)
		})
	case monitor.Processes:
		return values(r, func(d *monitor.ProcessReport) string { return fmt.Sprintf("%d job processes", d.Count) })
	case monitor.Lockstepd:
		return values(r, func(d *monitor.DaemonReport) string {
			return fmt.Sprintf("version %s, up %s, %d MiB", d.Version, term.Span(time.Duration(d.Uptime)*time.Second), d.Memory>>20)
		})
	case monitor.ConfigName:
		return values(r, func(d *monitor.ConfigReport) string {
			if d.Serial == nil {
				return ""
			}
			text := fmt.Sprintf("serial %d", *d.Serial)
			if d.Behind > 0 {
				text += fmt.Sprintf(", %d ssconf files behind", d.Behind)
			}
			return text
		})
	}
	return otherValues(r)
}

// otherValues is a text with the values of collectors whose report is a list, or has other types; "" if the report lacks them.
func otherValues(r report) string {
	switch r.Name {
	case monitor.LocksName:
		var d struct {
			Held    *monitor.HeldLocks `json:"held"`
			Pending int                `json:"pending"`
			Holder  any                `json:"holder"`
			Longest float64            `json:"longest_held_seconds"`
		}
		if json.Unmarshal(r.Data, &d) != nil || d.Held == nil {
			return ""
		}
		text := fmt.Sprintf("%d exclusive, %d shared, %d owners wait", d.Held.Exclusive, d.Held.Shared, d.Pending)
		if d.Holder != nil {
			text += fmt.Sprintf(", longest holder %v for %s", d.Holder, term.Span(time.Duration(d.Longest)*time.Second))
		}
		return text
	case monitor.CPULoad:
		var d struct {
			Number int      `json:"cpu_number"`
			Total  *float64 `json:"cpu_total"`
		}
		if json.Unmarshal(r.Data, &d) != nil || d.Total == nil {
			return ""
		}
		return fmt.Sprintf("%.2f of %d processors", *d.Total, d.Number)
	}
	var list []json.RawMessage
	if json.Unmarshal(r.Data, &list) != nil {
		return ""
	}
	return fmt.Sprintf("%d entries", len(list))
}

// values decodes a report of lockstep's own and formats it; "" if it cannot be decoded.
func values[T any](r report, format func(*T) string) string {
	var d T
	if json.Unmarshal(r.Data, &d) != nil {
		return ""
	}
	return format(&d)
}

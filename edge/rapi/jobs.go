package rapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"lockstep/core/wire"
	"lockstep/edge/admission"
)

// waitSeconds is how long a wait for a job lasts, as in Ganeti.
const waitSeconds = 10

// bulkFields are the fields of a job in a list, jobFields those of a single job.
var (
	bulkFields = []string{"id", "ops", "status", "summary", "opstatus", "received_ts", "start_ts", "end_ts"}
	jobFields  = append(bulkFields[:len(bulkFields):len(bulkFields)], "oplog", "opresult")
)

// jobs lists all jobs of the queue: ids and links, or with bulk all fields. The list is converted while it is sent.
func (s *Server) jobs(c *call) (any, error) {
	bulk, err := c.flagArgument("bulk")
	if err != nil {
		return nil, err
	}
	fields := []string{"id"}
	if bulk {
		fields = bulkFields
	}
	rows, err := s.luxiParts(c, Large, "QueryJobs", nil, fields)
	if err != nil {
		return nil, err
	}
	if bulk {
		return streamedJSON(func(w io.Writer) error {
			return writeRows(w, rows, func(row []raw) ([]byte, error) { return c.jobObject(fields, row) })
		}), nil
	}
	return streamedJSON(func(w io.Writer) error {
		return writeRows(w, rows, func(row []raw) ([]byte, error) {
			return fmt.Appendf(nil, `{"id": %s, "uri": "/2/jobs/%s"}`, row[0], row[0]), nil
		})
	}), nil
}

// reader reads the text. A part that has been read is garbage.
func (p parts) reader() io.Reader {
	readers := make([]io.Reader, len(p))
	for i, part := range p {
		readers[i], p[i] = bytes.NewReader(part), nil
	}
	return io.MultiReader(readers...)
}

// rowsAsObjects turns the rows of a query into objects, one at a time.
func rowsAsObjects(rows parts, fields []string) streamedJSON {
	return func(w io.Writer) error {
		return writeRows(w, rows, func(row []raw) ([]byte, error) { return rowObject(fields, row) })
	}
}

// writeRows writes a list with the converted rows, one row after the other.
func writeRows(w io.Writer, rows parts, convert func([]raw) ([]byte, error)) error {
	decoder := json.NewDecoder(rows.reader())
	if _, err := decoder.Token(); err != nil {
		return err
	}
	separator := "["
	for decoder.More() {
		var row []raw
		if err := decoder.Decode(&row); err != nil {
			return err
		}
		element, err := convert(row)
		if err != nil {
			return err
		}
		if _, err := io.WriteString(w, separator); err != nil {
			return err
		}
		if _, err := w.Write(element); err != nil {
			return err
		}
		separator = ", "
	}
	end := "]\n"
	if separator == "[" {
		end = "[]\n"
	}
	_, err := io.WriteString(w, end)
	return err
}

// rowObject returns an object with the values of a row, whose keys are the fields.
func rowObject(fields []string, row []raw) (raw, error) {
	if len(row) != len(fields) {
		return nil, &wire.MalformedResponse{Err: fmt.Errorf("the row has %d values for %d fields", len(row), len(fields))}
	}
	data := []byte{'{'}
	for i, name := range fields {
		if i > 0 {
			data = append(data, ", "...)
		}
		data = strconv.AppendQuote(data, name) // names of fields need no escapes
		data = append(data, ": "...)
		data = append(data, row[i]...)
	}
	return append(data, '}'), nil
}

// job returns one job, archived or not. An unknown job is 404, where Ganeti answers with an
// object full of null (design.md "Differences").
func (s *Server) job(c *call) (any, error) {
	id, err := c.jobID()
	if err != nil {
		return nil, err
	}
	answer, err := s.luxi(c, Page, "QueryJobs", []int64{id}, jobFields)
	return rendered(func() (any, error) { return c.jobOf(id, answer) }), err
}

// jobOf is the job of an answer as an object. An unknown job is code 404.
func (c *call) jobOf(id int64, answer raw) (any, error) {
	var rows [][]raw
	if err := json.Unmarshal(answer, &rows); err != nil || len(rows) != 1 || len(rows[0]) != len(jobFields) {
		return nil, &wire.MalformedResponse{Err: fmt.Errorf("the answer is not one row of %d values: %w", len(jobFields), err)}
	}
	if string(rows[0][2]) == "null" {
		return nil, newFailure(http.StatusNotFound, "Job %d not found in queue, nor in the archive", id)
	}
	return c.jobObject(jobFields, rows[0])
}

// cancel returns the answer of CancelJob, which says whether the job was canceled.
func (s *Server) cancel(c *call) (any, error) {
	id, err := c.jobID()
	if err != nil {
		return nil, err
	}
	return s.luxi(c, Long, "CancelJob", id, false)
}

// wait returns the change when a job differs from what the client knows, or null after waitSeconds or when the daemon stops.
func (s *Server) wait(c *call) (any, error) {
	id, err := c.jobID()
	if err != nil {
		return nil, err
	}
	m, err := parseObject(c.body)
	if err != nil {
		return nil, err
	}
	if m["fields"] == nil {
		return nil, newFailure(http.StatusBadRequest, "Required parameter 'fields' is missing")
	}
	fields, err := parseStrings("fields", m["fields"])
	if err != nil {
		return nil, err
	}
	if err := eachOnce(fields); err != nil {
		return nil, err
	}
	var previous, serial any
	if info := m.nullable("previous_job_info"); info != nil {
		if previous, err = parseList("previous_job_info", info); err != nil {
			return nil, err
		}
	}
	if n := m.nullable("previous_log_serial"); n != nil {
		if serial, err = parseInteger("previous_log_serial", n); err != nil {
			return nil, err
		}
	}
	result, err := s.callUntilStop(c, "WaitForJobChange", id, fields, previous, serial, waitSeconds)
	if err != nil || result == nil {
		return nil, err
	}
	var change []raw
	if string(result) == `"nochange"` {
		return nil, nil
	}
	if err := json.Unmarshal(result, &change); err != nil || len(change) != 2 {
		return nil, &wire.MalformedResponse{Err: fmt.Errorf("a change of a job has %d parts, not two: %w", len(change), err)}
	}
	return map[string]raw{"job_info": change[0], "log_entries": change[1]}, nil
}

// callUntilStop waits for something to happen. The wait ends without a result when the server stops, when the user may no longer make it,
// and when it gives way to that of another client.
func (s *Server) callUntilStop(c *call, method string, args ...any) (raw, error) {
	ctx, stop := s.withStop(c)
	defer stop()
	c.request.Listen()
	result, err := s.config.Luxi.Call(ctx, Wait, method, args...)
	if err != nil && (ctx.Err() != nil || errors.Is(err, admission.ErrBusy)) && c.Context().Err() == nil {
		return nil, nil
	}
	return result, err
}

// why returns the reasons for which a job is not running.
func (s *Server) why(c *call) (any, error) {
	id, err := c.jobID()
	if err != nil {
		return nil, err
	}
	return withTimes(s.luxi(c, Short, "LockstepWhy", id))
}

// hold makes a job begin no opcode until release.
func (s *Server) hold(c *call) (any, error) { return s.orderHold(c, true) }

// release ends the hold of a job.
func (s *Server) release(c *call) (any, error) { return s.orderHold(c, false) }

func (s *Server) orderHold(c *call, hold bool) (any, error) {
	id, err := c.jobID()
	if err != nil {
		return nil, err
	}
	return s.luxi(c, Short, "LockstepHoldJob", id, hold)
}

// reschedule changes when a job that has not started may start.
func (s *Server) reschedule(c *call) (any, error) {
	id, err := c.jobID()
	if err != nil {
		return nil, err
	}
	m, err := parseObject(c.body)
	if err == nil {
		err = m.allowOnly("at")
	}
	if err != nil {
		return nil, err
	}
	if m["at"] == nil {
		return nil, newFailure(http.StatusBadRequest, "The parameter 'at' is missing: a time in RFC 3339, or now")
	}
	var outcomes []raw
	if err := s.luxiInto(c, &outcomes, "LockstepOrderJobs", "reschedule", []int64{id}, m["at"]); err != nil {
		return nil, asClientError(err)
	}
	if len(outcomes) != 1 {
		return nil, &wire.MalformedResponse{Err: fmt.Errorf("an order for one job has %d answers", len(outcomes))}
	}
	return outcomes[0], nil
}

// priority changes the priority of the opcodes of a job that have not begun.
func (s *Server) priority(c *call) (any, error) {
	id, err := c.jobID()
	if err != nil {
		return nil, err
	}
	m, err := parseObject(c.body)
	if err != nil {
		return nil, err
	}
	if err := m.allowOnly("priority"); err != nil {
		return nil, err
	}
	priority, err := parseInteger("priority", m["priority"])
	if err != nil {
		return nil, err
	}
	return s.luxi(c, Short, "ChangeJobPriority", id, priority)
}

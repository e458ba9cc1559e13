package sim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// operator is the client that a directive names; without a name, it is the second client,
// which submits no jobs.
func (s *scenario) operator(t *testing.T, d *datadriven.TestData) *client {
	if !d.HasArg("client") {
		d.CmdArgs = append(d.CmdArgs, datadriven.CmdArg{Key: "client", Vals: []string{"2"}})
	}
	return s.client(t, d)
}

// filter adds, replaces or deletes a rule. Scenarios refer to a rule by a name. The text of
// the directive has the predicates, see parsePredicates.
func (s *scenario) filter(t *testing.T, d *datadriven.TestData) error {
	var name string
	d.ScanArgs(t, "name", &name)
	c := s.operator(t, d)
	if s.rules == nil {
		s.rules = map[string]string{}
	}
	switch {
	case d.HasArg("delete"):
		c.deleteFilter(s.rules[name], func(error) {})
		return nil
	case d.HasArg("replace"), d.HasArg("add"):
	default:
		return fmt.Errorf("want add, replace or delete")
	}
	predicates, err := parsePredicates(d.Input)
	if err != nil {
		return err
	}
	r := rule{uuid: s.rules[name], predicates: predicates}
	d.ScanArgs(t, "action", &r.action)
	d.MaybeScanArgs(t, "n", &r.limit)
	d.MaybeScanArgs(t, "priority", &r.priority)
	c.replaceFilter(r, func(uuid string, err error) {
		if err == nil {
			s.rules[name] = uuid
		}
	})
	return nil
}

// set changes settings whose values are numbers or booleans.
func (s *scenario) set(t *testing.T, d *datadriven.TestData) error {
	values := map[string]any{}
	for _, arg := range d.CmdArgs {
		if arg.Key == "client" {
			continue
		}
		if !json.Valid([]byte(arg.Vals[0])) {
			return fmt.Errorf("%s=%s is no value", arg.Key, arg.Vals[0])
		}
		values[arg.Key] = json.RawMessage(arg.Vals[0])
	}
	s.operator(t, d).set(values, nil)
	return nil
}

// why prints the reasons for which a job waits.
func (s *scenario) why(t *testing.T, d *datadriven.TestData) error {
	c, id := s.operator(t, d), job64(t, d)
	c.why(id, func(status string, reasons json.RawMessage, err error) {
		if err != nil {
			c.tracef("why job %d: is told: %v", id, err)
			return
		}
		s.lines = append(s.lines, fmt.Sprintf("job %d is %s:", id, status))
		var all []map[string]json.RawMessage
		mustDecode(reasons, &all)
		for _, r := range all {
			s.lines = append(s.lines, "    "+reasonText(r))
		}
	})
	s.world.RunReady()
	return nil
}

// reasonText formats a reason: its kind first, then the other fields sorted.
func reasonText(r map[string]json.RawMessage) string {
	var kind string
	mustDecode(r["kind"], &kind)
	delete(r, "kind")
	var b bytes.Buffer
	rest, err := json.Marshal(r)
	if err == nil {
		err = json.Compact(&b, rest)
	}
	if err != nil {
		panic(err)
	}
	return kind + " " + b.String()
}

// priority changes the priority of a job.
func (s *scenario) priority(t *testing.T, d *datadriven.TestData) error {
	var text string
	d.ScanArgs(t, "to", &text)
	to, err := strconv.Atoi(text)
	if err != nil {
		return err
	}
	s.client(t, d).reprioritise(job64(t, d), to, nil)
	return nil
}

// archive moves a job to the archive.
func (s *scenario) archive(t *testing.T, d *datadriven.TestData) error {
	s.client(t, d).archive(job64(t, d), func() {})
	s.world.RunReady()
	return nil
}

// locks prints the content of the lock files.
func (s *scenario) locks(*testing.T, *datadriven.TestData) error {
	snapshot, err := s.world.lockState()
	if err != nil {
		return err
	}
	for _, h := range snapshot.Holdings {
		s.lines = append(s.lines, fmt.Sprintf("%s has %v", h.Owner.IdentityJSON(), h.Locks))
	}
	for _, p := range snapshot.Pending {
		s.lines = append(s.lines, fmt.Sprintf("%s waits for %v", p.Owner.IdentityJSON(), p.Request))
	}
	return nil
}

// parsePredicates reads the predicates of a filter rule, one per line, as JSON or as "opcode
// OP_ID = OP_TEST_DELAY", "jobid id > watermark", "reason reason =~ text".
func parsePredicates(text string) (json.RawMessage, error) {
	all := []json.RawMessage{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			all = append(all, json.RawMessage(line))
			continue
		}
		words := strings.SplitN(line, " ", 4)
		if len(words) != 4 {
			return nil, fmt.Errorf("%q is no predicate: want what it looks at, a field, an operator and a value", line)
		}
		all = append(all, predicate(words[0], words[1], words[2], words[3]))
	}
	return predicateList(all), nil
}

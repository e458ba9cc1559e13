// Package limits decides what a command may use of its node: it reads limits, says whether a node can enforce them, and which settings of
// a control group do that (docs/limits.md). The limits of an opcode are the parameter `limits` of OP_RUN_COMMAND and of declared opcodes.
// A limit is never ignored: a node that cannot enforce one refuses the command. The package is pure, and small, because the job process
// links it.
package limits

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"lockstep/core/rawjson"
)

// Limits of a command. A member that is zero is no limit.
type Limits struct {
	Memory   Size    `json:"memory,omitzero"`     // of all processes together, without swap
	CPUs     float64 `json:"cpus,omitempty"`      // time of so many processors
	Tasks    int64   `json:"tasks,omitempty"`     // processes and threads at a time
	IOWeight int     `json:"io_weight,omitempty"` // share of the disk beside others, 1 to 10000, of which 100 is usual
	Nice     int     `json:"nice,omitempty"`      // 0 to 19
}

// Size is a number of bytes. Its text is repeated as it was given.
type Size struct {
	Bytes int64
	Text  string
}

// MarshalJSON writes the text.
func (s Size) MarshalJSON() ([]byte, error) { return json.Marshal(s.Text) } //nolint:wrapcheck // a string

// UnmarshalJSON reads a number of bytes, or a text with a unit.
func (s *Size) UnmarshalJSON(data []byte) error {
	text := string(data)
	if data[0] == '"' {
		if err := json.Unmarshal(data, &text); err != nil {
			return fmt.Errorf("decode a size: %w", err)
		}
	}
	var err error
	*s, err = ParseSize(text)
	return err
}

// units are those of sizes, as those of settings: k is 1000 and Ki is 1024.
var units = map[string]float64{
	"": 1, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30, "ti": 1 << 40,
}

// MemoryMin is the smallest limit of memory, in bytes. With less no program starts.
const MemoryMin = 1 << 20

// ParseSize reads a limit of memory as a person writes it: "2G", "512MiB" or a number of bytes.
func ParseSize(text string) (Size, error) {
	digits := len(text) - len(strings.TrimLeft(text, "0123456789."))
	factor, known := units[strings.TrimSuffix(strings.ToLower(text[digits:]), "b")]
	number, err := strconv.ParseFloat(text[:digits], 64)
	if err != nil || !known || number*factor < MemoryMin || number*factor >= math.MaxInt64 {
		return Size{}, fmt.Errorf("%q is no size from 1MiB on, like 2G or 512MiB", text)
	}
	return Size{int64(number * factor), text}, nil
}

// Mistake is why a value is no limits: what is wanted of one of its members; "" is the value itself.
type Mistake struct{ Member, Want string }

func (m *Mistake) Error() string { return strings.TrimPrefix(m.Member+": want "+m.Want, ": ") }

// Wanted describes the values of limits.
const Wanted = `null, or an object like {"memory": "2G", "cpus": 1.5, "tasks": 200, "io_weight": 50, "nice": 10}`

// member is a limit by its name.
type member struct {
	name, controller, verb string // the controller of control groups that enforces it; "": none
	want                   string
	into                   func(*Limits) any
	accepts, isSet         func(*Limits) bool
}

var all = []member{
	{"memory", "memory", "memory", `a size from 1MiB on, like "2G" or "512MiB"`, func(l *Limits) any { return &l.Memory },
		func(l *Limits) bool { return l.Memory.Bytes >= MemoryMin }, func(l *Limits) bool { return l.Memory.Bytes > 0 }},
	{"cpus", "cpu", "processor time", "a number of processors from 0.01 to 10000, like 1.5", func(l *Limits) any { return &l.CPUs },
		func(l *Limits) bool { return l.CPUs >= 0.01 && l.CPUs <= 10000 }, func(l *Limits) bool { return l.CPUs > 0 }},
	{"tasks", "pids", "the number of processes", "a number of processes and threads from 1 to 4000000, like 200",
		func(l *Limits) any { return &l.Tasks },
		func(l *Limits) bool { return l.Tasks >= 1 && l.Tasks <= 4_000_000 }, func(l *Limits) bool { return l.Tasks > 0 }},
	{"io_weight", "io", "the share of disks", "a weight from 1 to 10000, like 50 for half of the usual share",
		func(l *Limits) any { return &l.IOWeight },
		func(l *Limits) bool { return l.IOWeight >= 1 && l.IOWeight <= 10000 }, func(l *Limits) bool { return l.IOWeight > 0 }},
	{"nice", "", "", "a number from 0 to 19, like 10", func(l *Limits) any { return &l.Nice },
		func(l *Limits) bool { return l.Nice >= 0 && l.Nice <= 19 }, func(*Limits) bool { return false }},
}

// Parse reads and checks limits. The error is a *Mistake. JSON's null is the zero value.
func Parse(raw json.RawMessage) (Limits, error) {
	var l Limits
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil {
		return Limits{}, &Mistake{Want: Wanted}
	}
	for _, m := range all {
		value, there := members[m.name]
		if !there {
			continue
		}
		if json.Unmarshal(value, m.into(&l)) != nil || string(value) == "null" || !m.accepts(&l) {
			return Limits{}, &Mistake{m.name, m.want}
		}
		delete(members, m.name)
	}
	for name := range members {
		return Limits{}, &Mistake{name, "only memory, cpus, tasks, io_weight and nice here"}
	}
	return l, nil
}

// Check returns what is wanted of a limit by its name if its value is not valid; "": it is.
func Check(name string, value any) (want string) {
	encoded, err := json.Marshal(map[string]any{name: value})
	if err != nil {
		return Wanted
	}
	if _, err := Parse(encoded); err != nil {
		var mistake *Mistake
		errors.As(err, &mistake)
		return mistake.Want
	}
	return ""
}

// Of are the limits in the stored input of an opcode, which were checked at the submission; the zero value without any.
func Of(input json.RawMessage) (Limits, error) {
	if !bytes.Contains(input, []byte(`"limits"`)) {
		return Limits{}, nil
	}
	start, end, isObject := rawjson.MemberRange(input, "limits")
	if !isObject || end == 0 {
		return Limits{}, nil
	}
	return Parse(input[start:end])
}

// NeedsGroup reports whether a limit needs a control group with controllers.
func (l Limits) NeedsGroup() bool { return len(l.Controllers()) > 0 }

// Controllers are the controllers of control groups that the limits need.
func (l Limits) Controllers() (names []string) {
	for _, m := range all {
		if m.isSet(&l) {
			names = append(names, m.controller)
		}
	}
	return names
}

// Node is what a node can enforce.
type Node struct {
	Group       string   // the control group whose controllers commands may use; "": there is none
	Unusable    string   // why it cannot be used; "": it can
	Controllers []string // that it has
}

// Refusal is why the node cannot enforce the limits, with what to do; "": it can.
func (n Node) Refusal(l Limits) string {
	for _, m := range all {
		if !m.isSet(&l) {
			continue
		}
		text := "this node cannot limit " + m.verb + ": "
		switch {
		case n.Group == "":
			return text + "its daemon has no control group for jobs; start lockstepd with --job-cgroup"
		case n.Unusable != "":
			return text + n.Unusable
		case !slices.Contains(n.Controllers, m.controller):
			return fmt.Sprintf("%sno %s controller in %s; %s", text, m.controller, n.Group, n.delegation(m.controller))
		}
	}
	return ""
}

// delegation is what to do so that the group gets a controller. Below the service manager of a user, the unit of that manager decides.
func (n Node) delegation(controller string) string {
	for part := range strings.SplitSeq(n.Group, "/") {
		if strings.HasPrefix(part, "user@") {
			return fmt.Sprintf("add Delegate=%s to [Service] in /etc/systemd/system/user@.service.d/lockstep.conf, as root, and start %s again",
				controller, part)
		}
	}
	return fmt.Sprintf("add Delegate=%s to the unit of that group, and start the unit again", controller)
}

// Setting is a value of a control group. It may have several files, of which the first that the group has takes its value.
type Setting struct {
	Files    [][2]string // file and value
	Optional bool        // without the files the limit holds nevertheless
	Needs    string      // what the node lacks without the files
}

// cpuPeriod is the period of a limit of processor time, in microseconds.
const cpuPeriod = 100_000

// Settings are those of the control group of the command.
func (l Limits) Settings() (settings []Setting) {
	one := func(file, value string) Setting {
		return Setting{Files: [][2]string{{file, value}}, Needs: "a newer kernel"}
	}
	if l.Memory.Bytes > 0 {
		swap := one("memory.swap.max", "0")
		swap.Optional = true // a machine without swap
		settings = append(settings, one("memory.max", strconv.FormatInt(l.Memory.Bytes, 10)), swap, one("memory.oom.group", "1"))
	}
	if l.CPUs > 0 {
		settings = append(settings, one("cpu.max", fmt.Sprintf("%d %d", int64(math.Round(l.CPUs*cpuPeriod)), cpuPeriod)))
	}
	if l.Tasks > 0 {
		settings = append(settings, one("pids.max", strconv.FormatInt(l.Tasks, 10)))
	}
	if l.IOWeight > 0 {
		weight := strconv.Itoa(l.IOWeight)
		settings = append(settings, Setting{Files: [][2]string{{"io.weight", "default " + weight},
			{"io.bfq.weight", strconv.Itoa(min(l.IOWeight, 1000))}},
			Needs: "the scheduler BFQ for the disk, or a kernel with io.cost"})
	}
	return settings
}

// OutOfMemory begins the text of a command that has reached its limit of memory.
const OutOfMemory = "out of memory (limit "

// OutOfMemoryText is that text.
func (l Limits) OutOfMemoryText() string { return OutOfMemory + l.Memory.Text + ")" }

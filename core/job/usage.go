package job

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// Usage is what a command has used of its node. The result of its opcode has it under the key "usage".
type Usage struct {
	CPUSeconds float64 `json:"cpu_seconds"`
	// MemoryPeakBytes is the peak of what MemoryOf names; 0: it is not known.
	MemoryPeakBytes int64    `json:"memory_peak_bytes,omitempty"`
	MemoryOf        MemoryOf `json:"memory_of,omitempty"`
}

// MemoryOf says what a peak of memory is of.
type MemoryOf string

const (
	// MemoryOfGroup: of all processes of the command together, with what the kernel caches of their files.
	MemoryOfGroup MemoryOf = "group"
	// MemoryOfProcess: of the largest process of the command. It is at least the size of the job process from which the command starts.
	MemoryOfProcess MemoryOf = "process"
)

// String is the usage in words: "2.1s of CPU, at most 12 MB of memory".
func (u Usage) String() string {
	text := fmt.Sprintf("%v of CPU", time.Duration(u.CPUSeconds*float64(time.Second)).Round(cpuStep(u.CPUSeconds)))
	switch u.MemoryOf {
	case MemoryOfGroup:
		text += ", at most " + SizeText(u.MemoryPeakBytes) + " of memory"
	case MemoryOfProcess:
		text += ", at most " + SizeText(u.MemoryPeakBytes) + " of memory in one process"
	}
	return text
}

// cpuStep is the precision with which a time is shown.
func cpuStep(seconds float64) time.Duration {
	if seconds < 10 {
		return 10 * time.Millisecond
	}
	return time.Second
}

// SizeText is a number of bytes in the largest unit.
func SizeText(n int64) string {
	size, unit := float64(n), "bytes"
	for _, next := range []string{"kB", "MB", "GB", "TB"} {
		if size < 1000 {
			break
		}
		size, unit = size/1000, next
	}
	if size < 10 && unit != "bytes" {
		return fmt.Sprintf("%.1f %s", size, unit)
	}
	return fmt.Sprintf("%.0f %s", size, unit)
}

// WithDetail adds a key to the result of a command: to the object of a success, or to the second argument of an error. Ganeti's clients
// show the first argument, and ignore keys there. It panics on a value that encoding/json refuses.
func WithDetail(result json.RawMessage, key string, value any) json.RawMessage {
	encoded, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("detail of a result: %v", err))
	}
	end := bytes.LastIndexByte(result, '}')
	return slices.Concat(result[:end:end], fmt.Appendf(nil, ", %q: ", key), encoded, result[end:])
}

// Details is the object of a success, or the second argument of an error; nil: the result has another form.
func Details(result json.RawMessage) json.RawMessage {
	var class string
	var args []json.RawMessage
	switch {
	case json.Unmarshal(result, &[]any{&class, &args}) != nil:
		return result
	case len(args) > 1:
		return args[1]
	}
	return nil
}

// UsageIn is the usage in the result of an opcode; nil: there is none.
func UsageIn(result json.RawMessage) *Usage {
	if !bytes.Contains(result, []byte(`"usage"`)) {
		return nil
	}
	var details struct {
		Usage *Usage `json:"usage"`
	}
	if json.Unmarshal(Details(result), &details) != nil {
		return nil
	}
	return details.Usage
}

package filter

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/access"
	"lockstep/core/job"
)

const benchJobs = 100_000

// benchInput is an opcode as the daemon stores it, of about 560 bytes. It has a separate buffer, as if read from a job
// file.
func benchInput(id int) json.RawMessage {
	kind := [...]string{"OP_INSTANCE_STARTUP", "OP_INSTANCE_REPLACE_DISKS", "OP_INSTANCE_MIGRATE", "OP_CLUSTER_VERIFY"}[id%4]
	return json.RawMessage(fmt.Sprintf(`{"instance_name": "web%d.example.com", "force": false, "ignore_offline_nodes": false, `+
		`"hvparams": {"kernel_path": "/boot/vmlinuz", "acpi": true}, "beparams": {"minmem": 512, "maxmem": 1024}, "no_remember": false, `+
		`"startup_paused": false, "debug_level": 0, "priority": 0, "depends": null, "comment": null, `+
		`"reason": [["gnt:user", "ticket %d: reboot after kernel update", 1795175164723123456], `+
		`["gnt:client:gnt-instance", "startup", 1795175164724123456], `+
		`["gnt:opcode:instance_startup", "job=%d;index=0", 1795175164725123456]], "OP_ID": %q}`, id%1000, id%5000, id, kind))
}

func benchSubjects(n int) []*Subject {
	subjects := make([]*Subject, n)
	for i := range subjects {
		subjects[i] = NewSubject(job.New(job.ID(i), []json.RawMessage{benchInput(i)}, []int{0}, job.Timestamp{Sec: 1}, ""), "", access.Submitter{})
	}
	return subjects
}

// benchRules apply to almost no job, so every job is compared with all of them.
func benchRules(tb testing.TB) *Set {
	var rules []Rule
	for i, predicates := range []string{
		`[["opcode", ["==", "OP_ID", "OP_INSTANCE_CREATE"]]]`,
		`[["opcode", ["&", ["==", "OP_ID", "OP_INSTANCE_MIGRATE"], ["==", "instance_name", "web1.example.com"]]]]`,
		`[["reason", ["=~", "reason", "maintenance pink bunny"]]]`,
		`[["reason", ["=~", "reason", "^rate-limit:[0-9]+:"]], ["jobid", [">", "id", "watermark"]]]`,
		`[["jobid", [">", "id", "watermark"]]]`,
		`[["opcode", ["==", "instance_name", "db1.example.com"]]]`,
		`[["opcode", ["=~", "instance_name", "^db[0-9]+\\."]]]`,
		`[["opcode", [">", "beparams.maxmem", 4096]]]`,
		`[["reason", ["&", ["==", "source", "gnt:user"], ["=~", "reason", "backup.*(disk|tape)"]]]]`,
		`[["opcode", ["|", ["==", "OP_ID", "OP_NODE_EVACUATE"], ["==", "comment", "night"]]]]`,
	} {
		rules = append(rules, Rule{UUID: testUUID, Watermark: benchJobs * 100, Priority: int64(i), Predicates: json.RawMessage(predicates), Action: Action{Verb: Pause}})
	}
	set, err := NewSet(rules)
	require.NoError(tb, err)
	return set
}

func BenchmarkJudge100k(b *testing.B) {
	subjects, set := benchSubjects(benchJobs), benchRules(b)
	b.ReportAllocs()
	for b.Loop() {
		for _, s := range subjects {
			if set.Evaluate(s, nil).Rule >= 0 {
				b.Fatal("no rule applies")
			}
		}
	}
}

// Each rule alone, by its number, shows the cost of kinds of predicates.
func BenchmarkJudgeOneRule100k(b *testing.B) {
	subjects, all := benchSubjects(benchJobs), benchRules(b)
	for i, rule := range all.Rules() {
		set, err := NewSet([]Rule{rule})
		require.NoError(b, err)
		b.Run(fmt.Sprint(i), func(b *testing.B) {
			for b.Loop() {
				for _, s := range subjects {
					set.Evaluate(s, nil)
				}
			}
		})
	}
}

func BenchmarkNewSubject(b *testing.B) {
	j := job.New(7, []json.RawMessage{benchInput(7)}, []int{0}, job.Timestamp{Sec: 1}, "")
	b.ReportAllocs()
	for b.Loop() {
		NewSubject(j, "", access.Submitter{})
	}
}

// The memory of a Subject without the job's own bytes must be small, because there may be a million jobs.
func TestASubjectIsSmall(t *testing.T) {
	const n = 10_000
	jobs := make([]*job.Job, n)
	for i := range jobs {
		jobs[i] = job.New(job.ID(i), []json.RawMessage{benchInput(i)}, []int{0}, job.Timestamp{Sec: 1}, "")
	}
	subjects := make([]*Subject, n)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i, j := range jobs {
		subjects[i] = NewSubject(j, "", access.Submitter{})
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	size := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / n
	runtime.KeepAlive(subjects)
	runtime.KeepAlive(jobs)
	t.Logf("%d bytes per job with one opcode and three reasons", size)
	require.Less(t, size, int64(300))
}

// Patterns are excluded, because package regexp takes its machines from a pool.
func TestEvaluationAllocatesNothing(t *testing.T) {
	var rules []Rule
	for _, rule := range benchRules(t).Rules() {
		if !strings.Contains(string(rule.Predicates), "=~") {
			rules = append(rules, rule)
		}
	}
	require.Greater(t, len(rules), 5)
	subjects, set := benchSubjects(100), newSet(t, rules...)
	require.Zero(t, testing.AllocsPerRun(10, func() {
		for _, s := range subjects {
			set.Evaluate(s, nil)
		}
	}))
}

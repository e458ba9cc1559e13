package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"lockstep/cmd/lockstep/internal/client"
	"lockstep/cmd/lockstep/internal/submit"
)

// demoHalf is the line that the job with progress prints half way.
const demoHalf = "50 % counted"

const demoDirs = 4

// demoJob is one job of the demonstration: a shell script per opcode.
type demoJob struct {
	name    string
	scripts []string
	cwd     string
}

func workload(work string) []demoJob {
	var jobs []demoJob
	for i := range demoDirs {
		dir := fmt.Sprintf("part-%d", i+1)
		jobs = append(jobs, demoJob{"compress " + dir,
			[]string{fmt.Sprintf("tar -czf %[1]s.tar.gz %[1]s && sha256sum %[1]s.tar.gz", dir)}, work})
	}
	return append(jobs,
		demoJob{"release, in 3 steps", []string{
			"tar -cf release.tar part-*[0-9] && echo packed $(tar -tf release.tar | wc -l) entries",
			"sha256sum release.tar > release.sha256 && echo signed",
			"sha256sum -c release.sha256",
		}, work},
		demoJob{"count lines, slowly", []string{
			`for p in 10 20 30 40 50 60 70 80 90 100; do
  cat part-1/* | wc -l > lines; sleep 0.3; echo "$p % counted"
done; echo "$(cat lines) lines"`,
		}, work},
		demoJob{"check a broken archive", []string{"gzip -t broken.gz"}, work},
	)
}

// makeFiles fills a directory tree with text, and returns its size in bytes.
func makeFiles(work string) (int, error) {
	total := 0
	for i := range demoDirs {
		dir := filepath.Join(work, fmt.Sprintf("part-%d", i+1))
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return 0, err
		}
		for n := range 20 {
			content := logText(i*20 + n)
			total += len(content)
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("file-%02d.txt", n)), content, 0o640); err != nil {
				return 0, err
			}
		}
	}
	return total, os.WriteFile(filepath.Join(work, "broken.gz"), []byte("\x1f\x8b\x08\x00cut off"), 0o640)
}

// logText is about 60 kB of text that compresses like a log.
func logText(seed int) []byte {
	var b bytes.Buffer
	state := uint32(seed)*2654435761 + 1
	for range 1000 {
		state = state*1664525 + 1013904223 // a linear congruence is random enough here
		fmt.Fprintf(&b, "node-%02d disk-%d %08x read ok, %d sectors checked\n", state>>28, state>>24&7, state, state>>12&4095)
	}
	return b.Bytes()
}

func submitJobs(ctx context.Context, daemon *client.Session, jobs []demoJob, reasons client.Trails) ([]int64, error) {
	encoded := make([][]json.RawMessage, len(jobs))
	for i, job := range jobs {
		for k, script := range job.scripts {
			trail := reasons.Other
			if k == 0 {
				trail = reasons.First
			}
			op, err := json.Marshal(map[string]any{"OP_ID": "OP_RUN_COMMAND", "argv": []string{"sh", "-c", script},
				"cwd": job.cwd, "comment": job.name, "reason": trail})
			if err != nil {
				return nil, err
			}
			encoded[i] = append(encoded[i], op)
		}
	}
	return submit.All(ctx, daemon, encoded, nil, submit.Awaited{})
}

package paths

import (
	"math"
	"path"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestPaths(t *testing.T) {
	for got, want := range map[string]string{
		JobPath(12):                 "queue/job-12",
		JobPath(0):                  "queue/job-0",
		ArchivePath(12):             "queue/archive/0/job-12",
		ArchivePath(9999):           "queue/archive/0/job-9999",
		ArchivePath(10000):          "queue/archive/1/job-10000",
		ArchivePath(1234567):        "queue/archive/123/job-1234567",
		RecordPath(12):              "queue/lockstep-12",
		ArchivedRecordPath(1234567): "queue/archive/123/lockstep-1234567",
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestNegativeJobIDPanics(t *testing.T) {
	for _, build := range []func(int64) string{JobPath, ArchivePath, RecordPath, ArchivedRecordPath} {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("a negative id does not panic")
				}
			}()
			build(-1)
		}()
	}
}

func TestParseJobName(t *testing.T) {
	for name, want := range map[string]int64{
		"job-0": 0, "job-1": 1, "job-10": 10, "job-9223372036854775807": math.MaxInt64,
	} {
		if id, ok := ParseJobName(name); !ok || id != want {
			t.Errorf("ParseJobName(%q) = %d, %t, want %d", name, id, ok, want)
		}
	}
	for _, name := range []string{
		"", "job", "job-", "job-007", "job-00", "job--1", "job-+1", "job- 1", "job-1 ", "job-1.2", "job-1_0",
		"job-0x1", "job-9223372036854775808", "job-12-77-0123456789abcdef.tmp", "Job-1", "xjob-1", "serial",
	} {
		if id, ok := ParseJobName(name); ok {
			t.Errorf("ParseJobName(%q) = %d, want none", name, id)
		}
	}
}

func TestParseRecordName(t *testing.T) {
	if id, ok := ParseRecordName("lockstep-12"); !ok || id != 12 {
		t.Errorf("got %d, %t", id, ok)
	}
	for _, name := range []string{"lockstep-", "lockstep-012", "job-12", "lockstep-12.1", "lockstep-1-77-0123456789abcdef.tmp"} {
		if id, ok := ParseRecordName(name); ok {
			t.Errorf("ParseRecordName(%q) = %d, want none", name, id)
		}
	}
	if id, ok := ParseJobName("lockstep-12"); ok {
		t.Errorf("a record is taken for job %d", id)
	}
}

func TestJobNamesAreOneToOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.Int64Min(0).Draw(t, "id")
		for _, file := range []string{JobPath(id), ArchivePath(id)} {
			if parsed, ok := ParseJobName(path.Base(file)); !ok || parsed != id {
				t.Fatalf("%s parses as %d, %t", file, parsed, ok)
			}
		}
		name := rapid.StringMatching(`job-[0-9+-]{1,21}`).Draw(t, "name")
		if id, ok := ParseJobName(name); ok && path.Base(JobPath(id)) != name {
			t.Fatalf("%s parses as %d, whose name it is not", name, id)
		}
	})
}

func TestSerial(t *testing.T) {
	for text, want := range map[string]int64{"0\n": 0, "12\n": 12, "12": 12, "12 \t\r\n\n": 12, "9223372036854775807\n": math.MaxInt64} {
		if serial, err := ParseSerial([]byte(text)); err != nil || serial != want {
			t.Errorf("ParseSerial(%q) = %d, %v, want %d", text, serial, err, want)
		}
	}
	for _, text := range []string{"", "\n", "-1\n", "+1\n", " 1\n", "1 2\n", "x", "1\x00", "9223372036854775808\n"} {
		if serial, err := ParseSerial([]byte(text)); err == nil {
			t.Errorf("ParseSerial(%q) = %d, want an error", text, serial)
		}
	}
	if got := string(FormatSerial(12)); got != "12\n" {
		t.Errorf("FormatSerial(12) = %q", got)
	}
}

func TestLivelockNames(t *testing.T) {
	if got := JobLivelockNameStart(12); got != "job_000012" {
		t.Errorf("LivelockName(12) = %s", got)
	}
	if got := JobLivelockNameStart(1234567); got != "job_1234567" {
		t.Errorf("LivelockName(1234567) = %s", got)
	}
	for file, want := range map[string]bool{
		"/run/livelocks/job_000012_1700000000_77_0123abcd": true,
		"/run/livelocks/luxi-daemon_1700000000":            false,
		"/job_1/wconf-daemon_17":                           false,
		"":                                                 false,
	} {
		if got := IsJobLivelock(file); got != want {
			t.Errorf("IsJobLivelock(%q) = %t", file, got)
		}
	}
}

func TestJobOfLivelock(t *testing.T) {
	for file, want := range map[string]int64{
		"/run/livelocks/job_000012_1700000000_77_0123abcd": 12,
		"job_1234567_1700000000":                           1234567,
		"job_000000_1":                                     0,
	} {
		if id, ok := JobIDOfLivelock(file); !ok || id != want {
			t.Errorf("JobOfLivelock(%q) = %d, %t", file, id, ok)
		}
	}
	for _, file := range []string{"", "job_", "job_12_1", "job_000012", "job_-00012_1", "luxi-daemon_1700000000"} {
		if id, ok := JobIDOfLivelock(file); ok {
			t.Errorf("JobOfLivelock(%q) = %d, want none", file, id)
		}
	}
}

// The starts of a job are numbered: a lock file has the number of its start, and the job's file that of a start that was undone.
func TestNumbersOfStarts(t *testing.T) {
	const rest = "_1700000000_77_0123abcd"
	for start := int64(1); start < 4; start++ {
		livelock := "/run/livelocks/" + JobLivelockName(12, start) + rest
		if id, ok := JobIDOfLivelock(livelock); !ok || id != 12 || !IsJobLivelock(livelock) {
			t.Errorf("%s is of job %d, %t", livelock, id, ok)
		}
		if got := StartOfLivelock(livelock); got != start {
			t.Errorf("StartOfLivelock(%s) = %d", livelock, got)
		}
		if got := StartOfLivelock(UndoneLivelock(start)); got != start || IsJobLivelock(UndoneLivelock(start)) {
			t.Errorf("StartOfLivelock(%s) = %d", UndoneLivelock(start), got)
		}
	}
	if JobLivelockName(12, 0) != JobLivelockNameStart(12) || JobLivelockName(12, 1) != JobLivelockNameStart(12) {
		t.Error("the first start has Ganeti's name")
	}
	for file, want := range map[string]int64{
		"":                                   0,
		"/run/livelocks/luxi-daemon_17_7_ab": 0,
		"undone_x":                           0,
		"undone_-3":                          0,
		"/run/livelocks/job_000012_17":       1, // Ganeti's
		"job_000012_x_17_77_ab":              1,
		"job_000012_0_17_77_ab":              1,
	} {
		if got := StartOfLivelock(file); got != want {
			t.Errorf("StartOfLivelock(%q) = %d", file, got)
		}
	}
}

// A name of kept output says the opcode, the try and the stream, and no other name does.
func TestNamesOfKeptOutput(t *testing.T) {
	for _, stream := range []string{"stdout", "stderr"} {
		for _, op := range []int{0, 9, 10, 4711} {
			for _, try := range []int{1, 2, 10} {
				if got, number, of, ok := ParseKeptName(KeptName(op, try, stream)); got != op || number != try || of != stream || !ok {
					t.Errorf("ParseKeptName(%q) = %d, %d, %q, %v", KeptName(op, try, stream), got, number, of, ok)
				}
			}
		}
	}
	for _, name := range []string{"", "stdout", "0", "0.", ".stdout", "00.stdout", "-1.stdout", "0.stdout.tmp", "0.stdin", "0.try1.stdout",
		"0.try02.stdout", "0.try.stdout", "0.try2", "0.try2.stdin", "try2.stdout"} {
		if _, _, _, ok := ParseKeptName(name); ok {
			t.Errorf("%q is no kept output", name)
		}
	}
	if id, ok := ParseKeptDirName(strings.TrimPrefix(KeptDirOf(12), KeptDir+"/")); id != 12 || !ok {
		t.Errorf("%s is job %d, %v", KeptDirOf(12), id, ok)
	}
}

package monitor

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func recorded(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	return text
}

var stamp = regexp.MustCompile(`"timestamp":[0-9]+`)

// sameReport compares a report byte for byte with a recorded one, but for the time.
func sameReport(t *testing.T, file string, r *Report) {
	t.Helper()
	want := strings.TrimSpace(string(recorded(t, file)))
	require.Equal(t, stamp.ReplaceAllString(want, "T"), stamp.ReplaceAllString(string(r.Full), "T"))
	require.Equal(t, r.Full, r.Public, "all clients see the collectors of Ganeti")
}

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func collector(t testing.TB, name string) Collector {
	t.Helper()
	i := slices.IndexFunc(collectors, func(c Collector) bool { return c.Name == name })
	require.GreaterOrEqual(t, i, 0, name)
	return collectors[i]
}

func TestDRBDReportIsGanetis(t *testing.T) {
	f := &Facts{Minors: map[int64]string{0: "instance1.example.com"}}
	d, err := DRBDData(recorded(t, "proc_drbd-8.4-sync.txt"), f)
	require.NoError(t, err)
	require.Equal(t, NeedsYou, d.Code)
	sameReport(t, "report-drbd-8.4-sync.json", NewReport(collector(t, DRBD), noon, d))
}

func TestDRBDReportOfVersion83IsGanetis(t *testing.T) {
	// The source of the recorded report, put together again from its values.
	var report struct {
		Data struct{ DeviceInfos []json.RawMessage }
	}
	require.NoError(t, json.Unmarshal(recorded(t, "report-drbd-8.3.json"), &report))
	text := "version: 8.3.1 (api:88/proto:86-89)\nGIT-hash: fd40f4a8f9104941537d1afc8521e584a6d3003c build by phil@fat-tyre, 2009-03-27 12:19:49\n\n"
	for _, raw := range report.Data.DeviceInfos {
		var head struct {
			Minor           int64
			ConnectionState string
		}
		require.NoError(t, json.Unmarshal(raw, &head))
		d := drbdDevice{Minor: head.Minor, Connection: head.ConnectionState}
		if d.Connection != unconfigured {
			d.drbdDetails = &drbdDetails{}
			require.NoError(t, json.Unmarshal(raw, d.drbdDetails))
		}
		text += deviceText(d)
	}
	f := &Facts{Minors: map[int64]string{0: "instance1.example.com"}}
	d, err := DRBDData([]byte(text), f)
	require.NoError(t, err)
	sameReport(t, "report-drbd-8.3.json", NewReport(collector(t, DRBD), noon, d))
}

func TestDRBDProgress(t *testing.T) {
	d, err := DRBDData([]byte("version: 8.3.11 (api:88/proto:86-96)\nsrcversion: ABC\n 1: cs:SyncTarget ro:Secondary/Primary ds:Inconsistent/UpToDate C r-----\n"+
		"    ns:0 nr:1 dw:2 dr:3 al:4 bm:5 lo:6 pe:7 ua:8 ap:9\n\t[>....................] sync'ed:  0.3% (102080/102400)M\n\tfinish: 12:11:10 speed: 1,200 (1,300) want: 5,000 K/sec\n\tresync: used:0/61\n"), nil)
	require.NoError(t, err)
	r := string(NewReport(collector(t, DRBD), noon, d).Full)
	require.Contains(t, r, `"versionInfo":{"version":"8.3.11","api":"88","proto":"86-96","srcversion":"ABC"}`)
	require.Contains(t, r, `"applicationPending":9},"syncStatus":{"percentage":0.3,"progress":"102080/102400","progressUnit":"MegaByte","timeToFinish":"12:11:10","speed":1200,"want":5000,"speedUnit":"KiloByte/Second"},"instance":null}`)
	require.Equal(t, Fine, d.Code)
}

func TestDRBDFailures(t *testing.T) {
	for text, want := range map[string]string{
		"version: 9.1.7 (api:2/proto:110-121)\n": "DRBD 9 is not supported",
		"":                                       "/proc/drbd names no version",
		"version: 8.4.2\n 0: cs:Connected ro:x\n":   "line 2: a device with 3 fields",
		"version: 8.4.2\n 0: nonsense\n":            "line 2: the device has no connection state",
		"version:\n":                                "line 1: the version is missing",
		"version: 8\n 99999999999999999999: cs:x\n": "line 2: minor",
	} {
		_, err := DRBDData([]byte(text), nil)
		require.ErrorContains(t, err, want)
	}
}

func TestLVReportIsGanetis(t *testing.T) {
	f := &Facts{Volumes: map[string]string{
		"xenvg/df9ff3f6-a833-48ff-8bd5-bff2eaeab759.disk0_data": "instance1.example.com",
		"xenvg/df9ff3f6-a833-48ff-8bd5-bff2eaeab759.disk0_meta": "instance1.example.com"}}
	d, err := LVData(recorded(t, "lvs-output.txt"), f)
	require.NoError(t, err)
	sameReport(t, "report-lv.json", NewReport(collector(t, LV), noon, d))
	_, err = LVData([]byte("a;b\n"), f)
	require.ErrorContains(t, err, "2 columns instead of 20")
	d, err = LVData(nil, nil)
	require.NoError(t, err)
	require.Contains(t, string(NewReport(collector(t, LV), noon, d).Full), `"data":[]}`)
}

func TestDiskStatsHaveAnyNumberOfColumns(t *testing.T) {
	c := collector(t, DiskStats)
	d, err := DiskStatsData(recorded(t, "proc_diskstats-14.txt"))
	require.NoError(t, err)
	r := NewReport(c, noon, d)
	const first = `{"major":7,"minor":0,"name":"loop0","readsNum":0,"mergedReads":0,"secRead":0,"timeRead":0,"writes":0,"mergedWrites":0,"secWritten":0,"timeWrite":0,"ios":0,"timeIO":0,"wIOmillis":0}`
	require.Contains(t, string(r.Full), `"category":"storage","kind":0,"data":[`+first)
	require.Contains(t, string(recorded(t, "http.txt")), first)
	line := " 259 1 nvme0n1 1 2 3 4 5 6 7 8 9 10 11"
	for _, more := range []string{"", " 12 13 14 15", " 12 13 14 15 16 17", strings.Repeat(" 9", 40)} {
		d, err := DiskStatsData([]byte(line + more + "\n"))
		require.NoError(t, err)
		require.Equal(t, []diskStat{{259, 1, "nvme0n1", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}}, d.Full)
	}
	d, err = DiskStatsData([]byte("8 1 sda1 1 2 3 4\n"))
	require.NoError(t, err)
	require.Equal(t, []diskStat{{Major: 8, Minor: 1, Name: "sda1", Reads: 1, MergedReads: 2, SectorsRead: 3, TimeRead: 4}}, d.Full)
	for _, bad := range []string{"8 1\n", "a 1 sda\n", "8 1 sda -1\n"} {
		_, err := DiskStatsData([]byte(bad))
		require.ErrorContains(t, err, "/proc/diskstats, line 1")
	}
}

func TestCPULoad(t *testing.T) {
	var c CPU
	_, err := c.Data()
	require.EqualError(t, err, "Time covered by data is not sufficient. The window considered is 600")
	// Guests are a part of user: they are not counted twice.
	require.NoError(t, c.Add(noon, []byte("cpu  100 0 0 1000 50 0 0 0 90 0\ncpu0 100 0 0 1000 50 0 0 0 90 0\nintr 1\n")))
	_, err = c.Data()
	require.Error(t, err)
	require.NoError(t, c.Add(noon.Add(10*time.Second), []byte("cpu  600 0 0 1200 350 0 0 0 590 0\ncpu0 600 0 0 1200 350 0 0 0 590 0\ncpu1 7 7 7 7\n")))
	d, err := c.Data()
	require.NoError(t, err)
	require.Equal(t, `{"cpu_number":1,"cpus":[0.8],"cpu_total":0.8}`, string(encode(d.Full)))
	// After the window only newer readings count.
	for i := range 130 {
		require.NoError(t, c.Add(noon.Add(time.Duration(10+5*(i+1))*time.Second), []byte("cpu  600 0 0 1200 350 0 0 0\ncpu0 600 0 0 1200 350 0 0 0\n")))
	}
	d, err = c.Data()
	require.NoError(t, err)
	require.Zero(t, d.Full.(cpuReport).Total)
	require.LessOrEqual(t, len(c.samples), 121)
	// The clock is set back, and counters fall.
	require.NoError(t, c.Add(noon, []byte("cpu 9 9 9 9\n")))
	require.NoError(t, c.Add(noon.Add(time.Second), []byte("cpu 8 8 8 8\n")))
	d, err = c.Data()
	require.NoError(t, err)
	require.Zero(t, d.Full.(cpuReport).Total)
	for _, bad := range []string{"", "cpu0 1 2 3 4\n", "cpu 1 2 3\n", "cpu a b c d\n"} {
		require.Error(t, c.Add(noon.Add(time.Hour), []byte(bad)))
	}
}

func TestXen(t *testing.T) {
	list := "Name                ID   Mem VCPUs\tState\tTime(s)\nDomain-0             0  1024     2     r-----     100.5\nup1   3 512 1 -b---- 7.0\ndown1 4 512 1 ------ 7.0\nhung1 5 512 1 ?----- 1.0\n"
	f := &Facts{Xen: true, Instances: []Instance{{"absent", "u4", "up", 1}, {"down1", "u2", "down", 2}, {"gone", "u5", "down", 1}, {"hung1", "u3", "up", 1}, {"off", "u6", "offline", 1}, {"up1", "u1", "up", 1.5}}}
	d, err := XenData(XenReading{List: []byte(list), Uptimes: []byte("Name ID Uptime\nup1 3 1 day, 2:03:04\n"), Reasons: map[string][]byte{"up1": []byte(`[["user","boot",5]]`), "gone": []byte("{")}}, f)
	require.NoError(t, err)
	require.Equal(t, NeedsYou, d.Code)
	report := d.Full.(xenReport)
	require.Equal(t, "absent: The instance is not running: its state is shutdown\ndown1: The instance is running, and should be stopped\nhung1: The instance is hung\noff: The instance is marked as offline", report.Status.Message)
	var codes []Code
	for _, i := range report.Instances {
		codes = append(codes, i.Status.Code)
	}
	require.Equal(t, []Code{4, 4, 0, 2, 2, 0}, codes)
	require.Equal(t, `{"name":"up1","uuid":"u1","admin_state":"up","actual_state":"blocked","uptime":"1 day, 2:03:04","mtime":1.5,"state_reason":[["user","boot",5]],"status":{"code":0,"message":""}}`,
		string(encode(report.Instances[5])))
	_, err = XenData(XenReading{List: []byte("Name\nx 1 2\n")}, f)
	require.ErrorContains(t, err, "line 2")
	d, err = XenData(XenReading{}, nil)
	require.NoError(t, err)
	require.Equal(t, Unknown, d.Code)
}

func TestXenCPULoad(t *testing.T) {
	var c XenCPU
	require.Equal(t, `{}`, string(encode(c.Data().Full)))
	head := "      NAME  STATE   CPU(sec) CPU(%)     MEM(k) MEM(%)  MAXMEM(k) MAXMEM(%) VCPUS\n"
	require.NoError(t, c.Add(noon, []byte(head+"  Domain-0 -----r        100    0.0     1 2.0   no limit       n/a     2\n")))
	require.NoError(t, c.Add(noon.Add(50*time.Second), []byte(head+"  Domain-0 -----r        150    0.0\n")))
	require.Equal(t, `{}`, string(encode(c.Data().Full)), "less than 100 s")
	require.NoError(t, c.Add(noon.Add(100*time.Second), []byte(head+"  Domain-0 -----r        150    0.0\n new --b--- 3 0.0\n")))
	require.Equal(t, `{"Domain-0":0.5}`, string(encode(c.Data().Full)))
	require.Error(t, c.Add(noon.Add(200*time.Second), []byte(" a b c\n")))
}

func TestFailuresAreData(t *testing.T) {
	r := Failed(collector(t, DRBD), noon, "drbd does not answer", "")
	require.Equal(t, `{"name":"drbd","version":"B","format_version":1,"timestamp":1795348800000000000,"category":"storage","kind":1,"data":{"status":{"code":2,"message":"drbd does not answer"}}}`, string(r.Full))
	r = Failed(collector(t, CPULoad), noon, "unreadable", "x")
	require.Equal(t, `{"name":"cpu-avg-load","version":"B","format_version":1,"timestamp":1795348800000000000,"category":null,"kind":0,"data":{"error":"unreadable: x"}}`, string(r.Full))
	require.Equal(t, Unknown, r.Code)
	own := Failed(collector(t, Processes), noon, "unreadable", "/proc/12/stat")
	require.Contains(t, string(own.Full), "/proc/12/stat")
	require.NotContains(t, string(own.Public), "/proc/12/stat")
}

// deviceText is a device as /proc/drbd shows it.
func deviceText(d drbdDevice) string {
	if d.drbdDetails == nil {
		return " " + number(d.Minor) + ": cs:" + d.Connection + "\n"
	}
	i := d.Indicators
	return " " + number(d.Minor) + ": cs:" + d.Connection + " ro:" + d.LocalRole + "/" + d.RemoteRole + " ds:" + d.LocalState + "/" + d.RemoteState + " " + d.Protocol + " " + d.Flags + "\n" +
		"    ns:" + number(i.NetworkSend) + " nr:" + number(i.NetworkReceive) + " dw:" + number(i.DiskWrite) + " dr:" + number(i.DiskRead) + " al:" + number(i.ActivityLog) + " bm:" + number(i.BitMap) +
		" lo:" + number(i.LocalCount) + " pe:" + number(i.Pending) + " ua:" + number(i.Unacknowledged) + " ap:" + number(i.ApplicationPending) + " ep:" + number(*i.Epochs) + " wo:" + i.WriteOrder + " oos:" + number(*i.OutOfSync) + "\n"
}

func number(n int64) string { return string(encode(n)) }

func FuzzTexts(f *testing.F) {
	for _, name := range []string{"proc_drbd-8.4-sync.txt", "lvs-output.txt", "proc_diskstats-14.txt"} {
		f.Add(recorded(f, name))
	}
	f.Add([]byte("cpu 1 2 3 4\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		facts := &Facts{}
		for _, read := range []func() (Data, error){
			func() (Data, error) { return DRBDData(text, facts) },
			func() (Data, error) { return LVData(text, facts) },
			func() (Data, error) { return DiskStatsData(text) },
			func() (Data, error) { return XenData(XenReading{List: text, Uptimes: text}, facts) },
		} {
			if d, err := read(); err == nil {
				require.True(t, json.Valid(encode(d.Full)))
			}
		}
		_ = (&CPU{}).Add(noon, text)
		_ = (&XenCPU{}).Add(noon, text)
	})
}

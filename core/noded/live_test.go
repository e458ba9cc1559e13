package noded

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// The requests are those of Ganeti's daemons, as recorded, but for the spaces of the transcript.
func TestLiveRequestsAreGanetis(t *testing.T) {
	fake := []Hypervisor{{"fake", json.RawMessage(`{"migration_mode":"live"}`)}}
	files := StorageUnit{Type: TypeFile, Key: "/srv/ganeti/file-storage"}
	for body, r := range map[string]Request{
		`[[["file","/srv/ganeti/file-storage",[]]],[["fake",{"migration_mode":"live"}]]]`: AskNodeInfo([]StorageUnit{files}, fake),
		`[[],[]]`: AskNodeInfo(nil, nil),
		`[[["lvm-vg","xenvg",[false]],["lvm-pv","xenvg",[true]]],[]]`: AskNodeInfo([]StorageUnit{
			{Type: TypeVolumeGroup, Key: "xenvg"}, {Type: TypePhysicalVolumes, Key: "xenvg", Exclusive: true}}, nil),
		`[["fake"],{"fake":{"migration_mode":"live"}}]`: AskInstances(fake),
		`{"a":{"instance":{"name":"a"},"node":{},"group":{},"hvParams":{"x":1},"beParams":{}},"b":{"instance":{},"node":{},"group":{},"hvParams":{},"beParams":{}}}`: AskConsoles([]ConsoleQuestion{
			{"a", []byte(`{"name":"a"}`), []byte(`{}`), []byte(`{}`), []byte(`{"x":1}`), []byte(`{}`)},
			{"b", []byte(`{}`), []byte(`{}`), []byte(`{}`), []byte(`{}`), []byte(`{}`)}}),
		`{}`: AskExports(),
	} {
		require.Equal(t, body, string(r.Body))
		require.True(t, json.Valid(r.Body))
	}
}

func TestLiveResults(t *testing.T) {
	n := func(i int64) *int64 { return &i }
	value, err := DecodeResult(NodeInfo, []byte(`["2f6cd6ec", [{"type": "file", "name": "/srv", "storage_size": 258019, "storage_free": null}, null],
		[{"memory_total": 24105, "memory_dom0": 1766, "memory_free": 22023, "cpu_total": 2, "cpu_dom0": 1, "cpu_nodes": 1, "cpu_sockets": 1}]]`))
	require.NoError(t, err)
	require.Equal(t, NodeFacts{BootID: "2f6cd6ec", Storage: []StorageFacts{{Type: "file", Size: n(258019)}, {}},
		Hypervisors: []HypervisorFacts{{n(24105), n(22023), n(1766), n(2), n(1), n(1), n(1)}}}, value)
	value, err = DecodeResult(AllInstancesInfo, []byte(`{"a": {"memory": 64, "vcpus": 1, "state": 0, "time": 0.5}, "b": {"memory": 1, "vcpus": 2, "state": 1, "time": 0}}`))
	require.NoError(t, err)
	require.Equal(t, map[string]InstanceFacts{"a": {64, 1, InstanceRunning}, "b": {1, 2, InstanceShutDown}}, value)
	value, err = DecodeResult(ConsoleInfo, []byte(`{"a": {"kind": "msg"}}`))
	require.NoError(t, err)
	require.Equal(t, map[string]json.RawMessage{"a": json.RawMessage(`{"kind": "msg"}`)}, value)
	value, err = DecodeResult(ExportList, []byte(`["a", "b"]`))
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b"}, value)
	value, err = DecodeResult(ExportList, []byte(`[]`))
	require.NoError(t, err)
	require.Equal(t, []string{}, value)
	_, err = DecodeResult(UploadFile, []byte(`null`))
	require.EqualError(t, err, "upload_file_single tells nothing of a node")
}

// A result of another form is an error, never a panic.
func TestBadLiveResults(t *testing.T) {
	for p, results := range map[Procedure][]string{
		NodeInfo:         {`null`, `[]`, `["b", []]`, `["b", {}, []]`, `["b", [], [5]]`, `[1, [], []]`, `["b", [], [{"memory_total": "x"}]]`, `["b", [], [{"memory_total": 1e30}]]`},
		AllInstancesInfo: {`null`, `[]`, `{"a": 5}`, `{"a": null}`, `{"a": {"memory": 1, "vcpus": 1}}`, `{"a": {"memory": 1, "vcpus": 1, "state": 7}}`, "{\"\xff\": {}}"},
		ConsoleInfo:      {`null`, `[]`, `{"a": 5}`},
		ExportList:       {`null`, `{}`, `[5]`, "[\"\xff\"]"},
	} {
		for _, result := range results {
			_, err := DecodeResult(p, []byte(result))
			require.ErrorContains(t, err, string(p), result)
		}
	}
}

package history_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lockstep/core/config/configtest"
	"lockstep/core/config/history"
	"lockstep/core/config/model"
	"lockstep/core/config/redact"
	"lockstep/core/config/reserve"
	"lockstep/core/lock"
)

var byJob = history.Origin{Client: history.Client{Job: 12, PID: 7}, Method: "updateInstance"}

func entryOf(old *model.Config, now model.Time, change func(e *model.Edit)) (*model.Config, history.Entry) {
	next, touched := configtest.Change(old, now, change)
	return next, history.NewEntry(old, next, touched, byJob, redact.New())
}

// Changed values have their path, secrets are redacted, and serial number and mtime of an object are not listed.
func TestEntry(t *testing.T) {
	c := configtest.Config()
	_, e := entryOf(c, 1700000005.25, func(e *model.Edit) {
		configtest.Put(e, model.Instances, configtest.Inst1, func(i *model.Instance) {
			i.Serial++
			i.MTime = 9
			i.HVParams = model.Params{{Key: "acpi", Value: model.JSON("true")}, {Key: "boot", Value: model.JSON(`"n"`)}}
			i.OSParamsPrivate = model.Dict[string]{{Key: "more", Value: "new-secret"}, {Key: "root_password", Value: "other-secret"}}
			i.Tags = []string{"a"}
			i.NICs = slices.Clone(i.NICs)
			i.NICs[1].IP = model.Opt[string]{}
		})
		configtest.Put(e, model.Disks, configtest.DRBDDisk, func(d *model.Disk) { d.LogicalID.Value.Secret = "other-secret" })
		configtest.Put(e, model.Nodes, configtest.Node1, func(n *model.Node) { n.Serial++ })
		configtest.Cluster(e, func(c *model.Cluster) { c.MACPrefix = "aa:00:01" })
		model.Networks.Delete(e, "e0000000-0000-4000-8000-000000000001")
		model.Instances.Put(e, "new", model.Instance{Forthcoming: true})
	})
	line := string(e.Line())
	require.NotContains(t, line, "secret")
	require.True(t, strings.HasSuffix(line, "}\n"))
	require.JSONEq(t, fmt.Sprintf(`{"serial_no":%d,"before":%d,"time":1700000005.25,"client":{"job":12,"pid":7},"method":"updateInstance","objects":[
		{"kind":"instances","uuid":"c0000000-0000-4000-8000-000000000001","name":"inst1.gold.example","operation":"changed","paths":[
			{"path":"hvparams/acpi","old":false,"new":true},
			{"path":"hvparams/boot","new":"n"},
			{"path":"osparams_private/root_password","old":"<redacted>","new":"<redacted>"},
			{"path":"osparams_private/more","new":"<redacted>"},
			{"path":"nics/1/ip","old":"10.9.9.9"},
			{"path":"tags","old":[],"new":["a"]}]},
		{"kind":"disks","uuid":"d0000000-0000-4000-8000-000000000001","operation":"changed","paths":[
			{"path":"logical_id","old":["a0000000-0000-4000-8000-000000000001","a0000000-0000-4000-8000-000000000002",11001,0,0,"<redacted>"],
			"new":["a0000000-0000-4000-8000-000000000001","a0000000-0000-4000-8000-000000000002",11001,0,0,"<redacted>"]}]},
		{"kind":"nodes","uuid":"a0000000-0000-4000-8000-000000000001","name":"node1.gold.example","operation":"changed","paths":[{"path":"serial_no","old":1,"new":2}]},
		{"kind":"cluster","name":"gold.example","operation":"changed","paths":[{"path":"mac_prefix","old":"aa:00:00","new":"aa:00:01"}]},
		{"kind":"networks","uuid":"e0000000-0000-4000-8000-000000000001","name":"net1","operation":"removed"},
		{"kind":"instances","uuid":"new","operation":"added"}]}`, c.Serial+1, c.Serial), line)
}

// An entry of any change is bounded. What is left out is counted.
func TestBounds(t *testing.T) {
	long := strings.Repeat("ä\"", 500)
	c := configtest.Config()
	_, e := entryOf(c, 5, func(e *model.Edit) {
		configtest.Put(e, model.Instances, configtest.Inst1, func(i *model.Instance) {
			i.OSParams = model.Dict[string]{{Key: long, Value: long}}
		})
		configtest.Put(e, model.Groups, configtest.Group, func(g *model.NodeGroup) {
			params := model.Params{}
			for i := range 1000 {
				params = append(params, model.DictEntry[model.JSON]{Key: fmt.Sprintf("%04d%s", i, long), Value: model.AppendText(nil, long)})
			}
			g.DiskParams = model.Dict[model.Params]{{Key: "ext", Value: params}, {Key: "plain", Value: params}}
		})
		for i := range 1000 {
			model.Instances.Put(e, fmt.Sprintf("%s%d", long, i), model.Instance{Name: model.Some(long)})
		}
	})
	require.Less(t, len(e.Line()), 512<<10)
	require.Len(t, e.Objects, 200)
	require.Equal(t, 802, e.MoreObjects)
	require.Zero(t, e.MorePaths, "two containers are new: two paths")

	value := e.Objects[0].Paths[0]
	require.Equal(t, "osparams/mirror", value.Path)
	cut := e.Objects[0].Paths[1]
	require.True(t, strings.HasSuffix(cut.Path, "…"))
	require.Equal(t, len(model.AppendText(nil, long)), cut.NewLength)
	var start string
	require.NoError(t, json.Unmarshal(cut.New, &start))
	require.True(t, strings.HasPrefix(string(model.AppendText(nil, long)), start), start)

	params := model.Params{}
	for i := range 1000 {
		params = append(params, model.DictEntry[model.JSON]{Key: fmt.Sprintf("p%04d", i), Value: model.JSON("1")})
	}
	_, e = entryOf(c, 5, func(e *model.Edit) {
		configtest.Put(e, model.Instances, configtest.Inst1, func(i *model.Instance) { i.HVParams = params })
	})
	require.Len(t, e.Objects[0].Paths, 100)
	require.Equal(t, 901, e.MorePaths)
}

// A whole write has the difference by object: that of the objects that Touched finds.
func TestWholeWrite(t *testing.T) {
	c := configtest.Config()
	changed := strings.NewReplacer(`"admin_state": "down"`, `"admin_state": "up"`, `"cluster_name": "gold.example"`, `"cluster_name": "b"`).
		Replace(string(configtest.JSON))
	replacement, err := model.Decode([]byte(changed))
	require.NoError(t, err)
	e := c.Edit()
	e.ReplaceAll(replacement)
	next, touched := e.Commit(7)
	require.ElementsMatch(t, touched, history.Touched(c, next))
	require.Len(t, touched, 2)
	entry := history.NewEntry(c, next, touched, history.Origin{Method: "writeConfig"}, redact.New())
	require.Equal(t, []string{"cluster: cluster_name", "instances: admin_state"}, paths(entry))
	require.Empty(t, history.Touched(c, c))
}

func paths(e history.Entry) []string {
	var all []string
	for _, o := range e.Objects {
		for _, p := range o.Paths {
			all = append(all, o.Kind+": "+p.Path)
		}
	}
	return all
}

// Property: Touched finds the objects that an edit reports, and the entry of the change has exactly those.
func TestTouched(t *testing.T) {
	start := configtest.Config()
	rapid.Check(t, func(t *rapid.T) {
		old, new := change(t, start), start
		if rapid.Bool().Draw(t, "further") {
			new = change(t, old)
		}
		e := old.Edit()
		e.ReplaceAll(new)
		next, touched := e.Commit(5)
		require.ElementsMatch(t, touched, history.Touched(old, next))
		entry := history.NewEntry(old, next, touched, byJob, redact.New())
		var back history.Entry
		require.NoError(t, json.Unmarshal(entry.Line(), &back))
		require.Equal(t, string(entry.Line()), string(back.Line()))
		require.Len(t, entry.Objects, len(touched))
		for i, o := range entry.Objects {
			require.Equal(t, touched[i], model.Touched{Kind: o.Kind, UUID: o.UUID})
			require.Equal(t, o.Operation == history.Changed, len(o.Paths) > 0)
		}
	})
}

func change(t *rapid.T, c *model.Config) *model.Config {
	next, _ := configtest.Change(c, 5, func(e *model.Edit) {
		for range rapid.IntRange(0, 4).Draw(t, "changes") {
			uuid := rapid.SampledFrom([]string{configtest.Inst1, configtest.Inst2, "x", "y"}).Draw(t, "uuid")
			switch rapid.IntRange(0, 2).Draw(t, "what") {
			case 0:
				model.Instances.Delete(e, uuid)
			case 1:
				tags := maps.Keys(rapid.MapOf(rapid.SampledFrom([]string{"a", "b"}), rapid.Just(0)).Draw(t, "tags"))
				model.Instances.Put(e, uuid, model.Instance{Forthcoming: true, Tags: slices.Sorted(tags)})
			default:
				configtest.Cluster(e, func(v *model.Cluster) { v.PortPool = append(v.PortPool[:1:1], rapid.Int64().Draw(t, "port")) })
			}
		}
	})
	return next
}

func TestClients(t *testing.T) {
	root := 0
	require.Equal(t, history.Client{Job: 5, PID: 7}, history.ClientOf(lock.JobOwner(5, "/l", 7), reserve.Caller{PID: 8, Program: "x"}))
	require.Equal(t, history.Client{Name: "gnt-cluster", PID: 7}, history.ClientOf(lock.NamedOwner("gnt-cluster", "/l", 7), reserve.Caller{}))
	require.Equal(t, history.Client{Job: 6, PID: 9}, history.ClientOf(lock.Owner{}, reserve.Caller{Known: true, Owner: lock.JobOwner(6, "/l", 9)}))
	require.Equal(t, history.Client{Name: "python3", PID: 8, UID: &root}, history.ClientOf(lock.Owner{}, reserve.Caller{PID: 8, Program: "python3"}))
	require.Equal(t, history.Client{Unknown: true}, history.ClientOf(lock.Owner{}, reserve.Caller{}))
}

// disk has the files of a history.
type disk struct{ older, current []byte }

func (d *disk) write(l *history.Log, e history.Entry) {
	a := l.Append(e)
	if a.Rotate {
		d.older, d.current = d.current, nil
	}
	d.current = append(d.current, a.Line...)
}

func numbered(serial int, size int) history.Entry {
	return history.Entry{Serial: int64(serial), Time: float64(serial) / 3, Method: strings.Repeat("m", size), Objects: []history.Difference{}}
}

func serials(entries []history.Entry) []int64 {
	all := []int64{}
	for _, e := range entries {
		all = append(all, e.Serial)
	}
	return all
}

// The files keep the newest entries, at least half of what the bound admits.
func TestRotation(t *testing.T) {
	d := &disk{}
	l := history.Open(nil, nil)
	const size = 400 << 10
	const count = 100
	for i := range count {
		d.write(l, numbered(i, size))
		require.LessOrEqual(t, len(d.older)+len(d.current), history.MaxSize)
	}
	entries, damaged := history.Read(d.older, d.current)
	require.Zero(t, damaged)
	require.Greater(t, len(entries), history.MaxSize/2/(size+1000))
	for i, e := range entries {
		require.Equal(t, int64(count-len(entries)+i), e.Serial)
	}
}

// A rotation that fails is tried again with the next entry.
func TestFailedRotation(t *testing.T) {
	l := history.Open(nil, make([]byte, history.MaxSize/2))
	require.True(t, l.Append(numbered(1, 1)).Rotate)
	l.NotRotated()
	require.True(t, l.Append(numbered(2, 1)).Rotate)
	require.False(t, l.Append(numbered(3, 1)).Rotate)
}

// Property: with crashes that tear the last line and repeat changes, each entry is in the history once.
func TestCrashes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, l := &disk{}, history.Open(nil, nil)
		next, kept := 0, []int64{}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0: // a crash in the middle of the line of the change next, which the journal has
				line := numbered(next, 10).Line()
				if cut := rapid.IntRange(0, len(line)-2).Draw(t, "cut"); cut > 0 {
					d.current = append(d.current, append(slices.Clone([]byte("\n")), line[:cut]...)...)
				}
				l = history.Open(d.older, d.current)
				for i := max(0, next-3); i <= next; i++ { // the journal is applied again
					d.write(l, numbered(i, 10))
				}
				kept = append(kept, int64(next))
				next++
			case 1: // the store repeats its last write
				if next > 0 {
					d.current = append(d.current, append([]byte("\n"), numbered(next-1, 10).Line()...)...)
				}
			case 2: // a part is written, and the error is reported
				a := l.Append(numbered(next, 10))
				d.current = append(d.current, a.Line[:rapid.IntRange(0, len(a.Line)-1).Draw(t, "part")]...)
				l.Failed(numbered(next, 10))
				fallthrough
			default:
				d.write(l, numbered(next, 10))
				kept = append(kept, int64(next))
				next++
			}
		}
		entries, _ := history.Read(d.older, d.current)
		require.Equal(t, kept, serials(entries))
	})
}

// A serial number that writeConfig has set back belongs to two changes.
func TestRepeatedSerial(t *testing.T) {
	d, l := &disk{}, history.Open(nil, nil)
	first, second := numbered(5, 1), numbered(5, 1)
	second.Time++
	d.write(l, first)
	d.write(l, second)
	d.write(l, second)
	entries, _ := history.Read(d.older, d.current)
	require.Equal(t, []int64{5, 5}, serials(entries))
}

func TestSelect(t *testing.T) {
	var entries []history.Entry
	for i := range 10 {
		entries = append(entries, numbered(i, 1))
	}
	entries[3].Objects = []history.Difference{{Kind: "nodes", UUID: "u3", Name: "node3.example"}}
	entries[4].Objects = []history.Difference{{Kind: "instances", UUID: "u4", Name: "node3"}, {Kind: "disks", UUID: "u3"}}
	for _, test := range []struct {
		q    history.Query
		want []int64
	}{
		{history.Query{Limit: 2}, []int64{8, 9}},
		{history.Query{Since: 8. / 3}, []int64{8, 9}},
		{history.Query{From: 2, To: 3}, []int64{2, 3}},
		{history.Query{Object: "node3"}, []int64{3, 4}},
		{history.Query{Object: "nodes/node3"}, []int64{3}},
		{history.Query{Object: "node3.example"}, []int64{3}},
		{history.Query{Object: "u3"}, []int64{3, 4}},
		{history.Query{Object: "disks"}, []int64{4}},
		{history.Query{Object: "node"}, []int64{}},
		{history.Query{Object: "u3", Limit: 1}, []int64{4}},
	} {
		require.Equal(t, test.want, serials(history.Select(entries, test.q)), "%+v", test.q)
	}
}

// Property: no secret of either version occurs in an entry.
func TestNoSecretInAnEntry(t *testing.T) {
	start := configtest.Config()
	rapid.Check(t, func(t *rapid.T) {
		old := withSecrets(t, start, "old-secret")
		new := withSecrets(t, old, "new-secret")
		for _, e := range []history.Entry{
			history.NewEntry(start, old, history.Touched(start, old), byJob, redact.New("password")),
			history.NewEntry(old, new, history.Touched(old, new), byJob, redact.New("password")),
			history.NewEntry(new, start, history.Touched(new, start), byJob, redact.New("password")),
		} {
			require.NotContains(t, string(e.Line()), "secret-")
			for _, secret := range configtest.Secrets {
				require.NotContains(t, string(e.Line()), secret)
			}
		}
	})
}

func withSecrets(t *rapid.T, c *model.Config, prefix string) *model.Config {
	secret := func() string { return fmt.Sprintf("%s-%d", prefix, rapid.IntRange(0, 1000).Draw(t, "secret")) }
	some := func() bool { return rapid.Bool().Draw(t, "some") }
	private := func() (d model.Dict[string]) {
		if some() {
			d = append(d, model.DictEntry[string]{Key: "a", Value: secret()})
		}
		if some() {
			d = append(d, model.DictEntry[string]{Key: "b", Value: secret() + strings.Repeat("x", 400)})
		}
		return d
	}
	disk := func(d *model.Disk) {
		d.LogicalID = model.Some(model.LogicalID{Type: "plain", A: "vg", B: "lv"})
		if some() {
			d.LogicalID = model.Some(model.LogicalID{Type: "drbd", A: strings.Repeat("n", 400), Secret: secret()})
		}
		d.Params = model.Opt[model.Params]{}
		if some() {
			d.Params = model.Some(model.Params{{Key: "password", Value: model.AppendText(nil, secret())}})
		}
	}
	next, _ := configtest.Change(c, 5, func(e *model.Edit) {
		configtest.Put(e, model.Instances, configtest.Inst1, func(i *model.Instance) { i.OSParamsPrivate = private() })
		configtest.Cluster(e, func(c *model.Cluster) {
			if c.OSParamsPrivate = nil; some() {
				c.OSParamsPrivate = model.Dict[model.Dict[string]]{{Key: "os", Value: private()}}
			}
		})
		configtest.Put(e, model.Disks, configtest.DRBDDisk, func(d *model.Disk) {
			disk(d)
			d.Children = make([]model.Disk, rapid.IntRange(0, 2).Draw(t, "children"))
			for i := range d.Children {
				disk(&d.Children[i])
				d.Children[i].Mode = "rw"
			}
		})
	})
	return next
}

// The cost of an entry depends on the size of the changed object, not on the number of objects.
func BenchmarkNewEntry(b *testing.B) {
	for _, instances := range []int{10, 10000} {
		e := configtest.Config().Edit()
		for i := range instances {
			model.Instances.Put(e, fmt.Sprint(i), model.Instance{Name: model.Some(fmt.Sprint("i", i))})
		}
		old, _ := e.Commit(1)
		next, touched := configtest.Change(old, 2, func(e *model.Edit) {
			configtest.Put(e, model.Instances, configtest.Inst1, func(i *model.Instance) { i.Tags = []string{"x"} })
		})
		rules, l := redact.New(), history.Open(nil, nil)
		b.Run(fmt.Sprintf("instances=%d", instances), func(b *testing.B) {
			for i := range b.N {
				entry := history.NewEntry(old, next, touched, byJob, rules)
				entry.Serial += int64(i)
				l.Append(entry)
			}
		})
	}
}

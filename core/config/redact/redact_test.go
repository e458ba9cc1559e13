package redact_test

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
	"lockstep/core/config/model"
	"lockstep/core/config/redact"
)

func TestExample(t *testing.T) {
	c := configtest.Config()
	redacted := redact.New().Config(c)
	for _, secret := range configtest.Secrets {
		require.Contains(t, string(c.JSON()), secret)
		require.NotContains(t, string(redacted.JSON()), secret)
	}
	require.Contains(t, string(redacted.JSON()), `"osparams_private":{"root_password":"<redacted>"}`)
	require.Contains(t, string(redacted.JSON()), `11001,0,0,"<redacted>"]`)
	require.Equal(t, c.Serial, redacted.Serial)
	unchanged, _ := redacted.Instances.Get(configtest.Inst2)
	before, _ := c.Instances.Get(configtest.Inst2)
	require.Same(t, before, unchanged)
	require.False(t, redacted.HasSecret(configtest.Secrets[2]), "the index has no secrets")
}

// A value at or below a secret is redacted for any path.
func TestValue(t *testing.T) {
	rules := redact.New("password")
	for _, test := range []struct{ kind, path, value, want string }{
		{"instances", "osparams_private", `{"a":"s","b":"s"}`, `{"a":"<redacted>","b":"<redacted>"}`},
		{"instances", "osparams_private/a", `"s"`, `"<redacted>"`},
		{"instances", "osparams", `{"a":"s","password":"s"}`, `{"a":"s","password":"<redacted>"}`},
		{"instances", "hvparams/password", `{"any":1}`, `"<redacted>"`},
		{"instances", "hvparams/password/any", `1`, `"<redacted>"`},
		{"instances", "name", `"password"`, `"password"`},
		{"cluster", "osparams_private_cluster", `{"os":{"a":"s"}}`, `{"os":{"a":"<redacted>"}}`},
		{"cluster", "os_hvp/os/kvm", `{"password":"s"}`, `{"password":"<redacted>"}`},
		{"disks", "logical_id", `["a","b",1,2,3,"s"]`, `["a","b",1,2,3,"<redacted>"]`},
		{"disks", "logical_id", `["vg","lv"]`, `["vg","lv"]`},
		{"disks", "children/0/children", `[{"logical_id":["a","b",1,2,3,"s"]}]`, `[{"logical_id":["a","b",1,2,3,"<redacted>"]}]`},
		{"disks", "children/0/logical_id/5", `"s"`, `"<redacted>"`},
		{"disks", "children/0/params/password", `"s"`, `"<redacted>"`},
		{"nodes", "name", `"s"`, `"s"`},
	} {
		require.Equal(t, test.want, string(rules.Value(test.kind, strings.Split(test.path, "/"), []byte(test.value))), "%s/%s", test.kind, test.path)
	}
}

// generator draws configurations. Each secret that it draws is unique.
type generator struct {
	*rapid.T
	secrets []string
}

func (g *generator) secret() string {
	s := fmt.Sprintf("S%d-%s", len(g.secrets), rapid.StringMatching(`[a-z0-9"\\ ä]{8}`).Draw(g.T, "secret"))
	g.secrets = append(g.secrets, s)
	return s
}

func (g *generator) texts(value func() string) model.Dict[string] {
	keys := rapid.MapOf(rapid.SampledFrom([]string{"a", "ä", "password", "*", "a/b", `q"`}), rapid.Just(0)).Draw(g.T, "keys")
	var d model.Dict[string]
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		d = append(d, model.DictEntry[string]{Key: key, Value: value()})
	}
	return d
}

// open is a value without secrets.
func (g *generator) open() string {
	return rapid.SampledFrom([]string{"", "open", redact.Marker, `{"logical_id":[1]}`}).Draw(g.T, "open")
}

// params draws parameters, in which the value of password is secret.
func (g *generator) params() model.Params {
	var d model.Params
	for _, e := range g.texts(g.open) {
		if e.Key == "password" {
			e.Value = g.secret()
		}
		value := model.AppendText(nil, e.Value)
		if rapid.Bool().Draw(g.T, "nested") {
			value = append(append([]byte(`{"password":[`), value...), "]}"...)
		}
		if e.Key != "password" && string(value[:1]) == "{" {
			value = []byte(`{"password":["open"]}`) // a name is declared for the parameter itself
		}
		d = append(d, model.DictEntry[model.JSON]{Key: e.Key, Value: model.JSON(value)})
	}
	return d
}

func (g *generator) disk(depth int) model.Disk {
	d := model.Disk{Mode: "rw", Stamp: model.Stamp{UUID: "d"}, Size: model.Some(int64(1)), Params: model.Some(g.params())}
	d.LogicalID = model.Some(model.LogicalID{Type: "plain", A: g.open(), B: g.open()})
	if rapid.Bool().Draw(g.T, "drbd") {
		d.LogicalID = model.Some(model.LogicalID{Type: "drbd", A: g.open(), B: g.open(), Port: 5, Secret: g.secret()})
	}
	for depth < 3 && rapid.IntRange(0, 2).Draw(g.T, "child") == 0 {
		d.Children = append(d.Children, g.disk(depth+1))
	}
	return d
}

func (g *generator) config() *model.Config {
	e := configtest.Config().Edit()
	for _, uuid := range []string{configtest.Inst1, configtest.Inst2} {
		configtest.Put(e, model.Instances, uuid, func(i *model.Instance) {
			i.OSParamsPrivate, i.OSParams, i.HVParams = g.texts(g.secret), nil, g.params()
		})
	}
	configtest.Cluster(e, func(c *model.Cluster) {
		c.OSParamsPrivate = model.Dict[model.Dict[string]]{{Key: "os", Value: g.texts(g.secret)}}
		c.OSHVP = model.Dict[model.Dict[model.Params]]{{Key: "os", Value: model.Dict[model.Params]{{Key: "kvm", Value: g.params()}}}}
	})
	configtest.Put(e, model.Groups, configtest.Group, func(n *model.NodeGroup) {
		n.DiskParams = model.Dict[model.Params]{{Key: "ext", Value: g.params()}}
	})
	for _, uuid := range []string{configtest.DRBDDisk, "new"} {
		model.Disks.Put(e, uuid, g.disk(0))
	}
	return e.Config()
}

// Property: no secret occurs in the redacted configuration, and nothing else changes.
func TestNoSecretRemains(t *testing.T) {
	rules := redact.New("password")
	rapid.Check(t, func(t *rapid.T) {
		g := &generator{T: t}
		c := g.config()
		redacted := rules.Config(c)
		require.Equal(t, string(redacted.JSON()), string(rules.Config(redacted).JSON()))
		for _, secret := range g.secrets {
			quoted := model.AppendText(nil, secret)
			require.Contains(t, string(c.JSON()), string(quoted[1:len(quoted)-1]))
			require.NotContains(t, string(redacted.JSON()), string(quoted[1:len(quoted)-1]))
		}
		// With the secrets in place of the markers the configuration is the old one.
		var before, after any
		require.NoError(t, json.Unmarshal(c.JSON(), &before))
		require.NoError(t, json.Unmarshal(redacted.JSON(), &after))
		require.Equal(t, len(g.secrets), compare(t, g.secrets, before, after))
	})
}

// compare returns the number of redacted secrets. It fails at any other difference.
func compare(t *rapid.T, secrets []string, before, after any) (n int) {
	switch old := before.(type) {
	case map[string]any:
		now, is := after.(map[string]any)
		if !is {
			return replaced(t, secrets, before, after)
		}
		require.ElementsMatch(t, slices.Collect(maps.Keys(old)), slices.Collect(maps.Keys(now)))
		for key := range old {
			n += compare(t, secrets, old[key], now[key])
		}
	case []any:
		now := after.([]any)
		require.Len(t, now, len(old))
		for i := range old {
			n += compare(t, secrets, old[i], now[i])
		}
	default:
		if before != after {
			return replaced(t, secrets, before, after)
		}
	}
	return n
}

// replaced checks that a value with a secret was replaced by the marker.
func replaced(t *rapid.T, secrets []string, before, after any) int {
	require.Equal(t, redact.Marker, after)
	raw, err := json.Marshal(before)
	require.NoError(t, err)
	n := 0
	for _, secret := range secrets {
		quoted, err := json.Marshal(secret)
		require.NoError(t, err)
		n += strings.Count(string(raw), string(quoted))
	}
	require.Equal(t, 1, n, "%s", raw)
	return n
}

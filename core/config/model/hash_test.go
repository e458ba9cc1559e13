package model

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// forthcoming returns an object with few fields.
func forthcoming[T any](t require.TestingT, k *Kind[T], key string) T {
	o, err := k.Decode(fmt.Appendf(nil, `{"forthcoming":true,"uuid":%q,"serial_no":1}`, key))
	require.NoError(t, err)
	return o.Value
}

// randomEdit changes, adds or deletes one object.
func randomEdit(t *rapid.T, e *Edit) {
	key := rapid.SampledFrom([]string{"u1", "u2", "u3"}).Draw(t, "key")
	name := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "name")
	switch rapid.IntRange(0, 5).Draw(t, "edit") {
	case 0:
		c := e.Config().Cluster.Value
		c.Name = name
		e.SetCluster(c)
	case 1:
		v := forthcoming(t, Disks, key)
		v.Name = Some(name)
		Disks.Put(e, key, v)
	case 2:
		v := forthcoming(t, Instances, key)
		v.Name = Some(name)
		Instances.Put(e, key, v)
	case 3:
		Disks.Delete(e, key)
	case 4:
		Instances.Delete(e, key)
	case 5:
		e.BumpSerial()
	}
}

// Equal content has the equal hash, whatever edits led to it. Different content has different hashes.
func TestHash(t *testing.T) {
	base, err := Decode(recorded(t, "_base", "config"))
	require.NoError(t, err)
	rapid.Check(t, func(t *rapid.T) {
		c, seen := base, map[Hash]string{base.Hash(): string(base.JSON())}
		for range rapid.IntRange(1, 20).Draw(t, "changes") {
			e := c.Edit()
			for range rapid.IntRange(0, 3).Draw(t, "edits") {
				randomEdit(t, e)
			}
			next, touched := e.Commit(Time(rapid.IntRange(1, 2).Draw(t, "now")))
			patched, _, err := c.ApplyDelta(next.Delta(touched))
			require.NoError(t, err)
			decoded, err := Decode(next.JSON())
			require.NoError(t, err)
			whole := base.Edit()
			whole.ReplaceAll(next)
			require.Equal(t, next.Hash(), patched.Hash())
			require.Equal(t, next.Hash(), decoded.Hash())
			require.Equal(t, next.objects, whole.Config().objects)
			if content, known := seen[next.Hash()]; known {
				require.Equal(t, content, string(next.JSON()))
			}
			seen[next.Hash()] = string(next.JSON())
			c = next
		}
		contents := map[string]bool{}
		for _, content := range seen {
			require.False(t, contents[content], "one content has two hashes")
			contents[content] = true
		}
	})
}

func TestHashAsText(t *testing.T) {
	base, err := Decode(recorded(t, "_base", "config"))
	require.NoError(t, err)
	digits, err := base.Hash().MarshalText()
	require.NoError(t, err)
	require.Equal(t, base.Hash().String(), string(digits))
	var back Hash
	require.NoError(t, back.UnmarshalText(digits))
	require.Equal(t, base.Hash(), back)
	require.ErrorContains(t, back.UnmarshalText([]byte("00")), "a hash of 1 bytes in place of 32")
	require.Error(t, back.UnmarshalText([]byte("xy")))
}

// withInstances returns a configuration with many instances.
func withInstances(t testing.TB, count int) *Config {
	base, err := Decode(recorded(t, "_base", "config"))
	require.NoError(t, err)
	e := base.Edit()
	for i := range count {
		key := fmt.Sprintf("c1000000-0000-4000-8000-%012d", i)
		Instances.Put(e, key, forthcoming(t, Instances, key))
	}
	c, _ := e.Commit(1)
	return c
}

// The cost of a change with its hash does not depend on the number of objects.
func BenchmarkHashOfAChange(b *testing.B) {
	for _, count := range []int{10, 10_000} {
		b.Run(fmt.Sprintf("instances=%d", count), func(b *testing.B) {
			c := withInstances(b, count)
			key := "c1000000-0000-4000-8000-000000000003"
			for i := 0; b.Loop(); i++ {
				e := c.Edit()
				o, _ := c.Instances.Get(key)
				v := o.Value
				v.Serial++
				Instances.Put(e, key, v)
				c, _ = e.Commit(Time(i))
				if c.Hash() == (Hash{}) {
					b.Fatal("no hash")
				}
			}
		})
	}
}

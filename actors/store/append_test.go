package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/messages"
)

func TestADurableAppendIsSynced(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		b.request(1, &messages.AppendFile{Op: "test", Path: "config.journal", Content: []byte("a"), Durable: true})
		require.Empty(t, failed(b.expectResult(1)))
		b.request(2, &messages.AppendFile{Op: "test", Path: "config.journal", Content: []byte("b")})
		require.Empty(t, failed(b.expectResult(2)))
		require.Equal(t, "ab", b.disk.Content("config.journal"))
		require.Equal(t, []string{"append-durable test config.journal", "append test config.journal"}, b.disk.Calls("append"))
	})
}

func TestAFileIsIdentified(t *testing.T) {
	onBench(t, map[string]string{"config.data": "a"}, func(t *testing.T, b *bench) {
		identify := func(number uint64) *messages.IdentifyFileResult {
			b.request(number, &messages.IdentifyFile{Op: "test", Path: "config.data"})
			return b.expectResult(number).GetIdentify()
		}
		first := identify(1)
		require.Equal(t, first.Identity, identify(2).Identity)
		b.request(3, write(true, "config.data", "a"))
		require.Empty(t, failed(b.expectResult(3)))
		require.NotEqual(t, first.Identity, identify(4).Identity)
		b.request(5, &messages.RemoveFiles{Op: "test", Paths: []string{"config.data"}})
		require.Empty(t, failed(b.expectResult(5)))
		require.True(t, identify(6).Missing)
		b.disk.Fail("identify", 1)
		require.NotNil(t, identify(7).Failure)
	})
}

package locks_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/paths"
)

// longName makes locks.data and the journal large with few locks and changes.
var longName = strings.Repeat("b", 1000)

// toggle makes an owner change its locks so many times. 2001 changes make the journal longer than
// the length from which it is folded.
func (c *caller) toggle(times int) {
	for n := range times {
		if n%2 == 0 {
			c.update("node/" + longName + ":exclusive")
		} else {
			c.free()
		}
	}
}

// A long journal is folded into locks.data, even if there are always changes to write.
func TestALongJournalIsFolded(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		holder, busy, last := b.caller(job(1)), b.caller(job(2)), b.caller(job(3))
		holder.takeLocks("node/a:exclusive")
		write := b.disk.Block("append locks")
		busy.update("node/c:exclusive")
		write.Entered()
		busy.toggle(2001)
		b.Settle()
		long := b.disk.Block("append locks")
		write.Release()
		long.Entered()
		last.update("node/d:exclusive")
		b.Settle()
		before := len(b.disk.Calls(""))
		folding := b.disk.Block("replace locks " + paths.LocksPath)
		long.Release()
		folding.Entered()
		last.Quiet() // its change waits for the fold
		folding.Release()
		b.Settle()
		require.Equal(t, "[]", last.expectValue())
		require.Equal(t, []string{"append locks locks.journal", "replace locks locks.data", "replace locks locks.journal",
			"append locks locks.journal"}, b.disk.Calls("")[before:])
		require.Equal(t, 2, countLines(b.disk.Content(paths.LocksJournalPath)))
		require.Contains(t, b.disk.Content(paths.LocksPath), job(1))
		require.NotContains(t, b.disk.Content(paths.LocksPath), job(3))
		require.Equal(t, b.status(), b.onDisk())
	})
}

// After a crash between the two writes of a fold, the journal repeats what locks.data has.
func TestACrashInTheMiddleOfAFold(t *testing.T) {
	for _, failing := range []string{paths.LocksPath, paths.LocksJournalPath} {
		onBench(t, nil, func(t *testing.T, b *bench) {
			holder, busy := b.caller(job(1)), b.caller(job(2))
			holder.takeLocks("node/a:exclusive")
			write := b.disk.Block("append locks")
			busy.toggle(2001)
			write.Entered()
			b.Settle()
			b.disk.Fail("replace locks "+failing, 1)
			write.Release()
			b.Settle()
			require.Len(t, busy.Unread(), 2001)
			before := b.onDisk()
			b.crash()
			require.Equal(t, before, b.status())
			require.Equal(t, before, b.onDisk())
		})
	}
}

// The journal may be twice as long as locks.data.
func TestTheJournalOfManyLocksIsNotFoldedSoon(t *testing.T) {
	var all []string
	for n := range 1500 {
		all = append(all, fmt.Sprintf(`["node/%s%d","shared"]`, longName, n))
	}
	data := `[[[` + job(1) + `,[` + strings.Join(all, ",") + `]]],[]]`
	onBench(t, files(data), func(t *testing.T, b *bench) {
		folds := func(toggles int) int {
			c := b.caller(job(2))
			c.toggle(toggles)
			b.Settle()
			require.Len(t, c.Unread(), toggles)
			return len(b.disk.Calls("replace locks "+paths.LocksPath)) - 1 // without the one at the start
		}
		require.Equal(t, 0, folds(2001))
		require.Greater(t, len(b.disk.Content(paths.LocksJournalPath)), 1<<20, "a journal of few locks is folded at this length")
		require.Equal(t, 1, folds(5000))
		require.Equal(t, b.status(), b.onDisk())
	})
}

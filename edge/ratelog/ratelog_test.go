package ratelog_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"
	logrustest "github.com/sirupsen/logrus/hooks/test"
	"github.com/stretchr/testify/require"

	"lockstep/edge/ratelog"
)

// Of 1,000 events in ten seconds the log has eleven lines, which count them all; the first one comes at once.
func TestOneLineASecondCountsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to, lines := logrustest.NewNullLogger()
		l := ratelog.New(to, logrus.WarnLevel, "login failed", "failed", "refused")
		l.Record("failed", logrus.Fields{"user": "first"})
		require.Equal(t, logrus.Fields{"user": "first", "failed": 1, "refused": 0}, lines.LastEntry().Data)
		var at sync.WaitGroup
		for range 9 {
			at.Go(func() {
				for range 111 {
					time.Sleep(90 * time.Millisecond)
					l.Record("refused", logrus.Fields{"user": "later"})
				}
			})
		}
		at.Wait()
		time.Sleep(time.Second)
		failed, refused := 0, 0
		for _, e := range lines.AllEntries() {
			failed, refused = failed+e.Data["failed"].(int), refused+e.Data["refused"].(int)
		}
		require.Equal(t, []int{1, 999}, []int{failed, refused})
		require.Len(t, lines.AllEntries(), 11)
		require.Equal(t, "later", lines.LastEntry().Data["user"])
		time.Sleep(time.Minute)
		require.Len(t, lines.AllEntries(), 11, "no events, no lines")
	})
}

func TestALevelThatIsOffCountsNothing(t *testing.T) {
	to, lines := logrustest.NewNullLogger()
	ratelog.New(to, logrus.DebugLevel, "x", "count").Record("count", nil)
	require.Empty(t, lines.AllEntries())
}

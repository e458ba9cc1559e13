package rapi

import (
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/audit"
)

func TestAuditQuery(t *testing.T) {
	after := uint64(0)
	for arguments, want := range map[string]audit.Query{
		"":                           {},
		"user=alice&limit=5":         {User: "alice", Limit: 5},
		"before=9":                   {Before: 9},
		"after=0":                    {After: &after},
		"since=2026-01-01T00:00:00Z": {Since: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)},
	} {
		values, err := url.ParseQuery(arguments)
		require.NoError(t, err)
		q, err := AuditQuery(values)
		require.NoError(t, err, arguments)
		require.Equal(t, want, q, arguments)
	}
	for _, arguments := range []string{"limit=1001", "before=-1", "after=x", "before=1&after=2", "since=yesterday"} {
		values, err := url.ParseQuery(arguments)
		require.NoError(t, err)
		_, err = AuditQuery(values)
		require.Error(t, err, arguments)
	}
}

package noded

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// The request is that of Ganeti's daemon, as recorded.
func TestMasterIPIsGanetis(t *testing.T) {
	ip := MasterIP{Node: "b7a3", Address: "198.51.100.10", Netmask: 32, Device: "gntbr0", Family: 2}
	require.Equal(t, ActivateMasterIP, ip.Request().Procedure)
	require.Equal(t, `[{"uuid":"b7a3","ip":"198.51.100.10","netmask":32,"netdev":"gntbr0","ip_family":2},false]`, string(ip.Request().Body))
}

func TestVotes(t *testing.T) {
	var v Votes
	v.Count("n1", "n1", nil)
	v.Count("n1", "n2", nil)
	v.Count("n1", "", errors.New("no answer"))
	require.Equal(t, Votes{Nodes: 3, Favor: 1, Unknown: 1}, v)
	require.False(t, v.Won())
	require.NoError(t, v.Lost("n1"))
	v.Count("n1", "n2", nil)
	require.EqualError(t, v.Lost("n1"), "Voting cannot be won by n1: 1 of 4 nodes name it as the master, and 1 do not answer")
	require.True(t, Votes{Nodes: 1, Favor: 1}.Won())
	require.False(t, Votes{Nodes: 2, Favor: 1}.Won(), "half is not enough")
}

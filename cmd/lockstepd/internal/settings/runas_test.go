package settings

import (
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/runas"
)

func TestAsWhomCommandsRun(t *testing.T) {
	type given struct {
		value  string
		uid    int
		ganeti bool
		group  string
	}
	for g, want := range map[given]RunAs{
		{}:                                       {Policy: runas.Policy{}},
		{group: "lockstep"}:                      {Policy: runas.Policy{}},
		{value: "submitter"}:                     {Policy: runas.Policy{}},
		{value: "daemon"}:                        {Policy: runas.Policy{AsDaemon: true}, MembersAreRoot: true},
		{ganeti: true}:                           {Policy: runas.Policy{AsDaemon: true}},
		{ganeti: true, value: "daemon"}:          {Policy: runas.Policy{AsDaemon: true}},
		{uid: 1000}:                              {Policy: runas.Policy{DaemonUID: 1000, AsDaemon: true}},
		{uid: 1000, group: "x", value: "daemon"}: {Policy: runas.Policy{DaemonUID: 1000, AsDaemon: true}},
		{uid: 1000, ganeti: true, group: ""}:     {Policy: runas.Policy{DaemonUID: 1000, AsDaemon: true}},
		{uid: 1000, value: "daemon", ganeti: true}: {Policy: runas.Policy{DaemonUID: 1000, AsDaemon: true}},
	} {
		r := RunAs{value: g.value}
		require.NoError(t, r.apply(g.uid, g.ganeti, g.group), "%+v", g)
		want.value = g.value
		require.Equal(t, want, r, "%+v", g)
		require.Equal(t, want.Policy == runas.Policy{}, r.OpensRunDir())
	}
	for g, want := range map[given]string{
		{value: "root"}:                    `run-as: "root" is neither submitter nor daemon`,
		{value: "submitter", uid: 1000}:    "run-as: only root's daemon can run commands as their submitter, and this daemon has the uid 1000",
		{value: "submitter", ganeti: true}: "run-as: it cannot be submitter with ganeti",
		{uid: 1000, group: "x"}: "socket-group: this daemon, which is not root's, would run the commands of the group's members as itself, " +
			"uid 1000: allow that with run-as daemon",
	} {
		r := RunAs{value: g.value}
		require.ErrorContains(t, r.apply(g.uid, g.ganeti, g.group), want)
	}
}

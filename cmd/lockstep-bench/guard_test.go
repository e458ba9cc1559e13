package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheGuard(t *testing.T) {
	rows := makeRows(quickSizes, map[string][]sample{
		"Job": samplesOf(6, 60, 6), "BareJob": samplesOf(4, 4, 4),
		"Jobs/slots=20": samplesOf(200), "BareLoop/workers=20": samplesOf(250), "BareLoop/workers=1": samplesOf(100),
		"SubmitGain/clients=64": samplesOf(4),
	})
	for name, c := range map[string]struct {
		floor floor
		bad   string
	}{
		"as fast as it was, but for one round": {floor: floor{name: "Job", limit: "BareJob", ratio: 2}},
		"slower than it may be":                {floor{name: "Job", limit: "BareJob", ratio: 1.4, reason: "people wait for it"}, "Job: ratio 1.50, at most 1.40 is wanted: people wait for it"},
		"as many as there should be":           {floor: floor{name: "Jobs/slots=20", limit: "BareLoop/workers=20", ratio: 0.5}},
		"fewer than there should be":           {floor{name: "Jobs/slots=20", limit: "BareLoop/workers=20", ratio: 0.9, reason: "r"}, "Jobs/slots=20: ratio 0.80, at least 0.90 is wanted: r"},
		"one of two limits":                    {floor: floor{name: "Jobs/slots=20", limit: "BareLoop/workers=1", ratio: 1.9}},
		"a gain":                               {floor: floor{name: "SubmitGain/clients=64", ratio: 4}},
		"too small a gain":                     {floor{name: "SubmitGain/clients=64", ratio: 5, reason: "r"}, "ratio 4.00, at least 5.00 is wanted"},
		"not measurable here":                  {floor: floor{name: "JobInGroup", limit: "JobInNoGroup", ratio: 1}},
		"missing":                              {floor{name: "Death", limit: "BareDeath", ratio: 5}, "Death was not measured"},
	} {
		t.Run(name, func(t *testing.T) {
			err := checkFloors(rows, []floor{c.floor}, map[string]string{"JobInGroup": "no control groups"})
			if c.bad == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, errRegression)
			require.ErrorContains(t, err, c.bad)
		})
	}
}

// Each floor belongs to a row that is a ratio. A floor without a row, or for a value of the
// machine, would check nothing.
func TestFloorsAreRatiosOfRows(t *testing.T) {
	require.NotEmpty(t, floors)
	for _, f := range floors {
		known := false
		for _, m := range measures(quickSizes) {
			known = known || m.name == f.name && m.limit == f.limit && (m.limit != "" || m.unit == times)
		}
		require.True(t, known, f.name)
		require.NotEmpty(t, f.reason, f.name)
	}
}

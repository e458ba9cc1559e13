package confd

import (
	"github.com/prometheus/client_golang/prometheus"

	"lockstep/core/confd"
)

var (
	packetsDesc = prometheus.NewDesc(
		"lockstep_confd_packets_total",
		"Packets that the server of configuration queries has received, by what it did with them; served and refused were answered.",
		[]string{"outcome"},
		nil,
	)
	pausesDesc = prometheus.NewDesc(
		"lockstep_confd_pauses_total",
		"How often the server of configuration queries has paused because of too many packets without a valid signature.",
		nil,
		nil,
	)
	serialDesc = prometheus.NewDesc(
		"lockstep_confd_serial",
		"Serial number of the configuration that queries are answered from; 0: none yet.",
		nil,
		nil,
	)
	keysDesc = prometheus.NewDesc("lockstep_confd_keys", "Keys that are valid for configuration queries.", nil, nil)
)

// Describe is part of prometheus.Collector. It names the metrics of the server of configuration queries.
func (s *Server) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{packetsDesc, pausesDesc, serialDesc, keysDesc} {
		to <- d
	}
}

// Collect is part of prometheus.Collector. It sends the packets by outcome, the pauses, the serial number of the configuration and the
// number of keys.
func (s *Server) Collect(to chan<- prometheus.Metric) {
	for _, o := range confd.Outcomes() {
		to <- prometheus.MustNewConstMetric(packetsDesc, prometheus.CounterValue, float64(s.counts[o].Load()), o.String())
	}
	to <- prometheus.MustNewConstMetric(pausesDesc, prometheus.CounterValue, float64(s.limit.pauses.Load()))
	to <- prometheus.MustNewConstMetric(serialDesc, prometheus.GaugeValue, float64(s.snapshot.Load().Serial()))
	to <- prometheus.MustNewConstMetric(keysDesc, prometheus.GaugeValue, float64(s.keys.Load().Len()))
}

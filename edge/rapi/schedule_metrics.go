package rapi

import (
	"context"
	"encoding/json"

	"github.com/prometheus/client_golang/prometheus"

	"lockstep/core/answer"
)

// scheduleCollector exports when each schedule has last succeeded, and what it has missed.
type scheduleCollector struct{ server *Server }

// Describe is part of prometheus.Collector. It describes nothing: Collect determines the metrics.
func (s *scheduleCollector) Describe(chan<- *prometheus.Desc) {}

// Collect is part of prometheus.Collector. It asks for the schedules, and sends what became of each; nothing if there is no answer.
func (s *scheduleCollector) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
	defer cancel()
	data, err := s.server.config.Luxi.Call(ctx, Short, "LockstepSchedules", nil)
	var known answer.Schedules
	if err != nil || json.Unmarshal(data, &known) != nil {
		return
	}
	last := newDesc("lockstep_schedule_last_success_timestamp_seconds",
		"End of the last job of a schedule that has succeeded; absent: none has.", "schedule")
	missed := newDesc("lockstep_schedule_missed_total", "Due times of a schedule without jobs, or with late ones.", "schedule")
	active := newDesc("lockstep_schedule_active", "1 if a schedule is neither paused, stopped nor broken.", "schedule")
	for _, one := range known.Schedules {
		if !one.Success.IsZero() {
			to <- prometheus.MustNewConstMetric(last, prometheus.GaugeValue, float64(one.Success.UnixMilli())/1e3, one.Name)
		}
		to <- prometheus.MustNewConstMetric(missed, prometheus.CounterValue, float64(one.Missed), one.Name)
		works := 0.0
		if one.State == "active" {
			works = 1
		}
		to <- prometheus.MustNewConstMetric(active, prometheus.GaugeValue, works, one.Name)
	}
}

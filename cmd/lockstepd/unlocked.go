package main

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"

	"lockstep/actors/config/clusterconfig"
	"lockstep/edge/ratelog"
)

// unlockedCounter is the metric of changes of the configuration without locks.
func unlockedCounter() *prometheus.CounterVec {
	counter := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "lockstep_config_unlocked_changes_total",
		Help: "Calls of WConfD that change an object without its lock, by whether they were refused."}, []string{"refused"})
	for _, refused := range []bool{false, true} {
		counter.WithLabelValues(strconv.FormatBool(refused)) // a counter that is 0 is shown
	}
	return counter
}

// unlockedChanges returns a function that counts and logs changes of the configuration without locks. A client may make thousands a
// second: the log has one line a second with the latest of them, the history of the configuration has all that were done.
func unlockedChanges(log *logrus.Logger, counter *prometheus.CounterVec) func(clusterconfig.Unlocked) {
	lines := ratelog.New(log, logrus.WarnLevel, "a client changes objects of the configuration without their locks", "done", "refused")
	return func(u clusterconfig.Unlocked) {
		counter.WithLabelValues(strconv.FormatBool(u.Refused)).Inc()
		outcome := "done"
		if u.Refused {
			outcome = "refused"
		}
		lines.Record(outcome, logrus.Fields{"method": u.Method, "job": u.Job, "pid": u.PID, "objects": u.Objects})
	}
}

package raftlog

import (
	"fmt"
	"sync"

	"github.com/sirupsen/logrus"
)

// syncer calls Config.Sync until it fails. From then on it returns that error: a sync that has failed is not repeated.
type syncer struct {
	sync   func() error
	failed func(error)
	log    *logrus.Logger

	mu  sync.Mutex
	err error // of the sync that has failed
}

func newSyncer(c *Config) *syncer {
	return &syncer{sync: c.Sync, failed: c.Failed, log: c.Log}
}

// do returns when everything that was applied before the call is durable. After a failure it fails forever, and failed is called.
func (s *syncer) do() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	// The kernel drops what it could not write, so that a second sync would succeed without it.
	if s.err != nil {
		return s.err
	}
	if err := s.sync(); err != nil {
		s.err = fmt.Errorf("the files of applied entries cannot be made durable: %w", err)
		s.log.WithField("err", err).
			Error("sync of the files of applied entries failed; it is not repeated, and the log is kept from the last snapshot on")
		s.failed(s.err)
	}
	return s.err
}

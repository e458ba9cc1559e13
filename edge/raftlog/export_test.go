package raftlog

import (
	"errors"

	"github.com/hashicorp/raft"
)

// TakeSnapshot takes a snapshot and drops the entries before it.
func (l *Log) TakeSnapshot() error { return l.raft.Load().Snapshot().Error() }

// CommandTerms are the terms of the proposals in the log of a stopped node.
func CommandTerms(config Config) (terms []uint64, err error) {
	d, err := openLogStore(&config)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	first, last, err := d.indexRange()
	for index := first; err == nil && index <= last; index++ {
		var entry raft.Log
		if err = d.wal.GetLog(index, &entry); err == nil && entry.Type == raft.LogCommand {
			terms = append(terms, entry.Term)
		}
	}
	return terms, err
}

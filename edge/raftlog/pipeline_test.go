package raftlog

import (
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

// unreadPipeline is a pipeline that accepts the next request only after the answer to the
// previous one was read, as raft's does.
type unreadPipeline struct{ answers chan raft.AppendFuture }

func (u unreadPipeline) AppendEntries(*raft.AppendEntriesRequest, *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	u.answers <- nil
	return nil, nil
}

func (u unreadPipeline) Consumer() <-chan raft.AppendFuture { return u.answers }

func (u unreadPipeline) Close() error { return nil }

func TestPipelineTakesAnswers(t *testing.T) {
	p := &pipeline{AppendPipeline: unreadPipeline{make(chan raft.AppendFuture)},
		onAnswer: func(raft.AppendFuture) {}, answers: make(chan raft.AppendFuture, pipelineMax), closed: make(chan struct{})}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.forward()
	}()
	for range pipelineMax {
		_, err := p.AppendEntries(nil, nil)
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool { return len(p.Consumer()) == pipelineMax }, 10*time.Second, time.Millisecond)
	require.NoError(t, p.Close())
	require.NoError(t, p.Close())
	<-ended
}

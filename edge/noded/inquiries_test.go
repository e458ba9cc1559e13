package noded_test

import (
	"fmt"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"
	"github.com/stretchr/testify/require"

	"lockstep/actors/inquirer"
	"lockstep/actors/kit"
	"lockstep/core/inquiry"
	corenoded "lockstep/core/noded"
	"lockstep/edge/noded"
	"lockstep/edge/noded/nodedtest"
)

// inquiries is an inquirer with the real client, and fake node daemons.
type inquiries struct {
	testing.TB
	env      *kit.Env
	log      *logtest.Hook
	inquirer *actor.PID
	results  chan *inquirer.AskResult
	self     *actor.PID
	daemons  []*nodedtest.Daemon
	close    func()
}

// newInquiries makes count daemons. A call may take callMax.
func newInquiries(t testing.TB, count int, callMax time.Duration) *inquiries {
	b := newBench(t) // for the identities, the files and the port
	log, hook := logtest.NewNullLogger()
	i := &inquiries{TB: t, env: kit.New(kit.Options{Log: log}), log: hook, results: make(chan *inquirer.AskResult, 1000)}
	for n := 1; n <= count; n++ {
		d := nodedtest.Start(t, fmt.Sprint("node", n), net.JoinHostPort(fmt.Sprintf("127.0.%d.%d", 2+n/250, 1+n%250), strconv.Itoa(b.config.Port)), b.server)
		d.Admit(b.master)
		d.Say(corenoded.NodeInfo, fmt.Sprintf(`["boot %d", [], []]`, n))
		i.daemons = append(i.daemons, d)
	}
	port := noded.NewInquiries(noded.NewClient(b.config).WithLimits(callMax, callMax))
	t.Cleanup(port.Close)
	i.close = port.Close
	pid, _, err := i.env.SpawnRoot(inquirer.Props(inquirer.Config{Env: i.env, Daemons: port, Places: corenoded.ParallelMax}), "inquirer")
	require.NoError(t, err)
	i.inquirer = pid
	i.self, _, err = i.env.SpawnRoot(i.env.Props("test", func() actor.Actor {
		return actor.ReceiveFunc(func(ctx actor.Context) {
			if m, is := ctx.Message().(*inquirer.AskResult); is {
				i.results <- m
			}
		})
	}), "test")
	require.NoError(t, err)
	t.Cleanup(func() {
		i.env.System().Root.Stop(i.inquirer)
		i.env.System().Root.Stop(i.self)
	})
	return i
}

// ask asks all nodes for their boot ids.
func (i *inquiries) ask(request uint64) {
	var questions []inquiry.Question
	for _, d := range i.daemons {
		questions = append(questions, inquiry.Question{Node: d.Node(), Request: corenoded.AskNodeInfo(nil, nil)})
	}
	i.env.System().Root.RequestWithCustomSender(i.inquirer, &inquirer.Ask{Request: request, Questions: questions}, i.self)
}

func (i *inquiries) result() []inquiry.Answer {
	i.Helper()
	select {
	case r := <-i.results:
		return r.Answers
	case <-time.After(30 * time.Second):
		require.FailNow(i, "the inquirer does not answer")
		return nil
	}
}

// bootOf returns the boot id of an answer, or its error.
func bootOf(a inquiry.Answer) string {
	if a.Err != nil {
		return a.Err.Error()
	}
	return a.Value.(corenoded.NodeFacts).BootID
}

// Whatever one node daemon does, its cells alone have no value, and a line of the log names node and cause.
func TestAnInquiryOfBadNodes(t *testing.T) {
	i := newInquiries(t, 3, 3*time.Second)
	bad := i.daemons[1]
	for _, c := range []struct {
		name   string
		breaks func()
		cause  string
	}{
		{"nonsense", func() { bad.Inject(nodedtest.Nonsense) }, "the answer is no pair: <html>"},
		{"another shape", func() { bad.Inject(nodedtest.OtherShape) }, "the answer is no pair: {"},
		{"another result", func() { bad.Say(corenoded.NodeInfo, `{"boot": 1}`) }, "the result of node_info: "},
		{"an error", func() { bad.Inject(nodedtest.Refuse) }, "the node daemon answers: injected refusal"},
		{"a bad status", func() { bad.Inject(nodedtest.BadStatus) }, "the node daemon answers with status 500"},
		{"too much", func() { bad.Inject(nodedtest.TooMuch) }, "the answer is longer than 1048576 bytes"},
		{"half", func() { bad.Inject(nodedtest.Half) }, "the answer is incomplete: "},
		{"closed", func() { bad.Inject(nodedtest.CloseBefore) }, "the node daemon closed the connection without an answer"},
		{"slowly", func() { bad.Inject(nodedtest.Slow) }, "no answer within 3s"},
		{"never", func() { bad.Inject(nodedtest.Never) }, "no answer within 3s"},
		{"silent", func() { bad.Inject(nodedtest.Silent) }, "within 3s"},
		{"unknown certificate", func() { bad.UseCertificate(identities.foreign) }, "another certificate than the one of the cluster"},
		{"refused certificate", func() { bad.Admit(); bad.Admit(identities.foreign) }, "the node daemon refuses the client certificate"},
		{"stopped", func() { bad.Stop() }, "connection refused"},
	} {
		bad.Inject(nodedtest.None)
		bad.Say(corenoded.NodeInfo, `["boot 2", [], []]`)
		bad.UseCertificate(identities.server)
		bad.Admit(identities.master)
		i.ask(0)
		require.Equal(t, "boot 2", bootOf(i.result()[1]), "before %s", c.name)
		i.log.Reset()
		c.breaks()
		i.ask(1)
		answers := i.result()
		require.Equal(t, "boot 1", bootOf(answers[0]), c.name)
		require.Equal(t, "boot 3", bootOf(answers[2]), c.name)
		require.ErrorContains(t, answers[1].Err, c.cause, c.name)
		var lines []*logrus.Entry
		for _, e := range i.log.AllEntries() {
			if e.Level <= logrus.WarnLevel {
				lines = append(lines, e)
			}
		}
		require.Len(t, lines, 1, c.name)
		require.Equal(t, []any{"node2", "node_info"}, []any{lines[0].Data["node"], lines[0].Data["op"]})
		require.ErrorContains(t, lines[0].Data["err"].(error), c.cause)
	}
	bad.Restart()
	bad.Admit(identities.master)
	i.ask(2)
	require.Equal(t, "boot 2", bootOf(i.result()[1]))
}

// Queries that come at the same time share one call a node. A query that comes after the request has left makes another call.
func TestInquiriesShareCalls(t *testing.T) {
	i := newInquiries(t, 2, time.Minute)
	release := i.daemons[0].HoldHandshakes()
	defer release()
	for n := range uint64(50) {
		i.ask(n)
	}
	i.daemons[1].Await(1)
	release()
	for range 50 {
		require.Equal(t, "boot 1", bootOf(i.result()[0]))
	}
	require.Len(t, i.daemons[0].Calls(), 1)

	finish := i.daemons[0].Hold()
	defer finish()
	i.ask(100)
	i.daemons[0].Await(2)
	i.daemons[0].Say(corenoded.NodeInfo, `["another boot", [], []]`)
	i.ask(101)
	i.daemons[0].Await(3)
	finish()
	i.result()
	require.Equal(t, "another boot", bootOf(i.result()[0]))
}

// No more than 30 calls are in progress.
func TestInquiriesAreBounded(t *testing.T) {
	i := newInquiries(t, 40, time.Minute)
	var releases []func()
	for _, d := range i.daemons {
		releases = append(releases, d.Hold())
	}
	i.ask(1)
	for _, d := range i.daemons[:corenoded.ParallelMax] {
		d.Await(1)
	}
	for _, d := range i.daemons[corenoded.ParallelMax:] {
		require.Empty(t, d.Calls())
	}
	for _, release := range releases {
		release()
	}
	for n, a := range i.result() {
		require.Equal(t, fmt.Sprint("boot ", n+1), bootOf(a))
	}
}

// Close lets node daemons finish what they have begun.
func TestCloseAwaitsInquiries(t *testing.T) {
	i := newInquiries(t, 1, time.Minute)
	release := i.daemons[0].Hold()
	i.ask(1)
	i.daemons[0].Await(1)
	closed := make(chan struct{})
	go func() { i.close(); close(closed) }()
	release()
	<-closed
	require.Equal(t, "boot 1", bootOf(i.result()[0]))
}

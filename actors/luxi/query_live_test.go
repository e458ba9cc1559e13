package luxi_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/inquirer"
	"lockstep/actors/kittest"
	"lockstep/core/inquiry"
	"lockstep/core/noded"
	"lockstep/messages"
)

// inLiveCluster is inCluster with node daemons.
func inLiveCluster(t *testing.T, f func(*testing.T, *world, *client)) {
	t.Helper()
	inWorldWith(t, true, func(t *testing.T, w *world, c *client) {
		w.useCluster(t)
		f(t, w, c)
	})
}

// nodesSay answers inquiries: node1 and node10 answer, others are down.
func (w *world) nodesSay(m any) any {
	ask, ok := m.(*inquirer.Ask)
	if !ok {
		return nil
	}
	w.inquiries = append(w.inquiries, ask)
	if w.silent {
		return nil
	}
	result := &inquirer.AskResult{Request: ask.Request}
	for _, q := range ask.Questions {
		a := inquiry.Answer{Err: errors.New("down")}
		if q.Node.Name == "node1.example" {
			switch q.Request.Procedure {
			case noded.NodeInfo:
				a = inquiry.Answer{Value: noded.NodeFacts{BootID: "boot"}}
			case noded.AllInstancesInfo:
				a = inquiry.Answer{Value: map[string]noded.InstanceFacts{"mail.example": {Memory: 512, VCPUs: 1}}}
			case noded.ExportList:
				a = inquiry.Answer{Value: []string{"a", "b"}}
			}
		}
		result.Answers = append(result.Answers, a)
	}
	return result
}

// With node daemons a query asks for what only they know, and nothing else.
func TestLiveQueries(t *testing.T) {
	inLiveCluster(t, func(t *testing.T, w *world, c *client) {
		for _, q := range []struct {
			args, want string
			nodes      int
		}{
			{`["node", ["name", "bootid"], null]`, `[[[0,"node1.example"],[0,"boot"]],[[0,"node2.example"],[4,null]],[[0,"node10.example"],[2,null]]]`, 2},
			{`["node", ["name", "role"], null]`, `[[[0,"node1.example"],[0,"M"]],[[0,"node2.example"],[0,"O"]],[[0,"node10.example"],[0,"D"]]]`, 0},
			{`["node", ["name", "bootid"], ["==", "name", "node2"]]`, `[[[0,"node2.example"],[4,null]]]`, 0},
			{`["node", ["name"], ["==", "bootid", "boot"]]`, `[[[0,"node1.example"]],[[0,"node2.example"]],[[0,"node10.example"]]]`, 2}, // a missing value matches
			{`["instance", ["name", "status", "oper_ram"], ["==", "name", "mail"]]`, `[[[0,"mail.example"],[0,"running"],[0,512]]]`, 1},
			{`["export", ["node", "export"], null]`, `[[[0,"node1.example"],[0,"a"]],[[0,"node1.example"],[0,"b"]],[[0,"node2.example"],[4,null]],[[0,"node10.example"],[2,null]]]`, 2},
		} {
			w.inquiries = nil
			require.JSONEq(t, q.want, c.cells(q.args), q.args)
			asked := 0
			for _, i := range w.inquiries {
				asked += len(i.Questions)
			}
			require.Equal(t, q.nodes, asked, q.args)
		}
		for _, q := range [][3]string{
			{"QueryNodes", `[["node1", "node10"], ["name", "bootid"], false]`, `[["node1.example","boot"],["node10.example",null]]`},
			{"QueryInstances", `[["mail"], ["name", "oper_state"], false]`, `[["mail.example",true]]`},
			{"QueryExports", `[["node1"], false]`, `[["node1.example","a"],["node1.example","b"]]`},
		} {
			got, err := jsonOf(c.asks(q[0], q[1]))
			require.NoError(t, err)
			require.JSONEq(t, q[2], got)
		}
		c.Call("Query", `["node", ["name"], ["?", "bootid"]]`)
		require.Contains(t, c.Answer(), "is not boolean")
	})
}

// A restart of the inquirer loses the question: it is asked again. Without any answer the client gets an error.
func TestALiveQueryAcrossARestart(t *testing.T) {
	inLiveCluster(t, func(t *testing.T, w *world, c *client) {
		w.silent = true
		c.Call("Query", `["node", ["bootid"], ["==", "name", "node1"]]`)
		require.Len(t, w.inquiries, 1)
		w.silent = false
		c.Send(c.luxi, &inquirer.Started{})
		c.Settle()
		require.Contains(t, c.Answer(), `[[[0,"boot"]]]`)
		w.silent = true
		c.Call("Query", `["node", ["bootid"], null]`)
		c.Advance(time.Minute)
		require.Contains(t, c.Answer(), "Not all nodes have answered Query in time")
	})
}

// The end of the daemon does not wait for silent nodes.
func TestALiveQueryAtTheEndOfTheDaemon(t *testing.T) {
	inLiveCluster(t, func(t *testing.T, w *world, c *client) {
		w.silent = true
		c.Call("Query", `["node", ["bootid"], null]`)
		probe := c.Probe("root")
		probe.Ask(c.luxi, &messages.Drain{})
		c.Settle()
		require.False(t, c.Closed())
		c.Advance(3 * time.Second)
		require.Contains(t, c.Answer(), "ask again")
		kittest.Expect[*messages.DrainResult](probe)
	})
}

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/confd"
	edgeconfd "lockstep/edge/confd"
)

// withConfd are the flags of a daemon that answers queries at the default address.
var withConfd = []string{"--confd-address", "auto"}

// confdAddresses returns the addresses of all nodes.
func (c *cluster) confdAddresses() []string {
	var all []string
	for _, m := range c.nodes {
		host, _, err := net.SplitHostPort(m.address)
		require.NoError(c.t, err)
		all = append(all, net.JoinHostPort(host, confdPort))
	}
	return all
}

// serial returns the serial number of the configuration in force.
func (m *member) serial() (int64, bool) {
	out, _, code := m.tryCLI("--json", "config", "show")
	var whole struct {
		Serial int64 `json:"serial_no"`
	}
	if code != 0 || json.Unmarshal([]byte(out), &whole) != nil {
		return 0, false
	}
	return whole.Serial, true
}

// commits are the changes that clients know to be made: their serial numbers and the times of their answers.
type commits struct {
	mu  sync.Mutex
	all []struct {
		at     time.Time
		serial int64
	}
}

func (c *commits) add(serial int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, struct {
		at     time.Time
		serial int64
	}{time.Now(), serial})
}

// before returns the highest serial number that was committed before a time.
func (c *commits) before(t time.Time) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	highest := int64(0)
	for _, change := range c.all {
		if change.at.Before(t) {
			highest = max(highest, change.serial)
		}
	}
	return highest
}

func (c *commits) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.all)
}

// change changes the configuration over and over, through each node in turn, until the context ends.
func (c *cluster) change(ctx context.Context, made *commits) {
	for i := 0; ctx.Err() == nil; i++ {
		m := c.nodes[i%len(c.nodes)]
		if _, _, code := m.tryCLI("config", "set", "max_running_jobs="+strconv.Itoa(2+i%100)); code == 0 {
			if serial, known := m.serial(); known {
				made.add(serial)
			}
		}
	}
}

// At every moment of a failover at least one node answers, from a configuration that has every change that was committed half a second
// before.
func TestClusterAnswersQueriesDuringFailovers(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, withConfd...)
	key, err := os.ReadFile(c.nodes[0].path("lib", "hmac.key"))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var made commits
	var working sync.WaitGroup
	working.Go(func() { c.change(ctx, &made) })
	rounds, violations := 0, []string{}
	working.Go(func() {
		for ctx.Err() == nil {
			rounds++
			if text := c.askAtOnce(key, &made); text != "" {
				violations = append(violations, text)
			}
		}
	})
	defer func() { cancel(); working.Wait() }()
	for range 3 {
		before := made.count()
		c.eventually("no change is made", func() error { return unless(made.count() > before+3, "only %d changes", made.count()) })
		master := c.master()
		master.crash()
		before = made.count()
		c.eventually("no change is made after the failover", func() error { return unless(made.count() > before, "no change") })
		master.start()
		c.awaitUp(master)
	}
	cancel()
	working.Wait()
	require.Empty(t, violations, "of %d rounds", rounds)
	t.Logf("%d rounds of queries, %d changes", rounds, made.count())
	require.Greater(t, rounds, made.count(), "queries are made all the time")
}

// A change that a client knows to be made is in the answers half a second later, although the master is killed at the moment of its
// answer: the other nodes know of the commit already.
func TestClusterAnswersAfterAKillAtTheAnswer(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, withConfd...)
	key, err := os.ReadFile(c.nodes[0].path("lib", "hmac.key"))
	require.NoError(t, err)
	const kills = 10
	for i := range kills {
		before := c.agreedSerial(key)
		master := c.master()
		client := master.dial()
		client.call("LockstepSetSettings", nil, map[string]any{"max_running_jobs": 30 + i})
		require.NoError(t, master.cmd.Process.Kill())
		<-time.After(500 * time.Millisecond) // the promise is about this moment
		serial, err := c.freshestSerial(key)
		require.NoError(t, err)
		require.Greater(t, serial, before, "kill %d", i)
		master.crash()
		master.start()
		c.awaitUp(master)
	}
}

// agreedSerial waits until all nodes answer from the same configuration, and returns its serial number.
func (c *cluster) agreedSerial(key []byte) (serial int64) {
	c.t.Helper()
	c.eventually("the nodes do not agree", func() error {
		answers := c.askSerial(key)
		serial = answers[0].ConfigSerial
		for _, a := range answers {
			if a.Err != nil || a.Reply.Status != confd.StatusOK || a.ConfigSerial != serial {
				return fmt.Errorf("%+v", answers)
			}
		}
		return nil
	})
	return serial
}

// freshestSerial returns the serial number of the freshest answer of all nodes.
func (c *cluster) freshestSerial(key []byte) (int64, error) {
	answers := c.askSerial(key)
	best := edgeconfd.Freshest(answers)
	if best < 0 || answers[best].Reply.Status != confd.StatusOK {
		return 0, fmt.Errorf("no answer: %+v", answers)
	}
	var serial int64
	return serial, json.Unmarshal(answers[best].Reply.Answer, &serial)
}

// askSerial asks all nodes for the serial number of the configuration.
func (c *cluster) askSerial(key []byte) []edgeconfd.Answer {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return edgeconfd.AskAll(ctx, key, c.confdAddresses(), confd.Query{Type: confd.ConfigPath, Argument: json.RawMessage(`"/serial_no"`)})
}

func unless(ok bool, format string, args ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf(format, args...)
}

// askAtOnce asks all nodes, and returns what is wrong with their answers.
func (c *cluster) askAtOnce(key []byte, made *commits) string {
	began := time.Now()
	want := made.before(began.Add(-500 * time.Millisecond))
	serial, err := c.freshestSerial(key)
	if err != nil {
		return fmt.Sprintf("%v: %v", began, err)
	}
	if serial < want {
		return fmt.Sprintf("%v: serial %d, committed is %d", began, serial, want)
	}
	return ""
}

// All nodes have the key of the first one. After a rotation all have the new one, and accept both.
func TestClusterRotatesTheKeyOfQueries(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, withConfd...)
	former := c.sharedKey(t)
	require.Len(t, former, confd.KeySize)
	first := c.nodes[0]
	info, err := os.Stat(first.path("lib", "hmac.key"))
	require.NoError(t, err)
	require.EqualValues(t, 0o440, info.Mode().Perm())

	out := c.nodes[1].cli("confd", "query", "master", "--data-dir", c.nodes[1].path("lib"))
	require.Contains(t, []string{"n1\n", "n2\n", "n3\n"}, out)
	down := c.nodes[2]
	down.crash()
	c.awaitMaster()
	require.Contains(t, first.cli("confd", "rotate-key"), "10m0s")
	now := first.key(t)
	require.NotEqual(t, former, now)
	c.eventually("the other node has the former key", func() error { return unless(c.nodes[1].key(t) == now, "it has not the new key") })
	down.start()
	c.eventually("the node that was down has the former key", func() error {
		return unless(down.key(t) == now, "it has not the new key")
	})
	for _, key := range []string{former, now} {
		for _, address := range c.confdAddresses() {
			c.eventually("a node does not accept both keys", func() error {
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				defer cancel()
				answers := edgeconfd.AskAll(ctx, []byte(key), []string{address}, confd.Query{Type: confd.Ping})
				return answers[0].Err
			})
		}
	}
	text, _, code := first.tryCLI("--json", "confd", "query", "/serial_no", "--data-dir", first.path("lib"))
	require.Zero(t, code, text)
	require.Equal(t, 3, strings.Count(text, `"address"`))
}

func (m *member) key(t *testing.T) string {
	content, err := os.ReadFile(m.path("lib", "hmac.key"))
	require.NoError(t, err)
	return string(content)
}

// sharedKey returns the key that all nodes have.
func (c *cluster) sharedKey(t *testing.T) string {
	key := c.nodes[0].key(t)
	for _, m := range c.nodes {
		require.Equal(t, key, m.key(t), m.name)
	}
	return key
}

// awaitMaster waits until one of the nodes is the master.
func (c *cluster) awaitMaster() {
	c.t.Helper()
	c.eventually("there is no master", func() error { _, err := c.findMaster(); return err })
}

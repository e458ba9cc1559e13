package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"lockstep/core/answer"
	"lockstep/core/paths"
	"lockstep/edge/luxiclient"
)

// callMaster makes a call of WConfD on a connection of its own at the node that serves it. A call without an answer is not repeated.
func (c *cluster) callMaster(method string, result any, args ...any) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		for _, m := range c.nodes {
			conn, err := luxiclient.Dial(ctx, m.path("run", "socket", "ganeti-wconfd"), luxiclient.Options{AnswerTimeout: patience})
			if err != nil {
				continue
			}
			if err = conn.Call(ctx, "echo", []any{"here"}, nil); err == nil {
				err = conn.Call(ctx, method, args, result)
				_ = conn.Close()
				return err
			}
			_ = conn.Close()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// configLoad are clients that add tags to an object of the configuration each, and what they were told.
type configLoad struct {
	c       *cluster
	stopped chan struct{}
	running sync.WaitGroup

	mu       sync.Mutex
	objects  map[string]string   // by kind: the key of the object that gets the tags
	tags     map[string][]string // of answered updates, by kind of object
	serial   int64               // the highest one that was read
	answered int
	said     []string // each update with its answer, for a failure
}

// updates are the calls that change an object of a kind.
var updates = map[string]string{"cluster": "updateCluster", "nodegroups": "updateNodeGroup", "nodes": "updateNode"}

func (c *cluster) loadConfig() *configLoad {
	l := &configLoad{c: c, stopped: make(chan struct{}), objects: map[string]string{}, tags: map[string][]string{}}
	c.t.Cleanup(l.explain)
	for kind := range updates {
		l.running.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-l.stopped:
					return
				default:
					l.addTag(kind, fmt.Sprintf("tag%d", n))
				}
			}
		})
	}
	return l
}

// read reads the configuration, and an object of a kind in it: always the same one, although nodes may still be added.
func (l *configLoad) read(kind string) (serial int64, object map[string]any, err error) {
	var whole map[string]json.RawMessage
	if err := l.c.callMaster("readConfig", &whole); err != nil {
		return 0, nil, err
	}
	if kind == "cluster" {
		return serial, object, errors.Join(json.Unmarshal(whole["serial_no"], &serial), json.Unmarshal(whole[kind], &object))
	}
	var all map[string]map[string]any
	err = errors.Join(json.Unmarshal(whole["serial_no"], &serial), json.Unmarshal(whole[kind], &all))
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil && l.objects[kind] == "" {
		l.objects[kind] = slices.Min(slices.Collect(maps.Keys(all)))
	}
	return serial, all[l.objects[kind]], err
}

// addTag adds a tag to an object. A refusal adds none.
func (l *configLoad) addTag(kind, tag string) {
	l.mu.Lock()
	before := l.serial
	l.mu.Unlock()
	serial, object, err := l.read(kind)
	if err != nil {
		return
	}
	assert.GreaterOrEqual(l.c.t, serial, before, "the serial number has fallen")
	tags, _ := object["tags"].([]any)
	object["tags"] = append(tags, tag)
	sent := time.Now()
	err = l.c.callMaster(updates[kind], nil, object)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.said = append(l.said, fmt.Sprintf("%s to %s: %s adds %s to what it has read with serial number %d, its own %v: %v",
		sent.Format(time.StampMilli), time.Now().Format("05.000"), kind, tag, serial, object["serial_no"], err))
	l.serial = max(l.serial, serial)
	if err == nil {
		l.tags[kind], l.answered = append(l.tags[kind], tag), l.answered+1
	}
}

// explain prints, after a failure, what was answered, and the journals of the nodes.
func (l *configLoad) explain() {
	if !l.c.t.Failed() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.c.t.Logf("the updates:\n%s", strings.Join(l.said, "\n"))
	for _, m := range l.c.nodes {
		for _, file := range []string{paths.ConfigJournalPath, paths.ConfigHistoryPath} {
			content, err := os.ReadFile(m.path("lib", file))
			l.c.t.Logf("%s of %s (%v):\n%s", file, m.name, err, content[max(0, len(content)-100_000):])
		}
	}
}

// more waits for some more answers.
func (l *configLoad) more(count int) {
	l.c.t.Helper()
	count += l.count()
	l.c.eventually("the configuration cannot be changed", func() error {
		if is := l.count(); is < count {
			return fmt.Errorf("%d answers, not %d", is, count)
		}
		return nil
	})
}

func (l *configLoad) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.answered
}

// check requires that the master serves all that was answered, and that each node has its ssconf files.
func (l *configLoad) check() {
	t := l.c.t
	t.Helper()
	var clusterTags []string
	for kind := range updates {
		serial, object, err := l.read(kind)
		require.NoError(t, err)
		require.GreaterOrEqual(t, serial, l.serial)
		var tags []string
		for _, tag := range object["tags"].([]any) {
			tags = append(tags, tag.(string))
		}
		require.Subset(t, tags, l.tags[kind], kind)
		if kind == "cluster" {
			clusterTags = slices.Sorted(slices.Values(tags))
		}
	}
	for _, m := range l.c.nodes {
		l.c.eventually(m.name+" has other ssconf files", func() error {
			content, err := os.ReadFile(m.path("lib", paths.SsconfPrefix+"cluster_tags"))
			if err != nil {
				return err
			}
			got := strings.Fields(string(content))
			slices.Sort(got)
			if !slices.Equal(got, clusterTags) {
				return fmt.Errorf("%q, not %q", got, clusterTags)
			}
			return nil
		})
	}
}

// The master is killed in the middle of changes of the configuration. Each answered change is in what the next master serves,
// the serial number never falls, and each node writes its own ssconf files.
func TestClusterConfigFailover(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	l := c.loadConfig()
	l.more(20)
	for range 3 {
		master := c.master()
		master.crash()
		l.more(20)
		master.start()
		c.awaitUp(master)
		l.more(5)
	}
	close(l.stopped)
	l.running.Wait()
	l.check()
	c.awaitEqual()
}

// node check finds a config.data that another program has written on a node, and --repair replaces it. The node then has the
// changes of the log again.
func TestClusterConfigRepair(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	master := c.master()
	other := c.others(master)[0]
	set := func(slots int) { c.user(0).must("LockstepSetSettings", nil, map[string]any{"max_running_jobs": slots}) }
	set(7)
	path := other.path("lib", paths.ConfigPath)
	c.eventually("the change is not in the file", func() error { return hasText(path, `"max_running_jobs":7`) })
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	foreign := strings.Replace(string(content), `"max_running_jobs":7`, `"max_running_jobs":99`, 1)
	var out string
	c.eventually("node check does not find the file", func() error { // the node may be about to write the file
		require.NoError(t, os.WriteFile(path+".foreign", []byte(foreign), 0o640))
		require.NoError(t, os.Rename(path+".foreign", path))
		set(8)
		var code int
		if out, _, code = master.tryCLI("node", "check", "--json"); code != 1 {
			return errors.New(out)
		}
		return nil
	})
	var found answer.NodesCheck
	require.NoError(t, json.Unmarshal([]byte(out), &found))
	differs := map[string][]string{}
	for _, n := range found.Nodes {
		for _, f := range n.Differs {
			differs[n.Name] = append(differs[n.Name], f.Path)
		}
	}
	require.Contains(t, differs[other.name], paths.ConfigPath)
	require.Len(t, differs, 1)

	master.cli("node", "check", "--repair")
	master.cli("node", "check")
	c.eventually("the file is not repaired", func() error { return hasText(path, `"max_running_jobs":8`) })
	set(9)
	c.eventually("the node does not follow", func() error { return hasText(path, `"max_running_jobs":9`) })
	c.promote(other)
	var is map[string]json.RawMessage
	require.NoError(t, c.callMaster("readConfig", &is))
	require.Contains(t, string(is["cluster"]), `"max_running_jobs":9`)
}

// hasText reports a file without a text.
func hasText(path, text string) error {
	content, err := os.ReadFile(path)
	if err == nil && !strings.Contains(string(content), text) {
		err = fmt.Errorf("%s has no %s", path, text)
	}
	return err
}

// A node whose journal of the configuration is damaged does not start: its message names the file and the command that goes on. The
// other nodes serve meanwhile. After the command the node has what the log says.
func TestClusterDamagedJournal(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	master := c.master()
	other := c.others(master)[0]
	set := func(slots int) {
		c.user(indexOf(c, master)).must("LockstepSetSettings", nil, map[string]any{"max_running_jobs": slots})
	}
	set(7)
	path := other.path("lib", paths.ConfigPath)
	c.eventually("the change is not in the file", func() error { return hasText(path, `"max_running_jobs":7`) })
	other.end()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	lines, serial := twoRecords(t, content)
	lines[0][len(lines[0])/2] ^= 1
	damaged := append(lines[0], lines[1]...)
	journal := other.path("lib", paths.ConfigJournalPath)
	require.NoError(t, os.WriteFile(journal, damaged, 0o600))

	require.Error(t, other.tryStart())
	require.Contains(t, other.logged(), fmt.Sprintf("%s is damaged after serial number %d", paths.ConfigJournalPath, serial))
	command := "lockstep config fold --discard-rest --data-dir " + other.path("lib")
	require.Contains(t, other.logged(), command)
	kept, err := os.ReadFile(journal)
	require.NoError(t, err)
	require.Equal(t, damaged, kept)
	set(8)

	other.cli(strings.Fields(command)[1:]...)
	require.NoFileExists(t, journal)
	other.start()
	c.awaitUp(other)
	c.eventually("the node does not follow", func() error { return hasText(path, `"max_running_jobs":8`) })
	c.awaitEqual()
}
